"""Callbacks that report the progress of a fuzzer's run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.guests.archive.bootstrap import Progress


@dataclass(frozen=True)
class FuzzWatcher:
    """Callbacks of the fuzzer, called from several threads with several guests."""

    progress: Progress | None
    """Reports builds, downloads and boots."""
    on_wait: Callable[[], None] | None
    """Called when another process builds the same."""
    work: Callable[[str], None]
    """Reports a guest's current work."""


NOBODY = FuzzWatcher(None, None, lambda _: None)
