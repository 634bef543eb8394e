"""InfiniBand packets and datagrams as they pass a link (:mod:`emu.server.net.link`).

A corrupted one goes no further: the port that receives it notices by its CRCs (IBTA 7.8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from emu.device.port.datagram import Datagram
from emu.device.port.ib.framing import with_fecn


@dataclass(frozen=True, slots=True)
class IbLinkPacket:
    """A packet as its bytes; implements :class:`emu.server.net.link.link_packet.LinkPacket`."""

    frame: bytes
    carry: Callable[[bytes], object]

    @property
    def octets(self) -> int:
        """Bytes of the packet."""
        return len(self.frame)

    def keep(self) -> IbLinkPacket:
        """It has bytes of its own."""
        return self

    def marked(self) -> IbLinkPacket:
        """The packet with its forward congestion notification (FECN)."""
        return replace(self, frame=with_fecn(self.frame))

    def corrupted(self, draw: int) -> None:
        """Nobody gets it."""

    def go_on(self) -> None:
        """Hand the packet on."""
        self.carry(self.frame)


@dataclass(frozen=True, slots=True)
class DatagramLinkPacket:
    """An unreliable datagram; implements :class:`emu.server.net.link.link_packet.LinkPacket`."""

    datagram: Datagram
    carry: Callable[[Datagram], None]

    @property
    def octets(self) -> int:
        """Bytes of its packet."""
        return self.datagram.octets

    def keep(self) -> DatagramLinkPacket:
        """Its data are views of a guest's memory until they are copied."""
        data = memoryview(b"".join(self.datagram.data))
        return replace(self, datagram=replace(self.datagram, data=(data,)))

    def marked(self) -> None:
        """Nobody would look at the mark."""

    def corrupted(self, draw: int) -> None:
        """Nobody gets it."""

    def go_on(self) -> None:
        """Hand the datagram on."""
        self.carry(self.datagram)
