"""Guest memory that the client grants: DMA_MAP and DMA_UNMAP in, :class:`GuestMemory` out.

The vfio-user specification defines DMA_MAP and DMA_UNMAP. For cases that it leaves open, the rules
of VFIO_IOMMU_MAP_DMA and VFIO_IOMMU_UNMAP_DMA apply (Linux: drivers/vfio/vfio_iommu_type1.c).
"""

from __future__ import annotations

import errno
import logging
import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from emu.device.ports import Buffer, DmaError
from emu.server.vfio.backing import Backing, BackingCache
from emu.server.vfio.protocol import MAX_DMA_MAPS, PAGE_SIZE, VfioRequestError

logger = logging.getLogger(__name__)

READ: Final = 1
WRITE: Final = 2
_ADDRESS_SPACE: Final = 1 << 64

_Window = tuple[int, int, int, mmap.mmap, memoryview]
"""First iova, end iova (exclusive), iova minus file offset, the file's mapping and its view."""

_Segment = tuple[_Window, int, int]
"""A segment of a range: its window, its position in the file, its size."""


_Find = Callable[[int, int, int], list[_Segment]]
"""Finds the segments of a range (iova, length, access). Raises :class:`DmaError`."""


class DmaRegion:
    """A granted range; without a ``backing``, it cannot be accessed."""

    __slots__ = ("access", "backing", "end", "start", "window")

    def __init__(
        self, start: int, end: int, offset: int, access: int, backing: Backing | None
    ) -> None:
        self.start = start
        self.end = end
        self.access = access
        self.backing = backing
        self.window: _Window | None = None
        if backing is not None:
            self.window = (start, end, start - offset, backing.mapping, backing.view)

    def denied(self, access: int) -> str:
        """Return why ``access`` is refused, as text of the DmaError.

        Valid only for a refused access.
        """
        if self.window is None:
            return "granted without a file descriptor"
        return "read-only" if access & ~self.access & WRITE else "write-only"


class DmaMap:
    """The guest's memory map; see :class:`emu.device.ports.GuestMemory` for reads and writes.

    ``forget_views`` is called at each change of the map, so that the function drops its views:
    unmapped memory must not be written, and a live view keeps a whole file mapped.
    """

    def __init__(self, *, max_maps: int = MAX_DMA_MAPS, trust_unsealed: bool = False) -> None:
        """Create an empty map; ``trust_unsealed`` accepts files that the client can shorten."""
        self.forget_views: Callable[[], None] = _ignore
        self.on_lost: Callable[[], None] = _ignore
        """Callback for a file that has lost granted pages, which read as zeros from then on."""
        self._max_maps = max_maps
        self._files = BackingCache(lambda: self.on_lost(), trust_unsealed)
        self._starts: list[int] = []
        self._regions: list[DmaRegion] = []
        nothing = mmap.mmap(-1, PAGE_SIZE)
        self._no_window: _Window = (1, 0, 0, nothing, memoryview(nothing))
        # Caches of the last read and the last written range: most accesses stay in a range.
        self._read_window = self._no_window
        self._write_window = self._no_window
        self._permitted_segments: _Find = self._granted_segments
        self._find: _Find = self._permitted_segments
        self._check: Callable[[int, int, bool], None] | None = None

    def __len__(self) -> int:
        return len(self._regions)

    def read(self, iova: int, length: int) -> bytes:
        """Return a copy of ``length`` bytes of guest memory; the range may span mappings.

        Raises :class:`DmaError` for a byte that is not granted for reading, while bus mastering is
        off, or as the watch's check does.
        """
        start, end, delta, mapping, _ = self._read_window
        stop = iova + length
        if start <= iova and stop <= end:
            return mapping[iova - delta : stop - delta]
        segments = self._find(iova, length, READ)
        return b"".join(window[3][at : at + size] for window, at, size in segments)

    def write(self, iova: int, data: Buffer) -> None:
        """Copy ``data`` into guest memory; the range may span mappings.

        Raises :class:`DmaError` before anything is written for a byte that is not granted for
        writing. Also raises while bus mastering is off, or as the watch's check does.
        """
        start, end, delta, mapping, _ = self._write_window
        stop = iova + len(data)
        if start <= iova and stop <= end:
            mapping[iova - delta : stop - delta] = data
            return
        done = 0
        source = memoryview(data)
        for window, at, size in self._find(iova, len(data), WRITE):
            window[3][at : at + size] = source[done : done + size]
            done += size

    def view(self, iova: int, length: int, *, writable: bool = True) -> memoryview:
        """Return the guest's own bytes of a range inside one mapping; empty for length 0.

        Valid until ``forget_views`` is called. Raises :class:`DmaError` for a range over two
        mappings (use :meth:`segments`), or not granted. ``writable=False`` permits read-only memory
        and returns a read-only view.
        """
        start, end, delta, _, view = self._write_window
        stop = iova + length
        if writable and start <= iova and stop <= end:
            return view[iova - delta : stop - delta]
        views = self.segments(iova, length, writable=writable)
        if len(views) > 1:
            raise DmaError(iova, length, "spans two mappings")
        return views[0] if views else memoryview(bytearray())

    def segments(self, iova: int, length: int, *, writable: bool = True) -> list[memoryview]:
        """Return the guest's own bytes of a range, in order, one view for each mapping.

        Empty for length 0. ``writable`` requires memory granted for reading and writing; False
        returns read-only views. Raises :class:`DmaError` for a byte that is not granted, while bus
        mastering is off, or as the check does.
        """
        start, end, delta, _, view = self._write_window
        stop = iova + length
        if start <= iova < stop <= end:
            segment = view[iova - delta : stop - delta]
            return [segment if writable else segment.toreadonly()]
        segments = self._find(iova, length, READ | WRITE if writable else READ)
        views = [window[4][at : at + size] for window, at, size in segments]
        return views if writable else [view.toreadonly() for view in views]

    def equal_views(
        self, starts: Sequence[int], size: int, *, writable: bool = True
    ) -> list[memoryview]:
        """Return views of ranges of ``size`` bytes at ``starts``, in order.

        The list is empty, without an error, unless the most recently used writable mapping grants
        all of them. In that case the caller uses :meth:`segments`.
        """
        start, end, delta, _, view = self._write_window
        if not starts or min(starts) < start or max(starts) + size > end:
            return []
        if not writable:
            view = view.toreadonly()
        return [view[at : at + size] for at in [iova - delta for iova in starts]]

    def permit(self, allowed: bool) -> None:
        """Allow or forbid all access, as bus mastering does; allowed at first.

        While forbidden, every access raises DmaError; the mappings stay. Calls ``forget_views``.
        """
        self._permitted_segments = self._granted_segments if allowed else _no_segments
        self.watch(self._check)

    def watch(self, check: Callable[[int, int, bool], None] | None) -> None:
        """Call ``check(iova, length, is_write)`` before each access; None removes the check.

        An exception of ``check`` refuses the access. Calls ``forget_views`` and ends the fast path.
        """
        self._check = check
        self._find = self._permitted_segments if check is None else self._watched_segments
        self._changed()

    def map(self, iova: int, size: int, offset: int, access: int, fd: int | None) -> None:
        """Grant a range, backed by ``fd`` from ``offset`` on; the caller keeps the descriptor.

        Without ``fd``, the range counts as granted, but every access to it raises DmaError. Calls
        ``forget_views``. Raises :class:`VfioRequestError` before anything changes. EINVAL: the
        range is empty, unaligned, without access or past the end of the address space or of the
        file, or the file may shrink. EEXIST: the range overlaps. ENOSPC: too many ranges or files.
        """
        end = iova + size
        if not size or (iova | size | offset) % PAGE_SIZE or end > _ADDRESS_SPACE:
            raise VfioRequestError(errno.EINVAL, "the range is empty, unaligned or too long")
        if not access:
            raise VfioRequestError(errno.EINVAL, "the range is neither readable nor writable")
        at = bisect_left(self._starts, end)
        if at and self._regions[at - 1].end > iova:
            raise VfioRequestError(errno.EEXIST, "the range overlaps a granted one")
        if len(self._regions) >= self._max_maps:
            raise VfioRequestError(errno.ENOSPC, f"the limit of {self._max_maps} ranges is reached")
        backing = None
        if fd is not None:
            backing = self._files.get(fd, offset + size, writable=bool(access & WRITE))
        self._starts.insert(at, iova)
        self._regions.insert(at, DmaRegion(iova, end, offset, access, backing))
        self._changed()

    def unmap(self, iova: int, size: int) -> int:
        """Unmap every range inside ``[iova, iova + size)`` and return their number.

        Zero is no error: QEMU's intel-iommu unmaps ranges that it never mapped. Removal calls
        ``forget_views``. Raises :class:`VfioRequestError` with EINVAL, without a change, for an
        empty range, one past the address space, or one that would split a granted range.
        """
        end = iova + size
        if not size or end > _ADDRESS_SPACE:
            raise VfioRequestError(errno.EINVAL, "the range is empty or too long")
        first, last = bisect_left(self._starts, iova), bisect_left(self._starts, end)
        starts_inside = first and self._regions[first - 1].end > iova
        if starts_inside or (last > first and self._regions[last - 1].end > end):
            raise VfioRequestError(errno.EINVAL, "the range would split a granted one")
        if first < last:
            self._remove(first, last)
        return last - first

    def clear(self) -> int:
        """Unmap all ranges and return their number; call ``forget_views`` even without any."""
        count = len(self._regions)
        self._remove(0, count)
        return count

    def collect(self) -> None:
        """Remove the mappings that views kept alive, after a reset of the function.

        Logs an error when a view still exists.
        """
        self._files.collect()

    def _remove(self, first: int, last: int) -> None:
        """Remove the ranges with these indices, and unmap their files, after ``forget_views``.

        A mapping whose view is still in use stays until a later removal or :meth:`collect`.
        """
        removed = self._regions[first:last]
        del self._regions[first:last], self._starts[first:last]
        self._changed()
        for region in removed:
            if region.backing is not None:
                self._files.put(region.backing)
        if not self._files.unmap_held():
            logger.debug("work in progress delays the removal of unmapped guest memory")

    def _changed(self) -> None:
        self.forget_views()
        self._read_window = self._write_window = self._no_window

    def _watched_segments(self, iova: int, length: int, access: int) -> list[_Segment]:
        """Return the granted segments after ``check`` has permitted the access by not raising.

        Caches no range, so that the next access is checked as well. Raises as ``check`` and
        :meth:`_granted_segments` do.
        """
        if self._check is not None:
            self._check(iova, length, bool(access & WRITE))
        segments = self._permitted_segments(iova, length, access)
        self._read_window = self._write_window = self._no_window
        return segments

    def _granted_segments(self, iova: int, length: int, access: int) -> list[_Segment]:
        """Return the segments of a range by mapping; empty for length 0.

        Raises :class:`DmaError` unless every byte permits ``access``. A range in a single mapping
        is cached for the fast path of the next access.
        """
        segments: list[_Segment] = []
        at, stop = iova, iova + length
        index = bisect_right(self._starts, iova) - 1
        while at < stop:
            region = self._regions[index] if 0 <= index < len(self._regions) else None
            if region is None or not region.start <= at < region.end:
                raise DmaError(iova, length)
            window = region.window
            if window is None or access & ~region.access:
                raise DmaError(iova, length, region.denied(access))
            size = min(stop, region.end) - at
            segments.append((window, at - window[2], size))
            at += size
            index += 1
        if len(segments) == 1:
            self._remember(segments[0][0], region)
        return segments

    def _remember(self, window: _Window, region: DmaRegion | None) -> None:
        """Cache the window for fast reads if the range is readable; for writes if also writable."""
        if region is not None and region.access & READ:
            self._read_window = window
            if region.access & WRITE:
                self._write_window = window


def _no_segments(iova: int, length: int, _access: int) -> list[_Segment]:
    """Refuse the lookup while bus mastering is off; permit only an empty range."""
    if length:
        raise DmaError(iova, length, "bus mastering is off")
    return []


def _ignore() -> None:
    """Do nothing: the initial callback."""
