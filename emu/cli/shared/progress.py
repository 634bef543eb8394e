"""Shows the progress of long operations on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from emu.guests.guest.vm import BOOTING
from emu.host.printable import one_line


class Display:
    """A progress bar on a terminal; otherwise a line for each new step.

    The first call opens the display: a run with a full cache prints nothing.
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
        """Show a step; a callback of type :data:`emu.guests.archive.bootstrap.Progress`."""
        what = one_line(what)
        if self._console.is_terminal:
            self._bars.update(self._task, description=what, completed=done, total=total or None)
            self._bars.start()  # draws the bar at once
        elif what not in (self._shown, BOOTING):
            self._console.print(what, highlight=False, markup=False, emoji=False)
        self._shown = what

    def work(self, what: str) -> None:
        """Show an operation without steps, on a terminal only."""
        if self._console.is_terminal:
            self(what, 0, 0)

    def waiting(self) -> None:
        """Show that another process holds the lock of the same build."""
        self("waiting for another build", 0, 0)

    def close(self) -> None:
        """Remove the bar."""
        if self._bars.live.is_started:  # stopping an unstarted bar prints an empty line
            self._bars.stop()


@contextlib.contextmanager
def watching() -> Iterator[Display]:
    """Yield a display for progress while the body runs; it is empty until its first use."""
    shown = Display(Console(stderr=True))
    try:
        yield shown
    finally:
        shown.close()


@contextlib.contextmanager
def display() -> Iterator[tuple[Callable[[str, int, int], None], Callable[[], None]]]:
    """Open a display while the body runs; yield its progress and waiting callbacks."""
    with watching() as shown:
        yield shown, shown.waiting


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[], None]]:
    """Show an operation and its elapsed time on a terminal while the body runs.

    Yield a function that removes the display early. Elsewhere nothing is printed. Use this for
    operations that can take more than a few seconds and have no countable steps.
    """
    with watching() as shown:
        shown.work(what)
        yield shown.close
