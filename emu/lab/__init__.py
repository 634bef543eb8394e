"""The guest lab: Debian guests in QEMU with emulated functions attached."""

from emu.lab.errors import (
    CommandFailedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    GuestStoppedError,
    LabError,
    ServerError,
)
from emu.lab.guest.guest import Guest, Result
from emu.lab.guest.pool import GuestPool
from emu.lab.options import GuestOptions

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
