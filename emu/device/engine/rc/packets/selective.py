"""Selective repeat: only the packet that was lost is sent again.

That is enough where the peer keeps the packets that came after it. Nothing on the wire says whether
a peer does: one that keeps them answers the packet with an ACK for all that it has by then, one
that does not answers with an ACK for this packet alone. So the requester tries, and where nothing
was kept it goes back after all, which has cost one round trip.
"""

from __future__ import annotations

from typing import Final

from layouts.wire.bth import PSN_MASK

MAX_MISSES: Final = 3
"""A packet and so many after it may be lost at once; then it is quicker to go back."""


class SelectiveRepeat:
    """What one requester knows of its peer."""

    __slots__ = ("_end", "_keeps", "_lost", "_misses")

    def __init__(self) -> None:
        self._keeps = False
        """The peer has kept packets."""
        self._misses = 0
        """How often in a row the ACK was for the one packet only."""
        self._lost: int | None = None
        """The PSN that was sent again; None when no response to such a packet is due."""
        self._end = 0
        """The PSN that was to be sent next then."""

    @property
    def is_worth_trying(self) -> bool:
        """Whether to send only the lost packet again."""
        return self._misses < MAX_MISSES

    def repeated(self, psn: int, end: int) -> None:
        """The packet ``psn`` was sent again alone; ``end`` is the PSN that is sent next."""
        self._lost, self._end = psn, end

    def forget(self) -> None:
        """All is sent again: the next response says nothing about the peer."""
        self._lost = None

    def was_in_vain(self, una: int) -> bool:
        """Packets before ``una`` are acknowledged now; whether the requester has to go back."""
        if self._lost is None:
            return False
        following, self._lost = (self._lost + 1) & PSN_MASK, None
        if una != following:
            self._keeps, self._misses = True, 0
            return False
        if una == self._end:
            return False  # nothing had been sent after it
        self._misses += 1
        if self._keeps and self._misses < MAX_MISSES:
            return False  # the packet after it was lost, too, and the peer says so
        if self._keeps:
            self._keeps, self._misses = False, 0
        return True
