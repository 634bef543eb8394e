"""What the board measures about itself: the temperature of its chip.

Nothing warms an emulated chip; a fault plan can. The cable is a passive one and has no sensor.

Source: PRM "MTCAP", "MTMP"; core/hwmon.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNITS_PER_DEGREE: Final = 8
"""MTMP counts 0.125 degrees Celsius."""
_NORMAL: Final = 50
_CRITICAL: Final = 105


@dataclass(slots=True)
class Sensor:
    """A temperature sensor, in units of MTMP."""

    name: str = "asic"
    """At most 8 characters."""
    temperature: int = _NORMAL * UNITS_PER_DEGREE
    highest: int = _NORMAL * UNITS_PER_DEGREE
    """Since the driver has last reset it."""
    threshold: int = _CRITICAL * UNITS_PER_DEGREE
    """Above it the chip warns its drivers."""

    def measure(self, temperature: int) -> bool:
        """It has this temperature now; whether that is too much, and was not before."""
        was_hot = self.temperature >= self.threshold
        self.temperature = temperature
        self.highest = max(self.highest, temperature)
        return temperature >= self.threshold and not was_hot

    def forget(self) -> None:
        """Begin anew with what was highest."""
        self.highest = self.temperature


@dataclass(slots=True)
class Board:
    """The sensors of a board."""

    asic: Sensor = field(default_factory=Sensor)
