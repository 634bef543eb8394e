"""Packets of a connection, in one direction, that its port has not counted yet.

Each packet only adds to a number by its length. The port counts the packets before its counters are
read, as it does with messages of a direct path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.device.objects.queues.direct_path import MAX_LENGTHS

if TYPE_CHECKING:
    from emu.device.objects.queues.direct_path import Marks
    from emu.device.port.link import PacketCounts


class PacketTally:
    """Packets by their length, with the priority markings of the connection's path."""

    __slots__ = ("_count", "_port", "lengths", "marks")

    def __init__(self, port: PacketCounts, count: Callable[[int, int, Marks | None], None]) -> None:
        """``count`` is ``count_sent`` or ``count_received`` of the port."""
        self._port = port
        self._count = count
        self.marks: Marks | None = None
        self.lengths: dict[int, int] = {}
        """Number of packets by length in octets, from the first header on.

        :meth:`count_first` adds a length, to which its next packets add themselves.
        """

    def count_first(self, octets: int) -> None:
        """Add a packet of another length than those of ``lengths``.

        With MAX_LENGTHS lengths the port counts these now.
        """
        if len(self.lengths) >= MAX_LENGTHS:
            self.count()
        if not self.lengths:
            self._port.count_later(self)
        self.lengths[octets] = 1

    def count(self) -> None:
        """Count the packets so far at the port."""
        lengths, self.lengths = self.lengths, {}
        for octets, packets in lengths.items():
            self._count(packets, packets * octets, self.marks)
