"""The guest lab: Linux guests from Debian's packages, in QEMU, with emulated functions in them."""

from emu.guest.errors import (
    CommandFailedError,
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    GuestStoppedError,
    LabError,
    ServerError,
)
from emu.guest.guest import Guest, Result
from emu.guest.options import GuestOptions
from emu.guest.pool import GuestPool

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
