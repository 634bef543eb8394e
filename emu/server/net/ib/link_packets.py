"""InfiniBand packets and datagrams as packets of a link (:mod:`emu.server.net.link`).

A corrupted packet is dropped: the receiving port would detect it by its CRCs (IBTA 7.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from emu.device.port.datagram import Datagram
from emu.device.port.ib.framing import with_fecn


@dataclass(frozen=True, slots=True)
class IbLinkPacket:
    """A packet in bytes; implements :class:`emu.server.net.link.direction.LinkPacket`."""

    frame: bytes
    carry: Callable[[bytes], object]

    @property
    def octets(self) -> int:
        """Bytes of the packet."""
        return len(self.frame)

    def keep(self) -> IbLinkPacket:
        """Return the packet itself, which owns its bytes."""
        return self

    def marked(self) -> IbLinkPacket:
        """Return the packet with forward explicit congestion notification (FECN)."""
        return replace(self, frame=with_fecn(self.frame))

    def corrupted(self, draw: int) -> None:
        """Return None: the receiver would drop the packet."""

    def go_on(self) -> None:
        """Forward the packet."""
        self.carry(self.frame)


@dataclass(frozen=True, slots=True)
class DatagramLinkPacket:
    """An unreliable datagram; implements :class:`emu.server.net.link.direction.LinkPacket`."""

    datagram: Datagram
    carry: Callable[[Datagram], None]

    @property
    def octets(self) -> int:
        """Bytes of its packet."""
        return self.datagram.octets

    def keep(self) -> DatagramLinkPacket:
        """Return the datagram with a copy of its data, which are views of guest memory."""
        data = memoryview(b"".join(self.datagram.data))
        return replace(self, datagram=replace(self.datagram, data=(data,)))

    def marked(self) -> None:
        """Return None: no receiver evaluates the mark."""

    def corrupted(self, draw: int) -> None:
        """Return None: the receiver would drop the datagram."""

    def go_on(self) -> None:
        """Forward the datagram."""
        self.carry(self.datagram)
