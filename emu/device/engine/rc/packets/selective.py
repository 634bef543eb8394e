"""Selective repeat: only the lost packet is sent again.

One packet is enough if the peer has kept those after it, but no packet says so. A peer that keeps
packets answers with an ACK for all of them. A peer that does not answers with an ACK for the
repeated packet alone. The requester therefore tries, and goes back if nothing was kept, at the cost
of one round trip.
"""

from __future__ import annotations

from typing import Final

from layouts.wire.bth import PSN_MASK

MAX_MISSES: Final = 3
"""Number of consecutive misses after which going back is faster."""


class SelectiveRepeat:
    """A requester's knowledge of its peer."""

    __slots__ = ("_end", "_keeps", "_lost", "_misses")

    def __init__(self) -> None:
        self._keeps = False
        """Whether the peer has kept packets."""
        self._misses = 0
        """Number of consecutive ACKs for the repeated packet only."""
        self._lost: int | None = None
        """PSN that was sent again; None when no response to such a packet is due."""
        self._end = 0
        """PSN that was next to send at that time."""

    @property
    def is_worth_trying(self) -> bool:
        """Whether to send only the lost packet again."""
        return self._misses < MAX_MISSES

    def repeated(self, psn: int, end: int) -> None:
        """Record that the packet ``psn`` was sent again alone; ``end`` is the next PSN to send."""
        self._lost, self._end = psn, end

    def forget(self) -> None:
        """Expect no response to a repeated packet: all packets are sent again."""
        self._lost = None

    def was_in_vain(self, una: int) -> bool:
        """Return whether to go back, now that packets before ``una`` are acknowledged.

        True when the ACK covers only the repeated packet: the peer has kept none after it. False
        when no repeated packet is outstanding, or none was sent after it. A peer that has kept
        packets before gets MAX_MISSES chances.
        """
        if self._lost is None:
            return False
        following, self._lost = (self._lost + 1) & PSN_MASK, None
        if una != following:
            self._keeps, self._misses = True, 0
            return False
        if una == self._end:
            return False  # no packet was sent after it
        self._misses += 1
        if self._keeps and self._misses < MAX_MISSES:
            return False  # the packet after it was lost, too
        if self._keeps:
            self._keeps, self._misses = False, 0
        return True
