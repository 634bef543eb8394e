"""The rate limit of one side of a queue pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.device.objects.object import Object
    from emu.device.ports import Timer


class Rate(Protocol):
    """A rate limiter (``emu.device.objects.eth.pacing.Pacing``)."""

    def delay(self, now_ns: int, *, wants: bool = True) -> int:
        """Return the nanoseconds until the next WQE may be sent; 0 for now."""

    def charge(self, octets: int, now_ns: int) -> None:
        """Charge ``octets`` bytes sent at ``now_ns``."""

    def stop_waiting(self) -> None:
        """Stop waiting: there is no data to send."""


class Pace:
    """A queue group's rate limit, and the timer of the side that waits for it."""

    __slots__ = ("group", "pacing", "timer")

    def __init__(self, group: Object, pacing: Rate) -> None:
        self.group = group
        """The scheduling element, referenced while the limit applies."""
        self.pacing = pacing
        self.timer: Timer | None = None

    def sent(self, octets: int, now_ns: int) -> None:
        """Charge ``octets`` bytes sent."""
        self.pacing.charge(octets, now_ns)

    def may_go_on(self, now_ns: int) -> bool:
        """Return whether more data may be sent now."""
        return not self.pacing.delay(now_ns, wants=False)

    def stop(self) -> None:
        """Cancel the timer and the wait, so that neighbours in the tree may send."""
        self.pacing.stop_waiting()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
