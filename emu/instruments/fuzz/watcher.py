"""Who is told how far a run of the fuzzer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emu.guests.archive.bootstrap import Progress


@dataclass(frozen=True)
class FuzzWatcher:
    """What the fuzzer calls; from several threads when several guests run."""

    progress: Progress | None
    """Is told of what is built or fetched, and of boots."""
    on_wait: Callable[[], None] | None
    """Is called when another process builds the same."""
    work: Callable[[str], None]
    """Is told what a guest does now."""


NOBODY = FuzzWatcher(None, None, lambda _: None)
