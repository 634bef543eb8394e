"""The pins of a board for pulses: each takes them in or gives them out, once a second or so.

A short cable joins the two pins, so that the pulses of one come in at the other.

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
    """A pin, as the driver has set it."""

    number: int
    is_on: bool = False
    mode: int = PinMode.IN
    pattern: int = 0
    """In: 0 the rising edge, 1 the falling one. Out: 0 one pulse, 1 periodic ones."""
    time_stamp: int = 0
    """When the first pulse goes out, in the format of time stamps."""
    period_ns: int = 0
    """0: one pulse; the driver says when the next one is."""
    duration_ns: int = 0
    events: EventMode = EventMode.NEVER
    is_armed: bool = True
    """Whether the next pulse is an event; false after the one of EventMode.ONCE."""
    timer: Timer | None = None
    """The next edge of what goes out."""

    def stop(self) -> None:
        """No pulse goes out any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def pins() -> tuple[Pin, ...]:
    """The pins of a board, as at power-on."""
    return tuple(Pin(number) for number in range(PINS))
