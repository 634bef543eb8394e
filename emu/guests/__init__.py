"""The guest lab: Debian guests in QEMU with emulated functions attached."""

from emu.guests.errors import (
    CommandFailedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    GuestStoppedError,
    LabError,
    ServerError,
)
from emu.guests.guest.guest import Guest, Result
from emu.guests.guest.pool import GuestPool
from emu.guests.options import GuestOptions

__all__ = [
    "CommandFailedError",
    "CommandTimeoutError",
    "Guest",
    "GuestError",
    "GuestHungError",
    "GuestOptions",
    "GuestPanicError",
    "GuestPool",
    "GuestStoppedError",
    "LabError",
    "Result",
    "ServerError",
]
