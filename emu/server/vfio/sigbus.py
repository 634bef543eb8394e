"""A SIGBUS handler, to survive accesses to pages that the client has removed from its files.

Access to a page that a file cannot provide raises SIGBUS (mmap(2)), which ends a process. No seal
prevents it for huge pages. The client punches a hole into its file (fallocate(2)), and the
reservation is freed with the page (fs/hugetlbfs/inode.c: hugetlbfs_punch_hole). Once the pool is
empty, no page can be allocated. The handler therefore replaces the whole mapping by anonymous
memory; the current access ends there, and the client is dropped.

A handler set with Python's ``signal`` runs only after the instruction has succeeded, which never
happens here. The kernel calls this one through ctypes. An instruction of the interpreter's own
thread, a copy to or from a mapping, causes the signal, so no lock is held.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Final

_SA_SIGINFO: Final = 4
_MAP_FIXED: Final = 0x10
_MAP_NORESERVE: Final = 0x4000
_SI_ADDR: Final = 16
"""Offset of si_addr in siginfo_t, on every 64-bit Linux."""
_PYBUF_SIMPLE: Final = 0
_PY_BUFFER_WORDS: Final = 16
"""At least the size of a Py_buffer; ``buf`` is its first word."""

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Sigaction(ctypes.Structure):
    """struct sigaction of glibc and musl on x86-64 and AArch64."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class SigbusGuard:
    """Handles SIGBUS in the mappings added to it; GUARD is the only instance of a process."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._guarded: list[tuple[int, Callable[[], object]]] = []
        """Size and callback of each mapping, by start address."""
        self._libc: Any = None
        self._previous = _Sigaction()
        self._handler = _Handler(self._on_sigbus)

    def add(self, mapping: mmap.mmap, on_lost: Callable[[], object]) -> int:
        """Guard a mapping until :meth:`remove`.

        Return its start address, the argument of that call. After access to a lost page, the whole
        mapping is anonymous memory and reads as zeros. ``on_lost`` is called during the failing
        access; the callback must not touch the mapping. The first call installs the process's
        SIGBUS handler; raises OSError if that fails.
        """
        self._install()
        start = _address_of(mapping)
        at = bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self._guarded.insert(at, (len(mapping), on_lost))
        return start

    def remove(self, start: int) -> None:
        """Stop guarding a mapping; call before unmapping."""
        at = self._starts.index(start)
        del self._starts[at], self._guarded[at]

    def _install(self) -> None:
        """Install the SIGBUS handler at the first call. Raises OSError if the kernel refuses."""
        if self._libc is not None:
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
            ctypes.c_long,
        )  # fmt: skip
        action = _Sigaction(flags=_SA_SIGINFO)
        action.handler = ctypes.cast(self._handler, ctypes.c_void_p).value
        number = int(signal.SIGBUS)
        if self._libc.sigaction(number, ctypes.byref(action), ctypes.byref(self._previous)):
            raise OSError(ctypes.get_errno(), "SIGBUS cannot be handled")

    def _on_sigbus(self, number: int, info: int, _context: int) -> None:
        """Replace the guarded mapping at the fault address by anonymous memory.

        Call its ``on_lost``. For any other address, or if the replacement fails, restore the
        previous handler: the repeated instruction then meets that.
        """
        address = ctypes.c_uint64.from_address(info + _SI_ADDR).value
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._starts[at] + self._guarded[at][0]:
            start, (size, on_lost) = self._starts[at], self._guarded[at]
            if self._libc.mmap(
                start, size, mmap.PROT_READ | mmap.PROT_WRITE,
                mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED | _MAP_NORESERVE, -1, 0,
            ) == start:  # fmt: skip
                on_lost()
                return
        # A foreign address: the repeated instruction meets the previous SIGBUS handling.
        self._libc.sigaction(number, ctypes.byref(self._previous), None)


GUARD: Final = SigbusGuard()
"""The process's only handler of SIGBUS, which the first use installs."""


def _address_of(mapping: mmap.mmap) -> int:
    """Return the start address of a mapping.

    Also of a read-only one, which ``from_buffer`` would refuse.
    """
    buffer = (ctypes.c_void_p * _PY_BUFFER_WORDS)()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    release.argtypes = (ctypes.c_void_p,)
    release.restype = None
    get(mapping, ctypes.byref(buffer), _PYBUF_SIMPLE)
    start = buffer[0]
    release(ctypes.byref(buffer))
    assert start is not None
    return start
