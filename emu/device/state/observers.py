"""Containment of observers: a trace, a capture or a view that fails does not stop what it observes.

An observer reads what a hostile guest, client or wire has made. An exception in one is a defect of
the emulator, but not of the function: the function goes on, and the observer's entry says that the
event could not be decoded. Each place logs its first exception only, with the traceback: an event
that a guest repeats must not fill the log. In the tests such an exception is a failure.
"""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

UNREADABLE: Final = "could not be read"
"""Stands in place of what an observer could not read, where a reader sees it."""

MAX_PLACES: Final = 100
"""Places of one observer whose exceptions are logged."""


class ObserverErrors:
    """Counts the exceptions of one observer, and logs the first one at each of its places."""

    def __init__(self, observer: str) -> None:
        """``observer`` is its name in the log."""
        self._observer = observer
        self._places: set[str] = set()
        self.count = 0

    def note(self, place: str) -> None:
        """Count the exception that is being handled; log it if it is the first at ``place``."""
        self.count += 1
        if place not in self._places and len(self._places) < MAX_PLACES:
            self._places.add(place)
            log.exception("%s: internal error at %s: the device goes on", self._observer, place)
