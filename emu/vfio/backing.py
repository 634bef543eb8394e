"""The files behind guest memory, mapped so that no client can kill this process with one.

Touching a page of a shared mapping that lies beyond the end of its file raises SIGBUS, and the
client can shorten the file at any time. So a file must be sealed against shrinking (F_SEAL_SHRINK,
memfd_create(2)); where it can still be sealed we do it ourselves. QEMU's memory-backend-memfd seals
by default. No seal keeps a client from punching a hole into a file of huge pages: what such a file,
or one that is trusted without a seal, loses is survived by ``emu.vfio.sigbus``. What remains
is a host that runs out of memory.

A file is mapped once, whole, however many ranges of it the client grants: a guest's IOMMU grants
single pages by the thousand, and the kernel bounds the mappings of a process (vm.max_map_count).
A mapping whose ranges are all taken back is unmapped at once, unless a view of it is still kept.
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

from emu.vfio.protocol import PAGE_SIZE, RequestError

if TYPE_CHECKING:
    from emu.vfio.sigbus import Guard

logger = logging.getLogger(__name__)

_MAX_FILES: Final = 64
"""Mappings at a time, each of which costs us a descriptor. QEMU has a file for each memory backend;
a file that has grown counts once for each of its sizes that is still in use."""


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
        """``on_lost``: the file may lose pages; what to call when one is reached for."""
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            self.mapping = mmap.mmap(fd, size, access=access)
        except OSError as error:
            why = f"the file cannot be mapped: {error.strerror}"
            raise RequestError(error.errno or errno.EINVAL, why) from None
        self.mapping.madvise(mmap.MADV_DONTDUMP)
        self.guard = None if on_lost is None else _guard().add(self.mapping, on_lost)
        self.view = memoryview(self.mapping)
        self.key = key
        self.size = size
        self.writable = writable
        self.users = 0

    def close(self) -> bool:
        """Unmap; False when a view that somebody still holds delays it until that view is gone."""
        self.view.release()
        try:
            self.mapping.close()
        except BufferError:
            return False
        if self.guard is not None:
            _guard().remove(self.guard)
        return True


class BackingCache:
    """The files that are mapped now, by device and inode number."""

    def __init__(self, on_lost: Callable[[], object], trust_unsealed: bool = False) -> None:
        """``on_lost`` is called when a file turns out to have lost what the client had granted."""
        self._on_lost = on_lost
        self._trust_unsealed = trust_unsealed
        self._backings: dict[tuple[int, int], Backing] = {}
        self._mapped = 0
        """How many mappings there are, those of former sizes and those that are held included."""
        self._held: list[Backing] = []
        """Without users, but a view of them is kept, so that they cannot be unmapped."""

    def get(self, fd: int, end: int, writable: bool) -> Backing:
        """A mapping of ``fd``'s file that holds its bytes up to ``end``; counts one more user.

        The descriptor stays the caller's. Raises :class:`RequestError` for what is not a file, is
        shorter than ``end``, may shrink, or cannot be mapped for writing when that is wanted.
        """
        size, key, may_lose = self._check(fd, end)
        backing = self._backings.get(key)
        if backing is None or backing.size < end or (writable and not backing.writable):
            if self._mapped >= _MAX_FILES and not self._unmap_held():
                raise RequestError(errno.ENOSPC, f"{_MAX_FILES} files are mapped already")
            on_lost = self._on_lost if may_lose else None
            backing = self._backings[key] = Backing(fd, key, size, writable, on_lost)
            self._mapped += 1
        backing.users += 1
        return backing

    def put(self, backing: Backing) -> None:
        """Take back one :meth:`get`; the last one unmaps, or leaves it to :meth:`release`."""
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
        """Unmap what could not be, after whoever keeps views has been told to ``forget`` them.

        False when a view is kept all the same: its mapping is tried again the next time.
        """
        if self._held:
            forget()
            self._unmap_held()
        return not self._held

    def collect(self) -> None:
        """Unmap what could not be, when what keeps it should be garbage; what is not is an error.

        What a function leaves behind when it is reset refers to itself: only a collection frees it.
        """
        if self._held:
            gc.unfreeze()  # what is set aside is looked at as well
            gc.collect()
            self._unmap_held()
        if self._held:
            logger.error("a view of guest memory outlives its mapping; it is unmapped later")

    def _unmap_held(self) -> bool:
        """Whether a mapping could go that was held."""
        held = [backing for backing in self._held if not backing.close()]
        unmapped = len(self._held) - len(held)
        self._mapped -= unmapped
        self._held = held
        return unmapped > 0

    def _check(self, fd: int, end: int) -> tuple[int, tuple[int, int], bool]:
        """Size and identity of the file, and whether it may lose pages.

        Sealed first, so that the size holds from then on.
        """
        is_sealed = sealed_against_shrinking(fd)
        if not (is_sealed or self._trust_unsealed):
            raise RequestError(
                errno.EINVAL,
                "the memory's file may shrink, which would kill this process: "
                "give the guest its RAM by memory-backend-memfd with share=on (or trust the file)",
            )
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise RequestError(errno.EINVAL, "the descriptor is not a file's")
        if end > status.st_size:
            raise RequestError(
                errno.EINVAL, f"the file has {status.st_size:#x} bytes, {end:#x} are granted"
            )
        # Of what can be sealed, only files of huge pages have blocks of another size.
        may_lose = not is_sealed or status.st_blksize != PAGE_SIZE
        return status.st_size, (status.st_dev, status.st_ino), may_lose


def _guard() -> Guard:
    """What survives lost pages; most servers never need it, nor the ctypes that it loads."""
    from emu.vfio.sigbus import GUARD

    return GUARD


def sealed_against_shrinking(fd: int) -> bool:
    """Whether the file can never get shorter; seals it when it is not sealed yet but may be."""
    try:
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            return True
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except OSError:  # not a memfd, sealed against sealing, or not ours to seal
        return False
    return True
