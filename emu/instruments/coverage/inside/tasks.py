"""The guest program that counts by KCOV the addresses that tasks ran in chosen modules.

Counted are the loading of the modules, the probe, and then every task of the host's commands. The
runner (init), which starts these, is seized, so each task gets a buffer before its first
instruction. Interrupts and kernel threads have no buffer and are not counted. A buffer is drained
while its task is outside the kernel. The answer has the number of full buffers and of tasks without
one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter

from emu.instruments.coverage.inside.kcov import KCOV, KcovBuffer, enable, give_buffer, moved_by
from emu.instruments.coverage.inside.modules import (
    AUTOPROBE,
    PROBE_SCRIPT,
    CoverageError,
    base,
    check,
    check_unloaded,
    directory,
    in_order,
    run,
    tell,
)
from emu.instruments.coverage.inside.ptrace import Stopped, TaskTracer, can_trace, is_asleep

RUNNER = 1  # the guest's init process starts the host's commands

_LOADING_WORDS = 1 << 24
_POLL_SECONDS = 0.02
MAX_TEXT = 1 << 26  # largest .text, in bytes


class Tasks:
    """The counted tasks and the addresses that they ran."""

    def __init__(self) -> None:
        self.places: Counter[int] = Counter()
        self.full = 0
        self.without = 0
        self._buffers: dict[int, KcovBuffer] = {}
        self._tracer = TaskTracer(self._began, self._ended, self._drain)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end and count the addresses of its first task.

        Return status and output. Tasks that it starts are not counted. Raises OSError without KCOV.
        """
        fd = os.open(KCOV, os.O_RDWR | os.O_CLOEXEC)
        buffer = KcovBuffer(fd, _LOADING_WORDS)
        try:
            done = run(*words, before=lambda: enable(fd))
            self.full += buffer.drain(self.places)
        finally:
            os.close(fd)
            buffer.close()
        return done

    def follow(self, process: int) -> None:
        """Count the tasks that the process starts from now on. Raises OSError."""
        self._tracer.seize(process)

    def poll(self) -> None:
        """Handle and resume stopped tasks; drain half-full buffers.

        A task that is asleep is drained at once, any other one is interrupted and drained at its
        stop.
        """
        self._tracer.serve()
        for task, buffer in self._buffers.items():
            if not buffer.is_half_full:
                continue
            if is_asleep(task):
                self.full += buffer.drain(self.places)
            else:
                self._tracer.interrupt(task)

    def end(self) -> None:
        """Handle stopped tasks, and drain the buffers of tasks that still run.

        A task that adds addresses meanwhile keeps all of them, which are then not counted.
        """
        self._tracer.serve()
        for task in list(self._buffers):
            self._drain(task)

    def _began(self, stopped: Stopped) -> None:
        """Give a new task a buffer; count it in ``without`` if that fails."""
        try:
            self._buffers[stopped.task] = give_buffer(stopped)
        except OSError:
            self.without += 1

    def _ended(self, task: int) -> None:
        """Drain, unmap and forget the buffer of a task that has ended, if it had one."""
        self._drain(task)
        buffer = self._buffers.pop(task, None)
        if buffer is not None:
            buffer.close()

    def _drain(self, task: int) -> None:
        """Drain a task's buffer, if it has one; count it in ``full`` if it was full."""
        buffer = self._buffers.get(task)
        if buffer is not None:
            self.full += buffer.drain(self.places)


class TaskLoop:
    """Serves tasks while waiting for a descriptor."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._wake, signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(signals, warn_on_full_buffer=False)

    def until_readable(self, fd: int) -> None:
        """Serve the tasks until ``fd`` is readable or at its end, at least every 20 ms."""
        while True:
            ready, _, _ = select.select([self._wake, fd], [], [], _POLL_SECONDS)
            if self._wake in ready:
                os.read(self._wake, 512)
            self._tasks.poll()
            if fd in ready:
                return

    def write(self, text: bytes) -> None:
        """Write to standard output in a child, and serve the tasks until the child has ended.

        The reader may be a stopped task, so writing here could block for ever.
        """
        done_read, done_write = os.pipe2(os.O_CLOEXEC)
        if os.fork() == 0:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            os._exit(0)
        os.close(done_write)
        self.until_readable(done_read)


def load(tasks: Tasks, modules: list[str]) -> dict[str, int]:
    """Load the modules and let drivers probe; return the address of each module's ``.text``.

    Counts both. Raises CoverageError if a module cannot be loaded, OSError without KCOV.
    """
    places = {}
    for module in in_order(modules):
        check(tasks.run("modprobe", module))
        places[module] = base(module)
    tasks.run("sh", PROBE_SCRIPT)
    return places


def main(modules: list[str]) -> None:
    """Load the modules, and count the guest's commands by KCOV until standard input ends.

    Writes the line ``ready``, then addresses with counts, full buffers, and tasks without one.
    Raises CoverageError without KCOV, on other processors than x86-64, and for a module that is
    loaded already or cannot be.
    """
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
        raise CoverageError(f"KCOV failed: {error}") from error
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
