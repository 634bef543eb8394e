"""The packets of a link: packets, frames or datagrams of any link layer."""

from __future__ import annotations

from typing import Protocol


class LinkPacket(Protocol):
    """A packet in flight, and the path behind the link."""

    @property
    def octets(self) -> int:
        """Bytes on the wire."""

    def keep(self) -> LinkPacket:
        """Return the packet with bytes of its own, which stay valid until it is forwarded."""

    def marked(self) -> LinkPacket | None:
        """Return the packet with a congestion mark; None if its sender does not support marks."""

    def corrupted(self, draw: int) -> LinkPacket | None:
        """Return the packet with one bit inverted, chosen by the 64-bit ``draw``.

        None where the receiver would drop it by its CRC.
        """

    def go_on(self) -> None:
        """Forward the packet behind the link. Never raises."""
