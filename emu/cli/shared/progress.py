"""Shows on standard error how far something long is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from emu.guests.guest.vm import BOOTING
from emu.host.printable import one_line


class Display:
    """A bar on a terminal; elsewhere a line whenever something else begins.

    Nothing appears before the first call, so that a run with a full cache stays silent.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bars.add_task("", total=None)
        self._shown = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take in a step of :data:`emu.guests.archive.bootstrap.Progress`."""
        what = one_line(what)
        if self._console.is_terminal:
            self._bars.update(self._task, description=what, completed=done, total=total or None)
            self._bars.start()  # draws it at once
        elif what not in (self._shown, BOOTING):
            self._console.print(what, highlight=False, markup=False, emoji=False)
        self._shown = what

    def work(self, what: str) -> None:
        """Say on a terminal what is done; elsewhere nobody waits for it."""
        if self._console.is_terminal:
            self(what, 0, 0)

    def waiting(self) -> None:
        """Say that somebody else does the same work just now."""
        self("waiting for another build", 0, 0)

    def close(self) -> None:
        """Take the bar away."""
        if self._bars.live.is_started:  # else it would leave an empty line
            self._bars.stop()


@contextlib.contextmanager
def watching() -> Iterator[Display]:
    """Give a display, which goes away at the end."""
    shown = Display(Console(stderr=True))
    try:
        yield shown
    finally:
        shown.close()


@contextlib.contextmanager
def display() -> Iterator[tuple[Callable[[str, int, int], None], Callable[[], None]]]:
    """A progress callback and one for waiting; the display goes away at the end."""
    with watching() as shown:
        yield shown, shown.waiting


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[], None]]:
    """Say on a terminal what is being done, and for how long; gives what ends that before the end.

    For all that may take more than a few seconds and has no steps that could be counted.
    """
    with watching() as shown:
        shown.work(what)
        yield shown.close
