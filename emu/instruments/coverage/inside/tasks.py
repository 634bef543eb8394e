"""The program in the guest that counts by KCOV: where in chosen modules tasks have been.

The loading of the modules and the probe are counted, then every task that the host's commands
begin: the runner, which begins them, is seized, so each gets its buffer before its first
instruction. Interrupts and kernel threads have none, so what runs there is not counted. A buffer is
emptied while its task is not in the kernel; how often one was full by then, and how many tasks got
none, is told.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter

from emu.instruments.coverage.inside.kcov import KCOV, Buffer, enable, give_buffer, moved_by
from emu.instruments.coverage.inside.modules import (
    AUTOPROBE,
    PROBE_SCRIPT,
    CoverageError,
    base,
    check_unloaded,
    directory,
    in_order,
    run,
    tell,
)
from emu.instruments.coverage.inside.ptrace import Stopped, TaskTracer, can_trace, is_asleep

RUNNER = 1  # the guest's init process begins the host's commands

_LOADING_WORDS = 1 << 24
_LOOK_SECONDS = 0.02
MAX_TEXT = 1 << 26  # bytes of a module's code


class Tasks:
    """The tasks that are counted, and where they have been."""

    def __init__(self) -> None:
        self.places: Counter[int] = Counter()
        self.full = 0
        self.without = 0
        self._buffers: dict[int, Buffer] = {}
        self._tracer = TaskTracer(self._began, self._ended, self._take)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program; its first task is counted. Raises OSError."""
        fd = os.open(KCOV, os.O_RDWR | os.O_CLOEXEC)
        buffer = Buffer(fd, _LOADING_WORDS)
        try:
            done = run(*words, before=lambda: enable(fd))
            self.full += buffer.move(self.places)
        finally:
            os.close(fd)
            buffer.close()
        return done

    def follow(self, process: int) -> None:
        """Count what the process begins from now on. Raises OSError."""
        self._tracer.seize(process)

    def look(self) -> None:
        """Let tasks go on that wait for us; empty buffers that fill."""
        self._tracer.serve()
        for task, buffer in self._buffers.items():
            if not buffer.is_half_full:
                continue
            if is_asleep(task):
                self.full += buffer.move(self.places)
            else:
                self._tracer.interrupt(task)

    def end(self) -> None:
        """Count what tasks have done that still run."""
        self._tracer.serve()
        for task in list(self._buffers):
            self._take(task)

    def _began(self, stopped: Stopped) -> None:
        try:
            self._buffers[stopped.task] = give_buffer(stopped)
        except OSError:
            self.without += 1

    def _ended(self, task: int) -> None:
        self._take(task)
        buffer = self._buffers.pop(task, None)
        if buffer is not None:
            buffer.close()

    def _take(self, task: int) -> None:
        buffer = self._buffers.get(task)
        if buffer is not None:
            self.full += buffer.move(self.places)


class TaskLoop:
    """Serves tasks while something else is awaited."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._wake, signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)

    def until_readable(self, fd: int) -> None:
        """Serve until there is something to read, or the end of it."""
        while True:
            ready, _, _ = select.select([self._wake, fd], [], [], _LOOK_SECONDS)
            if self._wake in ready:
                os.read(self._wake, 512)
            self._tasks.look()
            if fd in ready:
                return

    def write(self, text: bytes) -> None:
        """Write to standard output. Who reads it is a task that may wait for us meanwhile."""
        done_read, done_write = os.pipe2(os.O_CLOEXEC)
        if os.fork() == 0:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            os._exit(0)
        os.close(done_write)
        self.until_readable(done_read)


def load(tasks: Tasks, modules: list[str]) -> dict[str, int]:
    """Load the modules and let them probe; return where they are. Raises CoverageError, OSError."""
    places = {}
    for module in in_order(modules):
        done = tasks.run("modprobe", module)
        if done.returncode:
            raise CoverageError(done.stderr.strip().partition("\n")[0])
        places[module] = base(module)
    tasks.run("sh", PROBE_SCRIPT)
    return places


def main(modules: list[str]) -> None:
    """Load and count until standard input ends."""
    if not KCOV.exists():
        subprocess.run(["mount", "-t", "debugfs", "debugfs", str(KCOV.parent)], check=False)
    if not KCOV.exists():
        raise CoverageError("the kernel has no KCOV (CONFIG_KCOV)")
    if not can_trace():
        raise CoverageError("tasks are counted on x86-64 only")
    check_unloaded(modules)
    AUTOPROBE.write_text("0")
    tasks = Tasks()
    try:
        places = load(tasks, modules)
        tasks.follow(RUNNER)
    except OSError as error:
        raise CoverageError(f"KCOV does not count: {error}") from error
    loop = TaskLoop(tasks)
    tell(ready=True)
    loop.until_readable(sys.stdin.fileno())
    tasks.end()
    modules_info = {
        module: {"directory": directory(module), "base": places[module]} for module in modules
    }
    moved = moved_by()
    low, high = min(places.values()) - moved, max(places.values()) - moved + MAX_TEXT
    answer = {
        "release": os.uname().release,
        "modules": modules_info,
        "places": [(at + moved, n) for at, n in tasks.places.items() if low <= at < high],
        "full": tasks.full,
        "without": tasks.without,
    }
    loop.write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
