"""What passes a link: a packet, a frame or a datagram, whatever the link layer."""

from __future__ import annotations

from typing import Protocol


class LinkPacket(Protocol):
    """One packet on its way, and how it goes on behind the link."""

    @property
    def octets(self) -> int:
        """Bytes on the wire."""

    def keep(self) -> LinkPacket:
        """The same with bytes of its own, which last: it will go on later."""

    def marked(self) -> LinkPacket | None:
        """The same with its congestion mark; None if its sender does not understand the mark."""

    def corrupted(self, draw: int) -> LinkPacket | None:
        """The same with a bit inverted, chosen by a 64-bit number; None if nobody gets it."""

    def go_on(self) -> None:
        """Carry it on behind the link. Never raises."""
