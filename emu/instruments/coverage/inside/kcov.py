"""Buffers of Linux's KCOV (kernel/kcov.c, Documentation/dev-tools/kcov.rst).

KCOV writes the current address into the task's buffer at each basic block.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
from collections import Counter
from pathlib import Path

from emu.instruments.coverage.inside.modules import lines
from emu.instruments.coverage.inside.ptrace import Stopped

KCOV = Path("/sys/kernel/debug/kcov")

_INIT_TRACE, _ENABLE, _TRACE_PC = 0x80086301, 0x6364, 0
"""include/uapi/linux/kcov.h."""
_OPEN, _CLOSE, _IOCTL, _PIDFD_GETFD = 2, 3, 16, 438
_WORD = 8
_TASK_WORDS = (1 << 20, 1 << 16)
"""Sizes of buffers in words; the smaller one is the fallback when memory is short."""
_LINKED_AT = 0xFFFFFFFF81000000
"""Link address of x86-64's kernel; KCOV subtracts the KASLR offset from addresses."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = (1 << 64) - 1


class KcovBuffer:
    """KCOV's buffer of one task; the first word is the number of addresses after it."""

    def __init__(self, fd: int, words: int) -> None:
        """Set up and map the buffer. Raises OSError."""
        fcntl.ioctl(fd, _INIT_TRACE, words)
        self._words = words
        # Python's mmap refuses files of length 0, which this debugfs file reports.
        where = _libc.mmap(
            None, words * _WORD, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0
        )
        if where in (None, _MAP_FAILED):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._where = where
        array = (ctypes.c_uint64 * words).from_address(where)
        self._memory = memoryview(array).cast("B").cast("Q")

    @property
    def is_half_full(self) -> bool:
        """Whether the buffer should be drained soon."""
        return self._memory[0] > self._words // 2

    def drain(self, places: Counter[int]) -> bool:
        """Add the addresses to ``places`` and empty the buffer; return True if it was full.

        A full buffer may have lost addresses. The task must be stopped or asleep. If it adds
        addresses meanwhile, all stay for the next call, which returns False.
        """
        count = self._memory[0]
        addresses = memoryview(self._memory[1 : count + 1].tobytes()).cast("Q")
        if self._memory[0] != count:
            return False
        self._memory[0] = 0
        places.update(addresses)
        return count + 1 >= self._words

    def unique(self) -> set[int]:
        """Return the set of addresses and empty the buffer.

        Call it only in the counted task itself. Addresses beyond a full buffer are lost without a
        notice.
        """
        places = set(self._memory[1 : self._memory[0] + 1])
        self._memory[0] = 0
        return places

    def close(self) -> None:
        """Unmap the buffer."""
        self._memory.release()
        _libc.munmap(self._where, self._words * _WORD)


def enable(fd: int) -> None:
    """Record this task's addresses from now on. Raises OSError."""
    fcntl.ioctl(fd, _ENABLE, _TRACE_PC)


def give_buffer(stopped: Stopped) -> KcovBuffer:
    """Make a stopped task open and enable KCOV; return its buffer, mapped in this process.

    The task's own descriptor is closed again; KCOV stays enabled. Raises OSError: ENOEXEC if the
    task is not just after a system call, else the error of a call.
    """
    if not stopped.can_call:
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC))
    theirs = stopped.call(_OPEN, stopped.put(bytes(KCOV) + b"\0"), os.O_RDWR | os.O_CLOEXEC)
    try:
        ours = copy_of(theirs, stopped.task)
        try:
            buffer = _largest(ours)
        finally:
            os.close(ours)
        try:
            stopped.call(_IOCTL, theirs, _ENABLE, _TRACE_PC)
        except OSError:
            buffer.close()
            raise
    finally:
        with contextlib.suppress(OSError):
            stopped.call(_CLOSE, theirs)
    return buffer


def _largest(fd: int) -> KcovBuffer:
    """Return a buffer of 1 Mi words, or of 64 Ki words when memory is short. Raises OSError."""
    for words in _TASK_WORDS[:-1]:
        with contextlib.suppress(MemoryError, OSError):
            return KcovBuffer(fd, words)
    return KcovBuffer(fd, _TASK_WORDS[-1])


def copy_of(fd: int, task: int) -> int:
    """Return a duplicate of a task's descriptor in this process (pidfd_getfd(2)); raise OSError."""
    process = next(
        int(line.split()[1]) for line in lines(Path(f"/proc/{task}/status")) if "Tgid:" in line
    )
    handle = os.pidfd_open(process)
    try:
        ours: int = _libc.syscall(_PIDFD_GETFD, handle, fd, 0)
        if ours < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return ours
    finally:
        os.close(handle)


def moved_by() -> int:
    """Return the kernel's KASLR offset; 0 if /proc/kallsyms has no ``_text``."""
    for line in lines(Path("/proc/kallsyms")):
        address, _, name, *_ = line.split()
        if name == "_text":
            return int(address, 16) - _LINKED_AT
    return 0
