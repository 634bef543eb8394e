"""Guests that many tests share: booted when one is wanted, replaced when a test has lost it."""

from __future__ import annotations

import contextlib

from emu.lab.guest import Guest
from emu.lab.options import GuestOptions


class GuestPool:
    """Running guests, by their options."""

    def __init__(self) -> None:
        self._guests: dict[GuestOptions, Guest] = {}

    def get(self, options: GuestOptions) -> Guest:
        """A guest of these options that takes commands. Raises :class:`LabError` as its start."""
        guest = self._guests.get(options)
        if guest is not None and not guest.is_running:
            guest.stop()
            guest = None
        if guest is None:
            guest = self._guests[options] = Guest(options)
            guest.start()
        return guest

    def close(self) -> None:
        """Stop them all."""
        with contextlib.ExitStack() as stack:
            for guest in self._guests.values():
                stack.callback(guest.stop)
        self._guests.clear()
