"""How long responses take, and so how soon their absence says that a packet was lost.

One packet at a time is timed. When packets were sent twice, nobody knows which of the two a
response belongs to, and it does not count (RFC 6298, 2 and 3); but a first estimate may be too
long, and a response that has outlasted several tries was on a long way. After a NAK nothing is in
doubt: what was sent before it has been dropped.
"""

from __future__ import annotations

from emu.port.packet import precedes

LEAST_NS = 4_000_000
"""A response may be so late, however fast others were: the peer's process shares a processor."""
FIRST_NS = 16_000_000
"""The same before any response was timed."""
MOST_TRIES = 3
"""After so many tries it is more likely that responses take long than that all were lost."""


class RoundTrip:
    """The round-trip time of one queue pair's requests, smoothed."""

    __slots__ = ("_began_ns", "_deviation_ns", "_mean_ns", "_resent", "_timed", "tries")

    def __init__(self) -> None:
        self._timed: int | None = None
        """The PSN behind the packet that is timed."""
        self._began_ns = 0
        self._resent: int | None = None
        """Packets before this PSN may come twice; None when all of those are acknowledged."""
        self.tries = 0
        """How often packets were sent again since there was progress."""
        self._mean_ns = self._deviation_ns = 0

    @property
    def patience_ns(self) -> int:
        """How long to wait for a response, from the last progress on."""
        if not self._mean_ns:
            return FIRST_NS << self.tries
        return max(self._mean_ns + 4 * self._deviation_ns, LEAST_NS) << self.tries

    def sent(self, psn: int, now_ns: int) -> None:
        """Packets up to but not including ``psn`` were sent, and the last one wants a response."""
        if self._timed is None and (self._resent is None or precedes(self._resent, psn)):
            self._timed, self._began_ns = psn, now_ns

    def acknowledged(self, una: int, now_ns: int) -> None:
        """All packets before ``una`` are acknowledged."""
        is_in_doubt = self._resent is not None
        if self._timed is not None and not precedes(una, self._timed):
            self._timed = None
            if not is_in_doubt or not self._mean_ns or self.tries >= MOST_TRIES:
                self._learn(max(now_ns - self._began_ns, 1))
        if self._resent is not None and not precedes(una, self._resent):
            self._resent = None
        self.tries = 0

    def dropped(self) -> None:
        """The peer has dropped what is in flight, which will be sent again."""
        self._timed = self._resent = None

    def resend(self, sent: int) -> None:
        """Packets before ``sent`` will be sent again, though they may have arrived."""
        self._resent = sent

    def _learn(self, took_ns: int) -> None:
        if not self._mean_ns:
            self._mean_ns, self._deviation_ns = took_ns, took_ns // 2
            return
        self._deviation_ns += (abs(took_ns - self._mean_ns) - self._deviation_ns) // 4
        self._mean_ns += (took_ns - self._mean_ns) // 8
