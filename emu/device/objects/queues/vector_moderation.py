"""Interrupt moderation of a vector, and its delayed interrupt."""

from __future__ import annotations

from dataclasses import dataclass

from emu.device.ports import Timer


@dataclass(slots=True)
class VectorModeration:
    """The setting of a vector, and its delayed interrupt."""

    delay_ns: int
    ready_ns: int = 0
    """Earliest time of the next interrupt."""
    timer: Timer | None = None
    """Runs while an interrupt is delayed."""

    def stop(self) -> None:
        """Cancel the delayed interrupt, which is not raised."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
