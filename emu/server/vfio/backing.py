"""The files that back guest memory, mapped safely against hostile clients.

Access to a page of a shared mapping beyond the end of its file raises SIGBUS, and the client can
shorten the file at any time. A file must therefore be sealed against shrinking (F_SEAL_SHRINK,
memfd_create(2)); this module seals files that are not sealed yet but can be. QEMU's
memory-backend-memfd seals by default. No seal prevents a client from punching a hole into a file of
huge pages. With ``emu.server.vfio.sigbus`` the process survives pages lost by such a file, or by a
trusted one without a seal. A host that runs out of memory can still kill the process.

A file is mapped once, as a whole, for any number of granted ranges. A guest's IOMMU grants
thousands of single pages, and the kernel limits the mappings of a process (vm.max_map_count). When
all ranges of a mapping are unmapped, the mapping is removed at once, unless a view of it exists.
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
"""Maximum number of mappings, each of which costs a descriptor. QEMU has a file for each memory
backend; a file that has grown counts once for each of its sizes in use."""


class Backing:
    """A mapping of a file, and the number of granted ranges that use it."""

    __slots__ = ("guard", "key", "mapping", "size", "users", "view", "writable")

    def __init__(
        self,
        fd: int,
        key: tuple[int, int],
        size: int,
        writable: bool,
        on_lost: Callable[[], object] | None,
    ) -> None:
        """Map the file; ``on_lost`` is called for access to a lost page, if any can be lost."""
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
        """Unmap the file and remove its SIGBUS guard; return whether the mapping is gone.

        Return False while an exported view exists: the mapping and its guard stay, and the caller
        must call again. May be called repeatedly until True.
        """
        self.view.release()
        try:
            self.mapping.close()
        except BufferError:
            return False
        if self.guard is not None:
            _guard().remove(self.guard)
        return True


class BackingCache:
    """The currently mapped files, by device and inode number."""

    def __init__(self, on_lost: Callable[[], object], trust_unsealed: bool = False) -> None:
        """Store ``on_lost``, which is called when a file has lost granted pages."""
        self._on_lost = on_lost
        self._trust_unsealed = trust_unsealed
        self._backings: dict[tuple[int, int], Backing] = {}
        self._mapped = 0
        """Number of mappings, including those of earlier file sizes and those in ``_held``."""
        self._held: list[Backing] = []
        """Mappings without users that a view keeps mapped."""

    def get(self, fd: int, end: int, writable: bool) -> Backing:
        """Return a mapping of ``fd``'s whole file that covers the bytes up to ``end``.

        Count one more user. Reuses a mapping of the same file (device and inode) if it is long
        enough and as ``writable`` as needed. The caller keeps the descriptor; the file is sealed
        against shrinking if possible.

        Raises :class:`VfioRequestError`. EINVAL: no regular file, shorter than ``end``, or may
        shrink (unless unsealed files are trusted). ENOSPC: 64 files are mapped. Else: the error of
        mmap().
        """
        size, key, may_lose = self._check(fd, end)
        backing = self._backings.get(key)
        if backing is None or backing.size < end or (writable and not backing.writable):
            if self._mapped >= _MAX_FILES and not self._unmap_without_views():
                raise VfioRequestError(errno.ENOSPC, f"the limit is {_MAX_FILES} mapped files")
            on_lost = self._on_lost if may_lose else None
            backing = self._backings[key] = Backing(fd, key, size, writable, on_lost)
            self._mapped += 1
        backing.users += 1
        return backing

    def put(self, backing: Backing) -> None:
        """Undo one :meth:`get`; the last user's call unmaps the file.

        While a view of the mapping exists, the mapping is held and still counts against the limit.
        :meth:`unmap_held`, :meth:`collect` or a later :meth:`get` that needs space unmaps it.
        """
        backing.users -= 1
        if backing.users:
            return
        if self._backings.get(backing.key) is backing:
            del self._backings[backing.key]
        if backing.close():
            self._mapped -= 1
        else:
            self._held.append(backing)

    def unmap_held(self) -> bool:
        """Unmap the held mappings of which no view exists; return True if none is left."""
        if self._held:
            self._unmap_without_views()
        return not self._held

    def collect(self) -> None:
        """Run a full garbage collection and unmap the held mappings; do nothing when none is held.

        Logs an error for a view that survives; its mapping stays held. A function's reset leaves
        reference cycles, which only a garbage collection frees.
        """
        if self._held:
            gc.collect()
            self._unmap_without_views()
        if self._held:
            logger.error("a view of guest memory outlives its mapping, which is unmapped later")

    def _unmap_without_views(self) -> bool:
        """Unmap the held mappings without views; return True if at least one was unmapped.

        Mappings with views stay held. Each unmapped one no longer counts against the limit.
        """
        mapped = [backing for backing in self._held if not backing.close()]
        unmapped = len(self._held) - len(mapped)
        self._mapped -= unmapped
        self._held = mapped
        return unmapped > 0

    def _check(self, fd: int, end: int) -> tuple[int, tuple[int, int], bool]:
        """Return the file's size, its (device, inode), and whether it may still lose pages.

        Seals the file first, if possible, so that its size cannot shrink afterwards. True for files
        without a seal and for those of huge pages, which then get a SIGBUS guard. Raises
        :class:`VfioRequestError` with EINVAL: the file may shrink and is not trusted, is no regular
        file, or is shorter than ``end``.
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
        # Among sealable files, only those of huge pages have another block size.
        may_lose = not is_sealed or status.st_blksize != PAGE_SIZE
        return status.st_size, (status.st_dev, status.st_ino), may_lose


def _guard() -> SigbusGuard:
    """Return the SIGBUS handler; most servers need neither it nor ctypes, hence the late import."""
    from emu.server.vfio.sigbus import GUARD

    return GUARD


def sealed_against_shrinking(fd: int) -> bool:
    """Return whether F_SEAL_SHRINK is set on the file; try to set it first.

    False for a file that cannot be sealed: not a memfd, sealed by F_SEAL_SEAL, or not writable.
    Raises nothing.
    """
    try:
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            return True
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except OSError:  # not a memfd, sealed against sealing, or not writable
        return False
    return True
