"""Configuration space as a bus driver handles it: by width, by capability id."""

from dataclasses import dataclass, field, replace

from emu.device.models import MODELS
from emu.device.pci import ConfigSpace

GUID = 0x506B_4B03_00C0_FFEE
END_OF_LIST = 0


@dataclass
class CrWords:
    """A CR space that remembers what was written."""

    size: int = 0x2000
    written: dict[int, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    far_words: dict[int, int] = field(default_factory=lambda: {0xF0014: 0x20F})

    def read(self, address):
        self.asked.append(address)
        return self.written.get(address, address ^ 0x5A5A_0000)

    def write(self, address, value):
        self.written[address] = value


@dataclass
class IcmdEcho:
    """Remembers the commands; each turns its mailbox's first word over and has status 5."""

    ran: list[tuple[int, bytes]] = field(default_factory=list)

    def run(self, opcode, mailbox):
        self.ran.append((opcode, bytes(mailbox[:8])))
        mailbox[:4] = mailbox[3::-1]
        return 5


class Bus:
    """A function's configuration space, accessed in words."""

    def __init__(self, model="connectx6", **options):
        identity = MODELS[model].identity.with_guid(GUID)
        self.identity = replace(identity, **options.pop("identity", {}))
        self.cr = options.setdefault("crspace", CrWords())
        self.icmd = options.setdefault("icmd", IcmdEcho())
        self.flrs = 0
        options.setdefault("on_flr", self._count_flr)
        self.space = ConfigSpace(
            self.identity, **{"bar0_size": 32 << 20, "msix_vectors": 64, **options}
        )

    def _count_flr(self):
        self.flrs += 1

    def get(self, offset, length):
        return int.from_bytes(self.space.read(offset, length), "little")

    def put(self, offset, length, value):
        self.space.write(offset, value.to_bytes(length, "little"))

    def capabilities(self):
        """{id: offset} along the list, checking that it ends."""
        found = {}
        at = self.get(0x34, 1)
        while at != END_OF_LIST:
            assert at % 4 == 0
            assert at not in found.values()
            found[self.get(at, 1)] = at
            at = self.get(at + 1, 1)
        return found

    def extended_capabilities(self):
        """{id: (offset, version)} along the list from 0x100."""
        found = {}
        at = 0x100
        while at != END_OF_LIST:
            head = self.get(at, 4)
            assert head & 0xFFFF not in found
            found[head & 0xFFFF] = (at, head >> 16 & 0xF)
            at = head >> 20
        return found


class ConfigurationSpace:
    """What :class:`Gateway` needs of a bus, in front of a whole function."""

    VENDOR = 0xC0

    def __init__(self, function):
        self._function = function

    def get(self, offset, length):
        return int.from_bytes(self._function.config_read(offset, length), "little")

    def put(self, offset, length, value):
        self._function.config_write(offset, value.to_bytes(length, "little"))

    def capabilities(self):
        assert self.get(self.VENDOR, 1) == 9
        return {9: self.VENDOR}
