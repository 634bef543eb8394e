"""How often a vector's interrupts may come, and the one that waits."""

from __future__ import annotations

from dataclasses import dataclass

from emu.device.ports import Timer


@dataclass(slots=True)
class VectorModeration:
    """What is set for a vector, and what waits."""

    delay_ns: int
    ready_ns: int = 0
    """When the next interrupt may come."""
    timer: Timer | None = None
    """Runs while one is held back."""

    def stop(self) -> None:
        """Hold nothing back any more: what waits does not come."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
