"""Two limits for what comes in by uplinks: frames that are flooded, and frames that come back.

Two uplinks may lead into the same network, in which every flooded frame then circles for ever. A
segment drops a frame from an uplink whose source address it has just heard of elsewhere; when that
happens time after time, it leaves the uplink alone for some seconds. Whatever else is wrong out
there, only so many frames of an uplink in a second go to all ports.
"""

from __future__ import annotations

RECENT_NS = 1_000_000_000
"""For so long an address stays where it was heard last, even if an uplink brings frames from it."""
MOVES = 32
"""So many frames from elsewhere in ``WINDOW_NS`` are a loop."""
WINDOW_NS = 10_000_000_000
BLOCKED_NS = 5_000_000_000
FLOODED_PER_SECOND = 10_000
_SECOND_NS = 1_000_000_000


class UplinkGuard:
    """The limits of one uplink."""

    __slots__ = ("_blocked_until_ns", "_flooded", "_flooded_ns", "_moved_ns", "_moves")

    def __init__(self) -> None:
        self._flooded = self._moves = 0
        self._flooded_ns = self._moved_ns = self._blocked_until_ns = 0

    def is_blocked(self, now_ns: int) -> bool:
        """Whether the uplink is left alone at present."""
        return now_ns < self._blocked_until_ns

    def may_flood(self, now_ns: int) -> bool:
        """Whether one more frame of this uplink may go to all ports."""
        if now_ns - self._flooded_ns >= _SECOND_NS:
            self._flooded_ns, self._flooded = now_ns, 0
        self._flooded += 1
        return self._flooded <= FLOODED_PER_SECOND

    def moved(self, now_ns: int) -> bool:
        """An address heard of elsewhere a moment ago is heard of here; True for a new loop."""
        if now_ns - self._moved_ns >= WINDOW_NS:
            self._moved_ns, self._moves = now_ns, 0
        self._moves += 1
        if self._moves < MOVES or self.is_blocked(now_ns):
            return False
        self._moves = 0
        self._blocked_until_ns = now_ns + BLOCKED_NS
        return True
