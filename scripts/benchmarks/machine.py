"""Machine of the benchmark: a description, and its load by other processes.

A benchmark with three busy threads on two processors is not meaningful while other processes run.
Therefore each sample is stored with the fraction of the machine that other processes (and other
virtual machines) used. A sample with a large fraction can be repeated.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 2.0
_IDLE = (3, 4)
"""Columns of /proc/stat's cpu line that are not work: idle and iowait (proc(5))."""
_WORK_COLUMNS = 8
"""Columns up to steal; those after it, guest and guest_nice, are counted in the first two."""


@dataclass
class Quiet:
    """Takes samples while others use at most ``limit`` of the machine, if possible.

    The class waits for such a moment, and repeats the sample if others became busy during it. After
    ``patience`` seconds it keeps the quietest sample.
    """

    limit: float = 1.0
    patience: float = 0.0
    shares: list[float] = field(default_factory=list)
    """Fraction of the machine that others used during each kept sample."""

    def take(self, measure: Callable[[], T]) -> T:
        """Return the result of ``measure`` from the quietest attempt."""
        deadline = time.monotonic() + self.patience
        best: tuple[float, T] | None = None
        while best is None or (best[0] > self.limit and time.monotonic() < deadline):
            self._wait(deadline)
            meter = Meter()
            result = measure()
            share = meter.others_share()
            if best is None or share < best[0]:
                best = share, result
        self.shares.append(best[0])
        return best[1]

    def _wait(self, deadline: float) -> None:
        """Wait until the machine is quiet for a moment, or until the deadline."""
        share = 1.0
        while share > self.limit and time.monotonic() < deadline:
            meter = Meter()
            time.sleep(_LOOK_SECONDS)
            share = meter.others_share()

    def summary(self) -> str:
        """Return one line about the kept samples."""
        if not self.shares:
            return "No samples of a guest."
        middle, most = statistics.median(self.shares), max(self.shares)
        return (
            f"While {len(self.shares)} samples were taken, others used {middle:.0%} of the machine"
            f" (median; {most:.0%} at most)."
        )


class Meter:
    """Measures what others use of the machine since its construction."""

    def __init__(self) -> None:
        self._busy, self._own, self._start = _busy_ticks(), _own_ticks(), time.monotonic()

    def others_share(self) -> float:
        """Return their use as a fraction of all processors' time."""
        elapsed = max(time.monotonic() - self._start, 1 / _TICKS)
        others = (_busy_ticks() - self._busy) - (_own_ticks() - self._own)
        return max(others, 0) / _TICKS / elapsed / (os.cpu_count() or 1)


def _busy_ticks() -> int:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    work = fields[:_WORK_COLUMNS]
    return sum(int(ticks) for column, ticks in enumerate(work) if column not in _IDLE)


def own_seconds() -> float:
    """Return the processor time of our process and all its descendants, including ended ones."""
    return _own_ticks() / _TICKS


def _own_ticks() -> int:
    """Return the ticks of our process and all its descendants, including ended ones."""
    return sum(_ticks(stat) for stat in _family().values())


def descendants() -> list[int]:
    """Return our descendant processes, in no particular order."""
    return [pid for pid in _family() if pid != os.getpid()]


def _family() -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat after the name, for us and for every descendant."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            stats[int(entry.name)] = text.rpartition(")")[2].split()
    family = {os.getpid(): stats[os.getpid()]}
    size = 0
    while len(family) != size:
        size = len(family)
        family |= {pid: stat for pid, stat in stats.items() if int(stat[1]) in family}
    return family


def _ticks(stat: list[str]) -> int:
    """Return utime, stime, cutime and cstime (proc(5): fields 14 to 17)."""
    return sum(map(int, stat[11:15]))


def conditions() -> str:
    """Return one line about the machine and its current load."""
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} processors ({_processor()}), Linux {platform.release()},"
        f" Python {platform.python_version()}, load average {load:.1f}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine() or sys.platform
