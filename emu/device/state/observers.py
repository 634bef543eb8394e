"""Containment of observers: a failing trace, capture or view does not stop what it observes.

An observer reads data from a possibly hostile guest, client or wire. An exception in an observer is
a defect of the emulator, but not of the function: the function continues, and the observer's entry
says that the event could not be decoded. Each location logs only its first exception, with the
traceback, because a guest could repeat the event and fill the log. In the tests such an exception
is a failure.
"""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

UNREADABLE: Final = "could not be read"
"""Replaces data that an observer could not read."""

MAX_PLACES: Final = 100
"""Maximum number of locations of one observer whose exceptions are logged."""


class ObserverErrors:
    """Counts the exceptions of one observer, and logs the first one at each of its locations."""

    def __init__(self, observer: str) -> None:
        """Start with no errors; ``observer`` is the observer's name in the log."""
        self._observer = observer
        self._places: set[str] = set()
        self.count = 0

    def note(self, place: str) -> None:
        """Count the exception being handled; log it with traceback if it is the first at ``place``.

        After MAX_PLACES places no further place is logged. Call only in an ``except`` block.
        """
        self.count += 1
        if place not in self._places and len(self._places) < MAX_PLACES:
            self._places.add(place)
            log.exception("%s: internal error at %s: the device continues", self._observer, place)
