"""Guests: Debian machines in QEMU with emulated functions attached.

Names are imported on first use: users of a guest's options alone, such as the pytest plugin in
every run, need not load the modules that boot a guest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_ELSEWHERE = {
    "Guest": "emu.guests.guest.guest",
    "Result": "emu.guests.guest.guest",
    "GuestPool": "emu.guests.guest.pool",
    "GuestOptions": "emu.guests.options",
}
"""Modules of the names that are not errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_ELSEWHERE.get(name, "emu.guests.errors"))
    value = globals()[name] = getattr(module, name)
    return value
