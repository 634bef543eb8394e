"""The vendor-specific capability: a gateway into the device's own address spaces.

Registers and protocol follow core/lib/pci_vsc.c: a driver locks the gateway by writing a ticket
from the counter into the semaphore, then selects a space. The driver reads or writes one word at a
time through an address register, whose top bit gives the direction and signals completion.
core/diag/crdump.c dumps the scan space this way for devlink health; iPXE and mstflint access
registers by ICMD.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from emu.device.pci.capabilities import Capability
from emu.device.pci.icmd import Icmd, IcmdSpace
from emu.device.pci.registers import Register, RegisterWindow, dword, ro, rw

CAP_ID: Final = 0x09
SPACE_ICMD_EXT: Final = 0x1
SPACE_CR: Final = 0x2
SPACE_ICMD: Final = 0x3
SPACE_NODNIC: Final = 0x4
SPACE_SCAN_CR: Final = 0x7
SPACE_SEMAPHORE: Final = 0xA

FLAG: Final = 1 << 31
SYNDROME: Final = 1 << 30
ADDRESS_MASK: Final = SYNDROME - 1

BAD_WORD: Final = 0xBADACCE5
"""The data register after a refused read; crdump.c writes the same for unreadable words."""

_SIZE: Final = 0x18
_SIZE_VALID: Final = 1 << 28
_SUPPORTED: Final = 1 << 29
_SPACE_MASK: Final = 0xFFFF
_WORD_MASK: Final = 0xFFFF_FFFF
_LOCKS: Final = 0x100


class CrSpaceAccess(Protocol):
    """The device's configuration registers (CR space), in 32-bit words.

    The gateway only uses addresses below ``size`` that are multiples of 4.
    """

    @property
    def size(self) -> int:
        """Size in bytes, a multiple of 4."""

    @property
    def far_words(self) -> Mapping[int, int]:
        """Read-only words at addresses from ``size`` on; scans exclude them."""

    def read(self, address: int) -> int:
        """Return the word at a byte address."""

    def write(self, address: int, value: int) -> None:
        """Store a word at a byte address."""


class WordSpace(Protocol):
    """An address space behind the gateway, in 32-bit words."""

    def read(self, address: int) -> int | None:
        """Return the word at a byte address; None for an unused or unaligned address."""

    def write(self, address: int, value: int) -> bool:
        """Store a word; return False, without a change, unless the address is writable."""


class _Cr:
    """CR space: read by address, or scanned from the start; read-only."""

    def __init__(self, crspace: CrSpaceAccess, *, scan: bool) -> None:
        self._crspace = crspace
        self._scan = scan

    def read(self, address: int) -> int | None:
        """Return a word; None for an unaligned address or one beyond the space.

        Far words are read by address only, not in a scan.
        """
        if not self._scan and address in self._crspace.far_words:
            return self._crspace.far_words[address]
        return self._crspace.read(address) & _WORD_MASK if self._has(address) else None

    def write(self, address: int, value: int) -> bool:
        """Pass a word to CR space; return False in the scan space and for an invalid address."""
        is_taken = self._has(address) and not self._scan
        if is_taken:
            self._crspace.write(address, value)
        return is_taken

    def _has(self, address: int) -> bool:
        return not address % 4 and address < self._crspace.size


class _Locks:
    """Lock registers: a free one stores the first value written, 0 frees it.

    A program that did not get the lock reads the owner's value back (core/lib/pci_vsc.c:
    mlx5_vsc_sem_set_space).
    """

    def __init__(self) -> None:
        self._owners = [0] * _LOCKS

    def read(self, address: int) -> int | None:
        return self._owners[address] if address < _LOCKS else None

    def write(self, address: int, value: int) -> bool:
        if address >= _LOCKS:
            return False
        self._owners[address] = _owner_after(self._owners[address], value)
        return True

    def clear(self) -> None:
        """Free every lock."""
        self._owners = [0] * _LOCKS


def _owner_after(owner: int, value: int) -> int:
    """Return a lock's owner after ``value`` was written: the owner stays unless ``value`` is 0.

    A free lock (0) takes the value.
    """
    return owner if owner and value else value


class Vsc:
    """The gateway's behaviour. Its registers are in configuration space, its locks here."""

    def __init__(
        self, crspace: CrSpaceAccess, icmd: Icmd, boot_nic: WordSpace | None = None
    ) -> None:
        self._locks = _Locks()
        self._icmd = IcmdSpace(icmd)
        self._spaces: dict[int, WordSpace] = {
            SPACE_CR: _Cr(crspace, scan=False),
            SPACE_ICMD: self._icmd,
            # mstflint opens only a device that has both numbers (mtcr_ul_com.c: VSEC_SUPPORTED_UL).
            SPACE_ICMD_EXT: self._icmd,
            SPACE_SCAN_CR: _Cr(crspace, scan=True),
            SPACE_SEMAPHORE: self._locks,
        }
        if boot_nic is not None:
            self._spaces[SPACE_NODNIC] = boot_nic
        self._sizes = dict.fromkeys((SPACE_CR, SPACE_SCAN_CR), crspace.size)
        """Bytes of the spaces whose size a driver reads."""

    def capability(self) -> Capability:
        """Return the capability, whose registers act on this gateway when written.

        The third byte of its head is its length.
        """
        control = (rw("space", 0, 16), ro("size_valid", 28, 1, 0), ro("status", 29, 3, 0))
        address = (rw("address", 0, 30), ro("syndrome", 30, 1, 0), rw("flag", 31))
        return Capability(
            "vendor",
            CAP_ID,
            _SIZE,
            (
                Register("length", 2, 1, (ro("bytes", 0, 8, _SIZE),)),
                Register("control", 4, 4, control, on_write=self._select),
                Register("counter", 8, 4, on_read=_next_ticket),
                Register("semaphore", 0xC, 4, (rw("owner", 0, 32),), on_write=_acquire_or_free),
                Register("address", 0x10, 4, address, on_write=self._access, trigger=FLAG),
                dword("data", 0x14, rw("word", 0, 32)),
            ),
        )

    def reset(self) -> None:
        """Free the locks that the reset function may have held, and clear the mailbox."""
        self._locks.clear()
        self._icmd.clear()

    def _select(self, regs: RegisterWindow, _before: int) -> None:
        """Select a space and load its size into the address register.

        An unknown space gets status 0 in the control register, and the address register stays.
        """
        number = regs["control"] & _SPACE_MASK
        if number not in self._spaces:
            regs["control"] = number
            return
        size = self._sizes.get(number, 0)
        regs["control"] = number | _SUPPORTED | (_SIZE_VALID if size else 0)
        regs["address"] = size & ADDRESS_MASK

    def _access(self, regs: RegisterWindow, _before: int) -> None:
        """Read or write one word at once; the flag flips before the driver can read it.

        A scan also advances the address. An unknown space and a refused address set the syndrome
        bit and load BAD_WORD into the data register. An access to the NIC of boot firmware frees
        the semaphore: iPXE holds it, and takes it again before its driver ends (golan_remove).
        """
        address = regs["address"] & ADDRESS_MASK
        writing, number = regs["address"] & FLAG, regs["control"] & _SPACE_MASK
        if not self._move(regs, number, address):
            regs["data"] = BAD_WORD
            address |= SYNDROME
        elif number == SPACE_NODNIC:
            regs["semaphore"] = 0
        elif number == SPACE_SCAN_CR:
            address += 4
        regs["address"] = address | (FLAG ^ writing)

    def _move(self, regs: RegisterWindow, number: int, address: int) -> bool:
        """Read or write a word of a space; return False for an unknown space or address."""
        space = self._spaces.get(number)
        if space is None:
            return False
        if regs["address"] & FLAG:
            return space.write(address, regs["data"])
        word = space.read(address)
        if word is not None:
            regs["data"] = word
        return word is not None


def _next_ticket(regs: RegisterWindow) -> None:
    """Return a different number on each read, never 0: a free semaphore reads as 0."""
    regs["counter"] = regs["counter"] % _WORD_MASK + 1


def _acquire_or_free(regs: RegisterWindow, before: int) -> None:
    regs["semaphore"] = _owner_after(before, regs["semaphore"])
