"""WQEs that programs copy behind send doorbells (BlueFlame), received so far."""

from __future__ import annotations

from emu.device.ports import Timer


class Copy:
    """A partially received WQE."""

    __slots__ = ("data", "number", "requested", "timer")

    def __init__(self, number: int, requested: int) -> None:
        self.number = number
        """Number of the queue."""
        self.requested = requested
        """Bytes of the WQE."""
        self.data = bytearray()
        self.timer: Timer | None = None
        """Discards an incomplete copy."""

    def stop_waiting(self) -> None:
        """Cancel the timer that would discard the copy; the data is kept."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
