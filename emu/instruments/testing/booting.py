"""Shows the steps of a guest's boot on a line of pytest's output."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from emu.guests.guest.vm import BOOTING

if TYPE_CHECKING:
    import pytest

MIN_SECONDS = 3.0
"""Shorter steps are not shown."""
_TICK_SECONDS = 0.5


class BootLine:
    """Shows the slow steps of a boot, each on a line with its seconds.

    On a terminal the seconds count up; elsewhere they are added when the step ends. The booting
    thread reports steps; another thread calls :meth:`tick`.
    """

    def __init__(
        self, config: pytest.Config, suite: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the ``config`` of a pytest with a terminal reporter."""
        self._reporter = config.pluginmanager.getplugin("terminalreporter")
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._suite = suite
        self._clock = clock
        self._lock = threading.Lock()
        self._step = ""
        self._since = 0.0
        self._is_shown = False

    def __call__(self, step: str, _done: int, _total: int) -> None:
        """Start a step; called as :data:`emu.guests.archive.bootstrap.Progress`."""
        step = f"booting {self._suite} guest" if step == BOOTING else step
        with self._lock:
            if step != self._step:
                self._close()
                self._step, self._since = step, self._clock()

    def waiting(self) -> None:
        """Start the step of waiting for another process that builds the same."""
        self("waiting for another build", 0, 0)

    def tick(self) -> None:
        """Show the current step once it has lasted 3 s; on a terminal also update its seconds."""
        with self._lock:
            seconds = self._clock() - self._since
            if not self._step or (seconds < MIN_SECONDS and not self._is_shown):
                return
            if not self._is_shown:
                self._write(f"mlx5: {self._step} ...", is_new_line=True)
                self._is_shown = True
            if self._reporter.isatty:
                self._write(f"\rmlx5: {self._step} ... {seconds:.0f} s")

    def close(self) -> None:
        """End the line of the last step, with its duration; later steps are shown again."""
        with self._lock:
            self._close()
            self._step = ""

    def _close(self) -> None:
        if self._is_shown:
            begin = f"\rmlx5: {self._step} ..." if self._reporter.isatty else ""
            self._write(f"{begin} {self._clock() - self._since:.0f} s\n")
        self._is_shown = False

    def _write(self, text: str, *, is_new_line: bool = False) -> None:
        """Write without pytest's capturing, as its live logs do."""
        with self._capture.global_and_fixture_disabled():
            if is_new_line:
                self._reporter.ensure_newline()
            self._reporter.write(text, flush=True)


@contextmanager
def boot_line(config: pytest.Config, suite: str) -> Iterator[BootLine | None]:
    """Show the steps of a boot while the body runs; yield the line to report steps to.

    Yield None without a terminal reporter, under ``-q`` and in xdist workers, whose output is
    discarded.
    """
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or reporter.verbosity < 0 or hasattr(config, "workerinput"):
        yield None
        return
    line, is_over = BootLine(config, suite), threading.Event()

    def tick() -> None:
        while not is_over.wait(_TICK_SECONDS):
            line.tick()

    thread = threading.Thread(target=tick, name="boot line", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        is_over.set()
        thread.join()
        line.close()
