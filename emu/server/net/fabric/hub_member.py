"""A member process of a fabric, as the hub knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.device.port.ib.endport import EndPort
from emu.device.ports import Timer
from emu.server.net.fabric import port_frames
from emu.server.net.fabric.protocol import Identity


@dataclass(slots=True)
class HubMember:
    """A member process."""

    number: int
    identities: list[Identity] = field(default_factory=list)
    ports: dict[int, EndPort] = field(default_factory=dict)
    """The ports that the member has reported, by LID."""
    is_greeted: bool = False
    has_ethernet: bool = False
    """Whether a function of the member has an Ethernet port."""
    is_informed: bool = False
    """Whether the member was sent the current state of all ports."""
    guids: bytes = b""
    """The last sent GUIDS body."""
    patience: Timer | None = None
    """Timer of the deadline for HELLO."""
    missed: int = 0
    """Number of consecutive reports that were due while the member had unread ones."""
    packed: dict[int, bytes] = field(default_factory=dict)
    """Packed ports of the member, by LID, as far as already packed."""

    def unpacked(self) -> list[EndPort]:
        """Return the reported ports of the member that :meth:`pack` packs anew."""
        return [self.ports[lid] for lid in self.ports.keys() - self.packed.keys()]

    def pack(self) -> bytes:
        """Return the bodies of all reported ports of the member; pack only changed ports anew."""
        for port in self.unpacked():
            self.packed[port.lid] = port_frames.port(port)
        return b"".join(self.packed.values())
