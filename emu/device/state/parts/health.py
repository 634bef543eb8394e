"""The health of a function: whether a bug in the emulator has stopped it (core/health.c)."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class Health:
    """Implements :class:`emu.device.state.containment.Owner` for all work of one function."""

    __slots__ = ("_name", "_on_failure", "has_failed", "internal_errors")

    def __init__(self, name: str, on_failure: Callable[[], None]) -> None:
        """Create the health of a function that runs; ``name`` is the model's, for the log.

        ``on_failure`` is called when the function fails.
        """
        self._name = name
        self._on_failure = on_failure
        self.has_failed = False
        """Whether an unexpected exception has stopped it permanently (see
        ``state.containment``).
        """
        self.internal_errors = 0
        """Number of unexpected exceptions."""

    def fail(self) -> None:
        """Stop permanently because of the current exception: log it and call ``on_failure`` once.

        Counts ``internal_errors``. No timer, packet or poll reaches a function that has failed. A
        second call does nothing.
        """
        if self.has_failed:
            return
        self.has_failed = True
        self.internal_errors += 1
        log.exception("%s: internal error: the function stops", self._name)
        self._on_failure()
