"""Shows the progress of long operations on standard error."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from emu.guests.guest.vm import BOOTING
from emu.host.printable import one_line

SILENT_SECONDS = 3.0
"""Duration of an operation after which a line says so, where there is no terminal."""
REPEAT_SECONDS = 30.0
"""The same between two lines about one operation."""


class Reminder:
    """Prints what is done once it takes more than 3 s, and again each 30 s.

    Other operations of the same name are printed after 30 s only. A thread waits and prints.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._known: set[str] = set()

    def begin(self, what: str, *, is_printed: bool = False) -> None:
        """Begin an operation, which ends the one before; ``is_printed`` if its line is there."""
        with self._lock:
            if is_printed:
                self._known.add(what)
            self._start(what, time.monotonic())

    def end(self) -> None:
        """End the operation; nothing is printed afterwards. Do nothing without one."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    close = end

    def _start(self, what: str, begun: float) -> None:
        """Wait for the next line about an operation that has begun; the lock is held."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = REPEAT_SECONDS if what in self._known else SILENT_SECONDS
        self._timer = threading.Timer(seconds, lambda: self._remind(what, begun, timer))
        timer = self._timer
        timer.daemon = True
        timer.start()

    def _remind(self, what: str, begun: float, timer: threading.Timer) -> None:
        with self._lock:
            if self._timer is not timer:
                return
            passed = time.monotonic() - begun
            self._say(f"{what}: {passed:.0f} s so far" if what in self._known else what)
            self._known.add(what)
            self._start(what, begun)


class Display:
    """A progress bar on a terminal; otherwise a line for each new step, or that takes over 3 s.

    The first call opens the display.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reminder = Reminder(self._print)
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
        elif what == BOOTING:
            self.work(what)
        elif what != self._shown:
            self._print(what)
            self._reminder.begin(what, is_printed=True)
        self._shown = what

    def work(self, what: str) -> None:
        """Show an operation without steps: on a terminal at once, elsewhere if it takes 3 s."""
        if self._console.is_terminal:
            self(what, 0, 0)
        else:
            self._reminder.begin(one_line(what))

    def waiting(self) -> None:
        """Show that another process holds the lock of the same build."""
        self("waiting for another build", 0, 0)

    def close(self) -> None:
        """Remove the bar, or end the operation."""
        self._reminder.end()
        if self._bars.live.is_started:  # stopping an unstarted bar prints an empty line
            self._bars.stop()

    def _print(self, what: str) -> None:
        self._console.print(what, highlight=False, markup=False, emoji=False)


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

    Elsewhere a line is printed after 3 s. Yield a function that removes the display early. Use this
    for operations that can take more than a few seconds and have no countable steps.
    """
    with watching() as shown:
        shown.work(what)
        yield shown.close
