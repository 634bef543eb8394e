"""Round-trip time of responses, and the time after which the requester sends a probe.

One packet at a time is timed. The response to a retransmitted packet is ambiguous and not counted
(RFC 6298, 3). Each probe doubles the wait, until a response is timed again (5.5 to 5.7) or a probe
is answered within the usual time. A slow peer therefore gets no more probes.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.packet import precedes

MIN_NS: Final = 10_000_000
"""Lower limit: the peer's process may share a processor with others."""
FIRST_SHIFT: Final = 2
"""Wait before the first timed response, as a right shift of the ACK timeout."""
MAX_DOUBLINGS: Final = 16


class RoundTrip:
    """Smoothed round-trip time of one queue pair's requests."""

    __slots__ = (
        "_asked_ns", "_began_ns", "_deviation_ns", "_doublings", "_mean_ns", "_resent", "_timed",
        "newest",
    )  # fmt: skip

    def __init__(self) -> None:
        self._timed: int | None = None
        """PSN behind the packet that is timed."""
        self._began_ns = 0
        self.newest: int | None = None
        """PSN behind the packet that was sent last."""
        self._asked_ns: int | None = None
        """Time of the last probe; None without an unanswered one."""
        self._resent: int | None = None
        """PSN before which packets may arrive twice; None when all of those are acknowledged."""
        self._doublings = 0
        self._mean_ns = self._deviation_ns = 0

    def patience_ns(self, timeout_ns: int) -> int:
        """Return the time to wait after the last progress; ``timeout_ns`` is the ACK timeout."""
        usual = self._usual_ns or timeout_ns >> FIRST_SHIFT
        return max(usual, MIN_NS) << self._doublings

    @property
    def _usual_ns(self) -> int:
        """Time within which nearly all responses arrive; 0 before any was timed."""
        return self._mean_ns + 4 * self._deviation_ns

    def sent(self, psn: int, now_ns: int) -> None:
        """Record that packets before ``psn`` were sent now; the last one requests a response.

        The packet is timed if no other is, and if no retransmission makes its response ambiguous.
        """
        self.newest = psn
        if self._timed is None and (self._resent is None or precedes(self._resent, psn)):
            self._timed, self._began_ns = psn, now_ns

    def acknowledged(self, una: int, now_ns: int) -> None:
        """Record that all packets before ``una`` are acknowledged.

        The timed packet, if among them, updates the mean. A probe answered within the usual time
        ends the doubling of the wait.
        """
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
        """Record that packets before ``psn`` may arrive twice."""
        self._timed, self._resent = None, psn

    def went_back(self, psn: int, now_ns: int) -> None:
        """Time the retransmission of the packet before ``psn``.

        The packet was lost, so its response is not ambiguous.
        """
        self._timed, self._began_ns, self._resent = psn, now_ns, None

    def asked(self, psn: int, now_ns: int) -> None:
        """Record a probe: some of the packets before ``psn`` were sent again.

        The wait before the next probe doubles, and the timed packet is given up.
        """
        self._asked_ns = now_ns
        self._doublings = min(self._doublings + 1, MAX_DOUBLINGS)
        self.resent(psn)

    def forget_packets(self) -> None:
        """Forget the PSNs of a stopped queue pair."""
        self._timed = self.newest = self._resent = self._asked_ns = None

    def _learn(self, took_ns: int) -> None:
        """Add a round-trip time to the smoothed mean and deviation (RFC 6298); end the doubling."""
        self._doublings = 0
        if not self._mean_ns:
            self._mean_ns, self._deviation_ns = took_ns, took_ns // 2
            return
        self._deviation_ns += (abs(took_ns - self._mean_ns) - self._deviation_ns) // 4
        self._mean_ns += (took_ns - self._mean_ns) // 8
