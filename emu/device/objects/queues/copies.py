"""Work requests that programs copy behind send doorbells (BlueFlame), as far as they have come."""

from __future__ import annotations

from emu.device.ports import Timer


class Copy:
    """One of them."""

    __slots__ = ("data", "number", "requested", "timer")

    def __init__(self, number: int, requested: int) -> None:
        self.number = number
        """The queue's."""
        self.requested = requested
        """Bytes of the request."""
        self.data = bytearray()
        self.timer: Timer | None = None
        """When nobody waits for the rest any more."""

    def stop_waiting(self) -> None:
        """Cancel the timer, if it runs."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
