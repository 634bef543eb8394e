"""Ethernet frames as packets of a link (:mod:`emu.server.net.link`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from emu.device.port.eth.congestion import with_mark
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import ETHERNET_BYTES, FrameError
from emu.device.port.eth.plain import plain


@dataclass(frozen=True, slots=True)
class FrameLinkPacket:
    """Implements :class:`emu.server.net.link.direction.LinkPacket`."""

    frame: Frame
    carry: Callable[[Frame], None]

    @property
    def octets(self) -> int:
        """Bytes of the frame."""
        return len(self.frame.data)

    def keep(self) -> FrameLinkPacket:
        """Return the packet itself, whose frame owns its bytes."""
        return self

    def marked(self) -> FrameLinkPacket | None:
        """Return the packet with ECN's "congestion experienced" in its IP header.

        Return None for a packet whose sender does not support ECN, or without an IP header.
        """
        data = with_mark(self.frame.data)
        return None if data is None else replace(self, frame=replace(self.frame, data=data))

    def corrupted(self, draw: int) -> FrameLinkPacket | None:
        """Return the packet with one inverted bit behind its Ethernet header.

        An unfinished checksum is inserted first.
        """
        data = bytearray(plain(self.frame)[0])
        bit = draw % ((len(data) - ETHERNET_BYTES) * 8)
        data[ETHERNET_BYTES + bit // 8] ^= 1 << bit % 8
        return replace(self, frame=Frame(bytes(data)))

    def go_on(self) -> None:
        """Forward the frame."""
        self.carry(self.frame)


def link_packets(frame: Frame, carry: Callable[[Frame], None]) -> Iterator[FrameLinkPacket]:
    """Yield a frame, or the frames that a super-frame stands for, as packets of a link.

    A super-frame that cannot be cut yields none.
    """
    if not frame.gso_size:
        yield FrameLinkPacket(frame, carry)
        return
    try:
        pieces = plain(frame)
    except FrameError:
        return
    for data in pieces:
        yield FrameLinkPacket(Frame(data), carry)
