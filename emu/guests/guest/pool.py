"""Guests shared by many tests: booted on first use, replaced if no longer running."""

from __future__ import annotations

import contextlib

from emu.guests.guest.guest import Guest
from emu.guests.options import GuestOptions


class GuestPool:
    """Running guests, indexed by their options."""

    def __init__(self) -> None:
        self._guests: dict[GuestOptions, Guest] = {}

    def get(self, options: GuestOptions) -> Guest:
        """Return a guest with these options, ready for commands. Raises :class:`LabError`."""
        guest = self._guests.get(options)
        if guest is not None and not guest.is_running:
            guest.stop()
            guest = None
        if guest is None:
            guest = self._guests[options] = Guest(options)
            guest.start()
        return guest

    def close(self) -> None:
        """Stop all guests."""
        with contextlib.ExitStack() as stack:
            for guest in self._guests.values():
                stack.callback(guest.stop)
        self._guests.clear()
