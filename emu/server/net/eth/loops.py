"""Two limits for uplinks: flooded frames, and frames that return through a loop.

Two uplinks may lead into the same network, in which a flooded frame circles for ever. A segment
drops a frame from an uplink if its source address was recently learned elsewhere. After ``MOVES``
such frames in ``WINDOW_NS``, the segment ignores the uplink for ``BLOCKED_NS``. In addition, at
most ``FLOODED_PER_SECOND`` frames of an uplink are flooded each second.
"""

from __future__ import annotations

RECENT_NS = 1_000_000_000
"""Time for which an address stays at its port, although an uplink brings frames from it."""
MOVES = 32
"""Number of moved addresses in ``WINDOW_NS`` that indicates a loop."""
WINDOW_NS = 10_000_000_000
BLOCKED_NS = 5_000_000_000
FLOODED_PER_SECOND = 10_000
_SECOND_NS = 1_000_000_000


class UplinkGuard:
    """The limits of an uplink."""

    __slots__ = ("_blocked_until_ns", "_flooded", "_flooded_ns", "_moved_ns", "_moves")

    def __init__(self) -> None:
        self._flooded = self._moves = 0
        self._flooded_ns = self._moved_ns = self._blocked_until_ns = 0

    def is_blocked(self, now_ns: int) -> bool:
        """Return whether the segment ignores the uplink at present."""
        return now_ns < self._blocked_until_ns

    def may_flood(self, now_ns: int) -> bool:
        """Count a frame; return False for those beyond FLOODED_PER_SECOND in the current second."""
        if now_ns - self._flooded_ns >= _SECOND_NS:
            self._flooded_ns, self._flooded = now_ns, 0
        self._flooded += 1
        return self._flooded <= FLOODED_PER_SECOND

    def moved(self, now_ns: int) -> bool:
        """Count a recently learned address that moved to the uplink; return True for a new loop.

        The MOVES-th address within WINDOW_NS blocks the uplink for BLOCKED_NS.
        """
        if now_ns - self._moved_ns >= WINDOW_NS:
            self._moved_ns, self._moves = now_ns, 0
        self._moves += 1
        if self._moves < MOVES or self.is_blocked(now_ns):
            return False
        self._moves = 0
        self._blocked_until_ns = now_ns + BLOCKED_NS
        return True
