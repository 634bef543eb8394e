"""Guests shared by many tests: booted on first use, replaced if no longer running."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from emu.guests.archive.bootstrap import Progress
from emu.guests.guest.guest import Guest
from emu.guests.options import GuestOptions


class GuestPool:
    """Running guests, indexed by their options."""

    def __init__(self) -> None:
        self._guests: dict[GuestOptions, Guest] = {}
        self._requested: set[GuestOptions] = set()

    def get(
        self,
        options: GuestOptions,
        *,
        progress: Progress | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> Guest:
        """Return a running guest with equal options, ready for commands; boot one if there is none.

        A guest that has ended is stopped and replaced. Raises :class:`LabError` of a failed boot.
        ``progress`` and ``on_wait`` are called like :class:`Guest`'s when a guest has to be booted.
        """
        self._requested.add(options)
        guest = self._guests.get(options)
        if guest is not None and not guest.is_running:
            guest.stop()
            guest = None
        if guest is None:
            guest = Guest(options, progress=progress, on_wait=on_wait)
            self._guests[options] = guest
            guest.start()
        return guest

    def stop_unwanted(self) -> None:
        """Stop the guests that :meth:`get` has not returned since the last call of this method.

        An idle guest under TCG uses some 6 % of a processor; booting one again takes seconds.
        """
        unwanted = self._guests.keys() - self._requested
        self._requested.clear()
        self._stop([self._guests.pop(options) for options in unwanted])

    def close(self) -> None:
        """Stop all guests."""
        guests = list(self._guests.values())
        self._guests.clear()
        self._requested.clear()
        self._stop(guests)

    @staticmethod
    def _stop(guests: list[Guest]) -> None:
        """Stop each guest, even when another fails to stop."""
        with contextlib.ExitStack() as stack:
            for guest in guests:
                stack.callback(guest.stop)
