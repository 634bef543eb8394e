"""The 1PPS pins of a board: each is an input or output of pulses.

A short cable joins the two pins, so that each pin receives the pulses of the other.

Source: PRM "MTPPS", "MTPPSE"; core/lib/clock.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from emu.device.ports import Timer

PINS: Final = 2


class PinMode(IntEnum):
    """mtpps_reg.pin_mode (MLX5_PIN_MODE_*)."""

    IN = 0
    OUT = 1


class EventMode(IntEnum):
    """mtppse_reg.event_generation_mode (MLX5_EVENT_MODE_*)."""

    NEVER = 0
    ALWAYS = 1
    ONCE = 2


@dataclass(slots=True)
class Pin:
    """A pin with the driver's settings."""

    number: int
    is_on: bool = False
    mode: int = PinMode.IN
    pattern: int = 0
    """In: 0 the rising edge, 1 the falling one. Out: 0 one pulse, 1 periodic ones."""
    time_stamp: int = 0
    """Time of the first output pulse, in the format of time stamps."""
    period_ns: int = 0
    """Period of output pulses; 0 for one pulse, whose successor the driver schedules."""
    duration_ns: int = 0
    events: EventMode = EventMode.NEVER
    is_armed: bool = True
    """Whether the next pulse raises an event; False after the event of EventMode.ONCE."""
    timer: Timer | None = None
    """Fires at the next output edge."""

    def stop(self) -> None:
        """Stop the output by cancelling its timer; the settings are kept."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def pins() -> tuple[Pin, ...]:
    """Return the pins of a board in their power-on state."""
    return tuple(Pin(number) for number in range(PINS))
