"""The direct path: from one queue pair to another one of this process, without packets.

The ports count the packets that its messages would be. A message only adds to a sum of its path;
the ports count the sum before their counters are read.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from layouts.wire import bth

BTH_AND_ICRC_BYTES: Final = bth.bth.size + bth.ICRC_BYTES
AETH_BYTES: Final = bth.aeth.size


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

    def count_later(self, path: DirectPath) -> bool:
        """Call :meth:`DirectPath.count` before the port's counters are read next.

        Return whether the call comes before those of other ports are read, too.
        """


class DirectPath:
    """The direct path of a queue pair, as both ends have agreed (``engine.rc.agreement``)."""

    __slots__ = (
        "_each", "_has_acks", "_marks", "_ours", "_theirs", "is_counted", "messages", "octets",
        "packets", "reads_ahead", "terms",
    )  # fmt: skip

    def __init__(
        self,
        terms: tuple[int, object, object],
        ours: ExchangeCounts,
        theirs: ExchangeCounts,
        header_bytes: int,
        marks: Marks | None,
        *,
        has_acks: bool,
        reads_ahead: bool,
    ) -> None:
        """Create a path between two ports; ``header_bytes`` are the link layer's of each packet."""
        self.terms = terms
        """The peer's and both ports' state with which the path is valid."""
        self.reads_ahead = reads_ahead
        """Whether the queue pair may send more READs and atomics at once than the peer accepts."""
        self._ours = ours
        self._theirs = theirs
        self._each = header_bytes + BTH_AND_ICRC_BYTES
        self._marks = marks
        self._has_acks = has_acks
        self.messages = self.packets = self.octets = 0
        """Messages without response data, their packets and bytes that no port has counted yet."""
        self.is_counted = True
        """Whether the ports have counted all; otherwise they will call :meth:`count`."""

    def count_later(self) -> None:
        """Have both ports count the messages before their counters are read."""
        self.is_counted = False
        if not self._ours.count_later(self) and self._theirs is not self._ours:
            self._theirs.count_later(self)

    def count(self) -> None:
        """Count the packets of all messages so far at both ports, with an ACK for each message."""
        if self.is_counted:
            return
        packets, octets = self.packets, self.packets * self._each + self.octets
        back = self.messages if self._has_acks else 0
        back_octets = back * (self._each + AETH_BYTES)
        self.messages = self.packets = self.octets = 0
        self.is_counted = True
        if self._ours is self._theirs:
            self._ours.count_loop(packets, octets, back, back_octets, self._marks)
            return
        self._ours.count_exchange(packets, octets, back, back_octets, self._marks)
        self._theirs.count_exchange(back, back_octets, packets, octets, self._marks)
