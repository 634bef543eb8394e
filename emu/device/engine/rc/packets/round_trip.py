"""How long responses take, and so how long to wait before the requester asks what has arrived.

One packet at a time is timed. When packets were sent twice, nobody knows which of the two a
response belongs to, and it does not count (RFC 6298, 3). After each question the wait is twice as
long, until a response has been timed again (5.5 to 5.7) or a question is answered as fast as
requests are: where a peer is slow, questions end.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.packet import precedes

MIN_NS: Final = 10_000_000
"""However fast responses are: the peer's process may share a processor with others."""
FIRST_SHIFT: Final = 2
"""Before any response was timed: this part of the ACK timeout, as a power of two."""
MAX_DOUBLINGS: Final = 16


class RoundTrip:
    """The round-trip time of one queue pair's requests, smoothed."""

    __slots__ = (
        "_asked_ns", "_began_ns", "_deviation_ns", "_doublings", "_mean_ns", "_resent", "_timed",
        "newest",
    )  # fmt: skip

    def __init__(self) -> None:
        self._timed: int | None = None
        """The PSN behind the packet that is timed."""
        self._began_ns = 0
        self.newest: int | None = None
        """The PSN behind the packet that was sent last."""
        self._asked_ns: int | None = None
        """When the last question was sent; None when nothing is open."""
        self._resent: int | None = None
        """Packets before this PSN may come twice; None when all of those are acknowledged."""
        self._doublings = 0
        self._mean_ns = self._deviation_ns = 0

    def patience_ns(self, timeout_ns: int) -> int:
        """How long to wait from the last progress on; ``timeout_ns`` is the ACK timeout."""
        usual = self._usual_ns or timeout_ns >> FIRST_SHIFT
        return max(usual, MIN_NS) << self._doublings

    @property
    def _usual_ns(self) -> int:
        """How long nearly all responses take; 0 before any was timed."""
        return self._mean_ns + 4 * self._deviation_ns

    def sent(self, psn: int, now_ns: int) -> None:
        """Packets before ``psn`` were sent just now, and the last one wants a response."""
        self.newest = psn
        if self._timed is None and (self._resent is None or precedes(self._resent, psn)):
            self._timed, self._began_ns = psn, now_ns

    def acknowledged(self, una: int, now_ns: int) -> None:
        """All packets before ``una`` are acknowledged."""
        if self._timed is not None and not precedes(una, self._timed):
            self._learn(max(now_ns - self._began_ns, 1))
            self._timed = None
        if self._asked_ns is not None:
            if now_ns - self._asked_ns <= self._usual_ns:
                self._doublings = 0
            self._asked_ns = None
        if self._resent is not None and not precedes(una, self._resent):
            self._resent = None

    def resent(self, psn: int) -> None:
        """Packets before ``psn`` may come twice."""
        self._timed, self._resent = None, psn

    def went_back(self, psn: int, now_ns: int) -> None:
        """The packet before ``psn`` was lost, and is sent again: no doubt which one is answered."""
        self._timed, self._began_ns, self._resent = psn, now_ns, None

    def asked(self, psn: int, now_ns: int) -> None:
        """A question was sent: some of the packets before ``psn``, again."""
        self._asked_ns = now_ns
        self._doublings = min(self._doublings + 1, MAX_DOUBLINGS)
        self.resent(psn)

    def forget_packets(self) -> None:
        """The queue pair has stopped: its PSNs mean nothing any more."""
        self._timed = self.newest = self._resent = self._asked_ns = None

    def _learn(self, took_ns: int) -> None:
        self._doublings = 0
        if not self._mean_ns:
            self._mean_ns, self._deviation_ns = took_ns, took_ns // 2
            return
        self._deviation_ns += (abs(took_ns - self._mean_ns) - self._deviation_ns) // 4
        self._mean_ns += (took_ns - self._mean_ns) // 8
