"""An Ethernet port without RoCE, as the transport services see it: they reach nobody.

Queue pairs can be made, as mlx5_ib makes some for itself on any port; what they send is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from emu.port.ib.datagram import Datagram, Origin
from emu.port.packet import Packet
from emu.ports import NodeT


class NoRoute:
    """A route that leads nowhere."""

    address = 0

    def frame(self, packet: Packet, payload: Sequence[memoryview] = (), length: int = 0) -> bytes:
        """Nothing is sent."""
        return b""


class NoLink:
    """The ``emu.port.base.Link`` of a port without transport packets: as if it were down."""

    is_up = False
    lid = 0

    def destination(self, path: Any) -> int:
        """Nobody."""
        return 0

    def is_own(self, address: int) -> bool:
        """No path leads here."""
        return False

    def route(self, path: Any) -> NoRoute:
        """Headers that nobody reads, because nothing is sent."""
        return NoRoute()

    def objection(self, packet: Packet, peer: int) -> str:
        """No packet can come."""
        return "no transport packets on this port"

    def gid(self, index: int) -> bytes:
        """An empty entry."""
        return bytes(16)

    def pkey(self, index: int) -> int:
        """An empty entry."""
        return 0

    def count_sent(self, packets: int, octets: int, *, multicast: bool = False) -> None:
        """Nothing has been sent."""

    def count_received(self, packets: int, octets: int, *, multicast: bool = False) -> None:
        """Nothing has been received."""


class NoFabric(Generic[NodeT]):
    """The wire that belongs to :class:`NoLink`: nobody can be reached."""

    def attach(self, node: NodeT, /) -> None:
        """There is nobody to notice."""

    def port_changed(self, node: NodeT, /) -> None:
        """There is nobody to notice."""

    def node(self, address: int, /) -> NodeT | None:
        """There is none."""
        return None

    def reaches(self, address: int, /) -> bool:
        """Nobody is reached."""
        return False

    def transmit(self, source: NodeT, frame: bytes, /) -> bool:
        """The frame is lost."""
        return True

    def when_room(self, address: int, callback: Callable[[], None], /) -> None:
        """There is always room for what is lost."""
        callback()

    def datagram(self, source: NodeT, packet: Datagram, origin: Origin, /) -> None:
        """The datagram is lost."""
