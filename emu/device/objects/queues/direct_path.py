"""The direct path: from one queue pair to another one of this process, without packets.

The ports count the packets that its messages would be. A path only counts its messages by length;
the ports count their packets before the ports' counters are read.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from layouts.wire import bth

BTH_AND_ICRC_BYTES: Final = bth.bth.size + bth.ICRC_BYTES
AETH_BYTES: Final = bth.aeth.size
MAX_UNCOUNTED: Final = 1024
"""Maximum number of paths with messages or packets that a port has not counted."""
MAX_LENGTHS: Final = 8
"""Maximum number of lengths of a path's messages or packets that no port has counted.

A reader of counters counts those of MAX_UNCOUNTED paths at once, about a step each.
"""


class Marks(NamedTuple):
    """Priority markings in the headers of packets."""

    sent: int
    """The priority under which the sender counts the packets."""
    received: int
    """The priority in the VLAN tag, 0 without one: the only one that the receiver sees."""
    dscp: int


class ExchangeCounts(Protocol):
    """Counters of a port for messages inside the process, for which no frames are sent.

    Octets run from the first header on. ``marks`` is the path's, on ports that count by priority.
    """

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """Count sent and received packets of messages to another port's queue pair.

        ``sent`` and ``received`` are this port's view; either may be 0.
        """

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """Count messages between queue pairs of this port: packets, and responses (``back``).

        Both count as sent, as received and as looped back.
        """

    def count_later(self, path: Uncounted) -> None:
        """Call ``path.count`` before the port's counters are read next."""


class Uncounted(Protocol):
    """Path with messages, or packets, which its port has not counted yet."""

    def count(self) -> None:
        """Count all of them at the port."""


class UncountedPaths:
    """Paths with messages or packets which their port has not counted yet."""

    __slots__ = ("_paths",)

    def __init__(self) -> None:
        self._paths: list[Uncounted] = []

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: Uncounted) -> None:
        """Remember a path; with MAX_UNCOUNTED paths, count these first."""
        if len(self._paths) >= MAX_UNCOUNTED:
            self.count()
        self._paths.append(path)

    def count(self) -> None:
        """Have all paths count, and forget them."""
        paths, self._paths = self._paths, []
        for path in paths:
            path.count()


class DirectPath:
    """The direct path of a queue pair, as both ends have agreed (``engine.rc.agreement``)."""

    __slots__ = (
        "_each", "_has_acks", "_marks", "_mtu_bytes", "_ours", "_theirs", "is_up", "lengths",
        "reads_ahead", "terms",
    )  # fmt: skip

    def __init__(
        self,
        terms: tuple[int, object, object],
        ours: ExchangeCounts,
        theirs: ExchangeCounts,
        header_bytes: int,
        mtu_bytes: int,
        marks: Marks | None,
        *,
        has_acks: bool,
        is_up: bool,
        reads_ahead: bool,
    ) -> None:
        """Create a path between two ports, whose packets have up to ``mtu_bytes`` of payload.

        ``header_bytes`` are the link layer's of each packet.
        """
        self.terms = terms
        """The peer's and both ports' state with which the path is valid."""
        self.is_up = is_up
        """Whether both ports are up."""
        self.reads_ahead = reads_ahead
        """Whether the queue pair may send more READs and atomics at once than the peer accepts."""
        self._ours = ours
        self._theirs = theirs
        self._each = header_bytes + BTH_AND_ICRC_BYTES
        self._mtu_bytes = mtu_bytes
        self._marks = marks
        self._has_acks = has_acks
        self.lengths: dict[int, int] = {}
        """Number of messages without response data that no port has counted yet, by length.

        :meth:`count_first` adds a length, to which its next messages add themselves.
        """

    def count_first(self, length: int) -> None:
        """Add a message of another length than those of ``lengths``.

        Both ports count it before their counters are read. With MAX_LENGTHS lengths they count
        these now.
        """
        if len(self.lengths) >= MAX_LENGTHS:
            self.count()
        if not self.lengths:
            self._ours.count_later(self)
            if self._theirs is not self._ours:
                self._theirs.count_later(self)
        self.lengths[length] = 1

    def count(self) -> None:
        """Count the packets of all messages so far at both ports, with an ACK for each message."""
        lengths, self.lengths = self.lengths, {}
        for length, messages in lengths.items():
            self._count(length, messages)

    def _count(self, length: int, messages: int) -> None:
        packets = (-(-length // self._mtu_bytes) or 1) * messages
        octets = packets * self._each + length * messages
        back = messages if self._has_acks else 0
        back_octets = back * (self._each + AETH_BYTES)
        if self._ours is self._theirs:
            self._ours.count_loop(packets, octets, back, back_octets, self._marks)
            return
        self._ours.count_exchange(packets, octets, back, back_octets, self._marks)
        self._theirs.count_exchange(back, back_octets, packets, octets, self._marks)
