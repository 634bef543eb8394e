"""The rate that one side of a queue pair keeps to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.device.objects.object import Object
    from emu.device.ports import Timer


class Rate(Protocol):
    """What the rate allows (``emu.device.objects.eth.pacing.Pacing``)."""

    def delay(self, now_ns: int, *, wants: bool = True) -> int:
        """In how many nanoseconds the next request may leave; 0 for now."""

    def charge(self, octets: int, now_ns: int) -> None:
        """So much has left."""

    def rest(self) -> None:
        """There is nothing to send."""


class Pace:
    """A queue group's rate, and the timer of the side that waits for it."""

    __slots__ = ("group", "pacing", "timer")

    def __init__(self, group: Object, pacing: Rate) -> None:
        self.group = group
        """The scheduling element, which is held as long as the queue pair keeps to it."""
        self.pacing = pacing
        self.timer: Timer | None = None

    def sent(self, octets: int, now_ns: int) -> None:
        """So much has left."""
        self.pacing.charge(octets, now_ns)

    def may_go_on(self, now_ns: int) -> bool:
        """Whether more may leave at once."""
        return not self.pacing.delay(now_ns, wants=False)

    def stop(self) -> None:
        """Wait no longer, and let the neighbours go on."""
        self.pacing.rest()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
