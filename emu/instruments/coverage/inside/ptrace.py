"""Traces tasks by ptrace(2) from their start, and injects system calls into them; x86-64 only.

A process is seized. Each task that it and its children start stops before its first instruction and
is reported. Signals, job control and execve are not affected.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
from collections.abc import Callable, Iterator

WALL = 0x40000000
"""waitpid(2)'s __WALL: threads, too."""

_CONT, _SINGLESTEP, _GETREGS, _SETREGS = 7, 9, 12, 13
_SEIZE, _INTERRUPT, _LISTEN = 0x4206, 0x4207, 0x4208
_FORK, _VFORK, _CLONE = 1, 2, 3
_TRACE_BEGINNINGS = 1 << _FORK | 1 << _VFORK | 1 << _CLONE
_EVENT_STOP = 128
_GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

_REGISTERS = struct.Struct("<27Q")
"""arch/x86/include/asm/user_64.h: ``struct user_regs_struct``."""
_RAX, _ARGUMENTS, _ORIG_RAX, _RIP, _CS, _RSP = 10, (14, 13, 12, 7, 9, 8), 15, 16, 17, 19
_CS_64_BIT = 0x33
_SYSCALL = b"\x0f\x05"
_NONE = (1 << 64) - 1
_RED_ZONE = 128
"""Bytes below the stack pointer that the ABI reserves for a function."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def can_trace() -> bool:
    """Return whether this processor's registers are supported."""
    return platform.machine() == "x86_64"


def is_asleep(task: int) -> bool:
    """Return whether the task sleeps in the kernel; False if it runs, is stopped or has ended.

    An interrupt could fail a sleeping task's call with EINTR.
    """
    try:
        with open(f"/proc/{task}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in ("S", "D")
    except OSError:
        return False


def _ptrace(request: int, task: int, data: int = 0) -> None:
    if _libc.ptrace(request, task, None, data) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Stopped:
    """A task that is stopped just after a system call."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.signal = 0
        """Signal received meanwhile, which the task still has to get."""
        self._before = self._registers()
        self._memory = os.open(f"/proc/{task}/mem", os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Restore the task's registers."""
        os.close(self._memory)
        self._set(self._before)

    @property
    def can_call(self) -> bool:
        """Whether the task runs 64-bit code and RIP is just after a syscall instruction.

        Required by :meth:`call`. False if the memory cannot be read.
        """
        at = self._before[_RIP] - len(_SYSCALL)
        with contextlib.suppress(OSError):
            code = os.pread(self._memory, len(_SYSCALL), at)
            return self._before[_CS] == _CS_64_BIT and code == _SYSCALL
        return False

    def put(self, text: bytes) -> int:
        """Write bytes to the free stack below the red zone.

        Return the address until the next call.
        """
        at = (self._before[_RSP] - 2 * _RED_ZONE - len(text)) & ~15
        os.pwrite(self._memory, text, at)
        return at

    def call(self, number: int, *arguments: int) -> int:
        """Make the task issue a system call, and wait for its end; return the result.

        Raises OSError with the call's error, ProcessLookupError if the task ends. A signal that
        arrives meanwhile is kept in ``signal``. The registers stay changed until :meth:`close`.
        """
        registers = list(self._before)
        registers[_RIP] -= len(_SYSCALL)
        registers[_RAX], registers[_ORIG_RAX] = number, _NONE
        for place, value in zip(_ARGUMENTS, arguments):
            registers[place] = value
        self._set(tuple(registers))
        while True:
            _ptrace(_SINGLESTEP, self.task)
            _, status = os.waitpid(self.task, WALL)
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(errno.ESRCH, "the task ended")
            if os.WSTOPSIG(status) == signal.SIGTRAP and status >> 16 == 0:
                break
            if status >> 16 == 0:
                self.signal = os.WSTOPSIG(status)
        result = ctypes.c_int64(self._registers()[_RAX]).value
        if -4096 < result < 0:
            raise OSError(-result, os.strerror(-result))
        return result

    def _registers(self) -> tuple[int, ...]:
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        _ptrace(_GETREGS, self.task, ctypes.addressof(buffer))
        return _REGISTERS.unpack(buffer.raw)

    def _set(self, registers: tuple[int, ...]) -> None:
        buffer = ctypes.create_string_buffer(_REGISTERS.pack(*registers), _REGISTERS.size)
        _ptrace(_SETREGS, self.task, ctypes.addressof(buffer))


class TaskTracer:
    """Traces the tasks that a process starts. No other code may wait for children meanwhile."""

    def __init__(
        self,
        began: Callable[[Stopped], None],
        ended: Callable[[int], None],
        interrupted: Callable[[int], None],
    ) -> None:
        """Take callbacks for a task that starts, has ended, and stops on request."""
        self._began, self._ended, self._interrupted = began, ended, interrupted
        self._known: set[int] = set()
        self._requested: set[int] = set()
        """Tasks with a requested stop, for which ``interrupted`` was not called yet."""

    def seize(self, process: int) -> None:
        """Trace the process's tasks, and all that they start, from now on.

        The tasks are not stopped. Raises OSError, for example for a task that has ended.
        """
        for name in os.listdir(f"/proc/{process}/task"):
            task = int(name)
            _ptrace(_SEIZE, task, _TRACE_BEGINNINGS)
            self._known.add(task)

    def interrupt(self, task: int) -> None:
        """Request a stop when the task next leaves the kernel.

        :meth:`serve` then calls ``interrupted`` once, however often the stop was requested before.
        Ignores a task that has ended.
        """
        if task in self._requested:
            return
        with contextlib.suppress(OSError):
            _ptrace(_INTERRUPT, task)
            self._requested.add(task)

    def serve(self) -> None:
        """Handle all tasks that are stopped or have ended now, and resume the stopped ones.

        Do not wait. Calls ``began`` for a new task, ``interrupted`` at the first stop after a
        request, ``ended`` after the end. Signals are passed on, and group stops stay.
        """
        for task, status in self._stops():
            if not os.WIFSTOPPED(status):
                self._forget(task)
                self._ended(task)
                continue
            # Any stop ends a pending PTRACE_INTERRUPT (kernel/signal.c: ptrace_stop). An interrupt
            # of a task that has stopped already makes it stop again.
            if task in self._requested:
                self._requested.discard(task)
                self._interrupted(task)
            try:
                self._resume(task, os.WSTOPSIG(status), status >> 16)
            except OSError:  # killed while stopped
                self._forget(task)

    def _forget(self, task: int) -> None:
        """Forget a task that has ended or was killed; a later task may have its number."""
        self._known.discard(task)
        self._requested.discard(task)

    def _stops(self) -> Iterator[tuple[int, int]]:
        """Yield task and wait status of each child that has changed state.

        End when none is left.
        """
        while True:
            try:
                task, status = os.waitpid(-1, WALL | os.WNOHANG)
            except ChildProcessError:
                return
            if task == 0:
                return
            yield task, status

    def _resume(self, task: int, number: int, event: int) -> None:
        """Resume a stopped task with its signal; call ``began`` first for a new one.

        A group stop continues to be one. Raises OSError if the task was killed meanwhile.
        """
        if event == 0:
            _ptrace(_CONT, task, number)
        elif event != _EVENT_STOP:
            _ptrace(_CONT, task)
        elif number in _GROUP_STOPS:
            _ptrace(_LISTEN, task)
        elif task in self._known:
            _ptrace(_CONT, task)
        else:
            self._known.add(task)
            stopped = Stopped(task)
            try:
                self._began(stopped)
            finally:
                stopped.close()
            _ptrace(_CONT, task, stopped.signal)
