"""The files that back guest memory, mapped so that no client can kill this process with them.

Touching a page of a shared mapping that lies beyond the end of its file raises SIGBUS, and the
client can shorten the file at any time. So a file must be sealed against shrinking (F_SEAL_SHRINK,
memfd_create(2)); we seal files that are not sealed yet but can be. QEMU's memory-backend-memfd
seals by default. No seal keeps a client from punching a hole into a file of huge pages:
``emu.server.vfio.sigbus`` lets us survive pages lost by such a file, or by one that is trusted
without a seal. A host that runs out of memory can still kill the process.

A file is mapped once, whole, however many ranges of it the client grants: a guest's IOMMU grants
single pages by the thousand, and the kernel limits the mappings of a process (vm.max_map_count).
When all ranges of a mapping are unmapped, it is removed at once, unless a view of it still exists.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import logging
import mmap
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from emu.server.vfio.protocol import PAGE_SIZE, VfioRequestError

if TYPE_CHECKING:
    from emu.server.vfio.sigbus import SigbusGuard

logger = logging.getLogger(__name__)

_MAX_FILES: Final = 64
"""Limit of mappings, each of which costs a descriptor. QEMU has a file for each memory backend; a
file that has grown counts once for each of its sizes that is still in use."""


class Backing:
    """One mapping of one file and the number of granted ranges that use it."""

    __slots__ = ("guard", "key", "mapping", "size", "users", "view", "writable")

    def __init__(
        self,
        fd: int,
        key: tuple[int, int],
        size: int,
        writable: bool,
        on_lost: Callable[[], object] | None,
    ) -> None:
        """``on_lost``: given if the file may lose pages; called when a lost page is accessed."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            self.mapping = mmap.mmap(fd, size, access=access)
        except OSError as error:
            why = f"the file cannot be mapped: {error.strerror}"
            raise VfioRequestError(error.errno or errno.EINVAL, why) from None
        self.mapping.madvise(mmap.MADV_DONTDUMP)
        self.guard = None if on_lost is None else _guard().add(self.mapping, on_lost)
        self.view = memoryview(self.mapping)
        self.key = key
        self.size = size
        self.writable = writable
        self.users = 0

    def close(self) -> bool:
        """Unmap; False when a view still exists, which delays it until that view is gone."""
        self.view.release()
        try:
            self.mapping.close()
        except BufferError:
            return False
        if self.guard is not None:
            _guard().remove(self.guard)
        return True


class BackingCache:
    """The files that are currently mapped, by device and inode number."""

    def __init__(self, on_lost: Callable[[], object], trust_unsealed: bool = False) -> None:
        """``on_lost`` is called when a file turns out to have lost pages that were granted."""
        self._on_lost = on_lost
        self._trust_unsealed = trust_unsealed
        self._backings: dict[tuple[int, int], Backing] = {}
        self._mapped = 0
        """Number of mappings, including those of earlier file sizes and those in ``_held``."""
        self._held: list[Backing] = []
        """Mappings without users that cannot be unmapped because a view of them still exists."""

    def get(self, fd: int, end: int, writable: bool) -> Backing:
        """A mapping of ``fd``'s file that holds its bytes up to ``end``; counts one more user.

        The caller keeps the descriptor. Raises :class:`VfioRequestError` when it is not a file, the
        file is shorter than ``end``, may shrink, or cannot be mapped as ``writable`` asks.
        """
        size, key, may_lose = self._check(fd, end)
        backing = self._backings.get(key)
        if backing is None or backing.size < end or (writable and not backing.writable):
            if self._mapped >= _MAX_FILES and not self._unmap_held():
                raise VfioRequestError(errno.ENOSPC, f"{_MAX_FILES} files are mapped already")
            on_lost = self._on_lost if may_lose else None
            backing = self._backings[key] = Backing(fd, key, size, writable, on_lost)
            self._mapped += 1
        backing.users += 1
        return backing

    def put(self, backing: Backing) -> None:
        """Undo one :meth:`get`; the last one unmaps, or leaves that to :meth:`release`."""
        backing.users -= 1
        if backing.users:
            return
        if self._backings.get(backing.key) is backing:
            del self._backings[backing.key]
        if backing.close():
            self._mapped -= 1
        else:
            self._held.append(backing)

    def release(self, forget: Callable[[], None]) -> bool:
        """Unmap the held mappings, after calling ``forget``, which drops the function's views.

        False when a view still exists: its mapping is tried again the next time.
        """
        if self._held:
            forget()
            self._unmap_held()
        return not self._held

    def collect(self) -> None:
        """Unmap the held mappings by a garbage collection; an error is logged if a view survives.

        A function that is reset leaves reference cycles: only a garbage collection frees them.
        """
        if self._held:
            gc.collect()
            self._unmap_held()
        if self._held:
            logger.error("a view of guest memory outlives its mapping; it is unmapped later")

    def _unmap_held(self) -> bool:
        """Try to unmap the held mappings; whether at least one could be."""
        mapped = [backing for backing in self._held if not backing.close()]
        unmapped = len(self._held) - len(mapped)
        self._mapped -= unmapped
        self._held = mapped
        return unmapped > 0

    def _check(self, fd: int, end: int) -> tuple[int, tuple[int, int], bool]:
        """Size and identity of the file, and whether it may lose pages.

        The file is sealed first, so that its size cannot shrink afterwards.
        """
        is_sealed = sealed_against_shrinking(fd)
        if not (is_sealed or self._trust_unsealed):
            raise VfioRequestError(
                errno.EINVAL,
                "the memory's file may shrink, which would kill this process: "
                "give the guest its RAM by memory-backend-memfd with share=on (or trust the file)",
            )
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise VfioRequestError(errno.EINVAL, "the descriptor is not a file's")
        if end > status.st_size:
            raise VfioRequestError(
                errno.EINVAL, f"the file has {status.st_size:#x} bytes, {end:#x} are granted"
            )
        # Among files that can be sealed, only those of huge pages have another block size.
        may_lose = not is_sealed or status.st_blksize != PAGE_SIZE
        return status.st_size, (status.st_dev, status.st_ino), may_lose


def _guard() -> SigbusGuard:
    """The SIGBUS handler; imported late, as most servers need neither it nor its ctypes."""
    from emu.server.vfio.sigbus import GUARD

    return GUARD


def sealed_against_shrinking(fd: int) -> bool:
    """Whether the file can never get shorter; seals it if it is not sealed yet but can be."""
    try:
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            return True
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except OSError:  # not a memfd, sealed against sealing, or not writable
        return False
    return True
