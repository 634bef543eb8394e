"""Measures the loop's rounds and the host's memory use during an attack.

A pattern is a generator function. Its code before the ``yield`` is preparation. After it, all work
of the server for the pattern is done through :meth:`Watch.budget`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rig import MappedMemory

from emu.device.function.function import Function
from emu.device.models.model import Model
from emu.device.port.ib.wire import IbWire
from emu.device.ports import Clock
from emu.device.rounds.budget import Budget
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.interrupts import IrqList
from emu.server.service.collector import short_collections
from emu.server.vfio.waits.timers import TimerQueue
from firmware_cmds import TABLE

T = TypeVar("T")
Pattern = Callable[["Watch"], Iterator[None]]

PATTERNS: dict[str, Pattern] = {}
"""Patterns by title, in the order of the table."""

_MAX_ROUNDS = 10_000_000


def pattern(title: str) -> Callable[[Pattern], Pattern]:
    """Add a pattern to the table."""

    def register(function: Pattern) -> Pattern:
        if title in PATTERNS:
            raise ValueError(f"two patterns are called {title!r}")
        PATTERNS[title] = function
        return function

    return register


@dataclass(frozen=True)
class Seen:
    """Cost of a pattern."""

    longest_ms: float
    """Processor time of the longest round."""
    above_mib: float
    """Peak growth of the process's memory, minus what the guest's ledger accounts for."""


class Watch:
    """Watches one pattern; ``folder`` is for its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.functions: list[Function] = []
        self._longest_ns = self._held = self._most_held = self._memory = 0

    def knows(self, function: Function) -> None:
        """Subtract what this function's ledger accounts for from the memory measured."""
        self.functions.append(function)

    def sockets(self) -> Path:
        """Return a directory for sockets, another one each time, removed with the pattern."""
        return Path(tempfile.mkdtemp(dir=self._folder))

    def unwatched(self) -> Watch:
        """Return a watch for work that is not measured."""
        return Watch(self._folder)

    def begin(self) -> None:
        """Start measuring: the preparation is done."""
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak RSS
        self._memory = _status("VmRSS")
        self._longest_ns = 0
        self._held = self._most_held = self._total_held()

    def seen(self) -> Seen:
        """Return the measurements."""
        grown = _status("VmHWM") - self._memory - (self._most_held - self._held)
        return Seen(self._longest_ns / 1e6, max(grown, 0) / (1 << 20))

    def round(self, call: Callable[[], T]) -> T:
        """Measure ``call``, which the loop would run without interruption."""
        start = time.thread_time_ns()
        result = call()
        self._longest_ns = max(self._longest_ns, time.thread_time_ns() - start)
        self._most_held = max(self._most_held, self._total_held())
        return result

    def settle(self, *functions: Function) -> None:
        """Run rounds until no function has work left."""
        budget = functions[0].clock.budget
        for _ in range(_MAX_ROUNDS):
            if not self.round(lambda: _poll_round(budget, functions)):
                return
        raise RuntimeError("the device never runs out of work")

    def reset(self, function: Function) -> None:
        """Reset a function, and run rounds until it has no work left."""
        self.round(function.reset)
        self.settle(function)

    def _total_held(self) -> int:
        return sum(function.hca.ledger.used for function in self.functions)


def _poll_round(
    budget: Budget, functions: Sequence[Function], timers: Callable[[], object] = lambda: None
) -> bool:
    """Begin a round, run the due timers and poll each function; return whether work is left."""
    budget.begin()
    timers()
    busy = [function.poll() for function in functions]
    return any(busy)


class WatchedLoop(TimerQueue):
    """Loop of functions and timers whose rounds are watched; the pattern advances its time."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.ns = 1_000_000_000
        self._watch = watch

    def now_ns(self) -> int:
        return self.ns

    def run(self, ns: int = 0) -> None:
        """Advance the time; then run rounds until nothing is due and no function has work."""
        self.ns += ns
        for _ in range(_MAX_ROUNDS):
            if not self._watch.round(self._round) and self.next_ns() != 0:
                return
        raise RuntimeError("the device never runs out of work")

    def _round(self) -> bool:
        return _poll_round(self.budget, self._watch.functions, self.run_due)


class WatchedBar(FunctionBar):
    """BAR 0 of functions whose rounds are watched."""

    def __init__(self, watch: Watch, functions: Sequence[Function]) -> None:
        super().__init__(*functions)
        self._watch, self._watched = watch, functions

    def settle(self) -> None:
        """Let the functions do all their work."""
        self._watch.settle(*self._watched)


def probed(
    watch: Watch, model: Model, guid: int, clock: Clock, wire: IbWire[Hca] | None = None, *,
    ram: int = 64 << 20, **places: Any,
) -> tuple[Function, Driver]:  # fmt: skip
    """Return a function and its driver after a probe; the driver's own rounds are not measured.

    ``places`` are other arguments of Function: its cable, its place in an adapter.
    """
    memory = MappedMemory(ram)
    options, irqs = HcaOptions(guid=guid), IrqList()
    function = Function(model, options, TABLE, memory, irqs, clock, wire, **places)
    watch.knows(function)
    driver = Driver(WatchedBar(watch.unwatched(), [function]), memory, irqs)
    return function, driver.probe(is_vf=model.identity.is_vf)


def check_arrived(functions: Iterable[Function], least: int) -> None:
    """Raise RuntimeError unless ``least`` packets have arrived at each function."""
    found = min(function.hca.nic_vport.received.packets for function in functions)
    if found < least:
        raise RuntimeError(f"{found} packets have arrived, not {least}")


def observe(pattern: Pattern) -> Seen:
    """Run a pattern in this process."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(Path(folder))
        work = pattern(watch)
        with short_collections(watch.functions):
            next(work)
            watch.begin()
            if next(work, "done") != "done":
                raise RuntimeError("a pattern yields once")
            return watch.seen()


def _status(name: str) -> int:
    """Return the value in bytes of a field of /proc/self/status."""
    for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"the kernel does not report {name}")
