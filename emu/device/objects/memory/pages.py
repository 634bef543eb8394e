"""A queue's buffer in guest memory: a list of pages that need not be contiguous.

Source: the pas[] lists of CREATE_EQ, CREATE_CQ, CREATE_QP and CREATE_RMP, with the fields
log_page_size (pages of ``4096 << n`` bytes) and page_offset of their contexts. The offset counts in
64ths of a page for every page size (hw/mem.c: mlx5_umem_find_best_quantized_pgoff).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from typing import Final

from emu.device.errors import BadParamError
from emu.device.ports import Buffer, DmaError, GuestMemory
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import PAGES_PER_PORTION
from layouts.fields import ArrayView

ADAPTER_PAGE_SHIFT: Final = 12
_JOINED_COST: Final = 16
"""Number of adjacent pages that take as long to check as one separate page."""
_MAX_JOINED = PAGES_PER_PORTION * _JOINED_COST
LOG_OFFSETS_PER_PAGE: Final = 6


class PageList:
    """``length`` bytes that start ``offset`` bytes into the first of the pages."""

    __slots__ = ("_mask", "_memory", "_offset", "_pages", "_shift", "host_bytes", "length")

    def __init__(
        self, memory: GuestMemory, pages: array[int], shift: int, offset: int, length: int
    ) -> None:
        self._memory = memory
        self._pages = pages
        self._shift = shift
        self._mask = (1 << shift) - 1
        self._offset = offset
        self.length = length
        self.host_bytes = sys.getsizeof(pages)
        """Cost of the page list on the host, in bytes; 0 if the list belongs to another buffer."""

    @property
    def pages(self) -> array[int]:
        """The page addresses from the command."""
        return self._pages

    @property
    def shift(self) -> int:
        """log2 of the bytes in a page."""
        return self._shift

    def read(self, at: int, length: int) -> bytes:
        """Return a copy of bytes of the buffer; ``at + length`` lies within it. Raises DmaError."""
        start = at + self._offset
        within = start & self._mask
        if within + length <= self._mask + 1:  # most entries lie in one page
            return self._memory.read(self._pages[start >> self._shift] + within, length)
        return b"".join(self._memory.read(iova, size) for iova, size in self._segments(at, length))

    def write(self, at: int, data: Buffer) -> None:
        """Copy ``data`` to byte ``at`` of the buffer, in which it must fit.

        Raises DmaError; pages before the failing one then have been written.
        """
        start = at + self._offset
        within = start & self._mask
        if within + len(data) <= self._mask + 1:
            self._memory.write(self._pages[start >> self._shift] + within, data)
            return
        done = 0
        for iova, size in self._segments(at, len(data)):
            self._memory.write(iova, data[done : done + size])
            done += size

    def address(self, at: int) -> int:
        """Return the IOVA of one byte of the buffer."""
        at += self._offset
        return self._pages[at >> self._shift] + (at & self._mask)

    def page_of(self, at: int) -> tuple[int, int, int]:
        """Return the part of the buffer that lies in the same page as byte ``at``.

        The first offset, the offset behind the last one, and the IOVA of the first byte.
        """
        place = at + self._offset
        first = at - (place & self._mask)
        start = max(first, 0)
        end = min(first + self._mask + 1, self.length)
        return start, end, self._pages[place >> self._shift] + start - first

    def part(self, at: int, length: int) -> PageList:
        """Return a sub-range as a buffer with the same page list.

        ``at + length`` lies within this one. Its ``host_bytes`` is 0.
        """
        part = PageList(self._memory, self._pages, self._shift, self._offset + at, length)
        part.host_bytes = 0
        return part

    def split(self, at: int, count: int, shift: int) -> Iterator[array[int]]:
        """Yield the addresses of ``count`` pages of ``1 << shift`` bytes, thousands at a time.

        The first page begins ``at`` bytes into the buffer; ``at`` may be negative. The pages are no
        larger than the buffer's own pages and lie within them.
        """
        at += self._offset
        addresses = array("Q")
        while count:
            page, within = self._pages[at >> self._shift], at & self._mask
            size = min(count, self._mask + 1 - within >> shift, PAGES_PER_PORTION)
            first = page + within
            addresses.extend(range(first, first + (size << shift), 1 << shift))
            at += size << shift
            count -= size
            if len(addresses) >= PAGES_PER_PORTION or not count:
                yield addresses
                addresses = array("Q")

    def _segments(self, at: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield IOVA and size of the range's segment in each page, in order."""
        at += self._offset
        while length:
            within = at & self._mask
            size = min(length, self._mask + 1 - within)
            yield self._pages[at >> self._shift] + within, size
            at += size
            length -= size


def no_pages(memory: GuestMemory) -> PageList:
    """Return the buffer of a queue pair without rings."""
    return PageList(memory, array("Q"), ADAPTER_PAGE_SHIFT, 0, 0)


def queue_buffer(
    memory: GuestMemory, pas: ArrayView[int], log_page_size: int, page_offset: int, length: int
) -> Portions[PageList]:
    """Return the buffer that a create command describes, after a check of its pages, in steps.

    ``page_offset`` is in 64ths of a page. Raises BAD_PARAM_ERR if the list is too short for
    ``length`` bytes, or if a page is not 4096-byte aligned or not guest memory.
    """
    shift = log_page_size + ADAPTER_PAGE_SHIFT
    offset = page_offset << shift - LOG_OFFSETS_PER_PAGE
    needed = -(-(offset + length) >> shift)
    if len(pas) < needed:
        raise BadParamError("page list too short", f"{len(pas)} of {needed} pages")
    pages = pas.words(needed)
    yield from check_pages(memory, pages, 1 << shift, offset + length)
    return PageList(memory, pages, shift, offset, length)


def low_bytes(words: array[int]) -> memoryview:
    """Return a writable view of the lowest byte of each number, to test or set all at once."""
    first = 0 if sys.byteorder == "little" else words.itemsize - 1
    return memoryview(words).cast("B")[first :: words.itemsize]


def check_pages(memory: GuestMemory, pages: array[int], size: int, used: int) -> Portions[None]:
    """Check that each page is 4096-byte aligned and that its used bytes are writable guest memory.

    Each page has ``size`` bytes; ``used`` is the total of used bytes from the first page on. Raises
    BAD_PARAM_ERR for the first page that fails. A generator, which yields after each step.
    """
    checked = 0
    for start, length, count in _runs(pages, size, used):
        try:
            checked += len(memory.segments(start, length)) + count // _JOINED_COST
        except DmaError as error:
            raise BadParamError("page is not guest memory", str(error)) from None
        if checked >= PAGES_PER_PORTION:
            checked = 0
            yield


def _runs(pages: array[int], size: int, used: int) -> Iterator[tuple[int, int, int]]:
    """Yield address, bytes and page count of each run of adjacent pages, at most _MAX_JOINED long.

    The last run ends at ``used`` bytes. Raises BAD_PARAM_ERR for a page that is not aligned.
    """
    start, following, since = -1, -1, 0
    for index, page in enumerate(pages):
        if page == following and index - since < _MAX_JOINED:
            following += size
            continue
        if page & (1 << ADAPTER_PAGE_SHIFT) - 1:
            raise BadParamError("page address not aligned", f"{page:#x}")
        if start >= 0:
            yield start, following - start, index - since
        start, following, since = page, page + size, index
    if start >= 0:
        last = used - since * size
        yield start, last, len(pages) - since


DOORBELL_RECORD_BYTES: Final = 8


def check_record(memory: GuestMemory, address: int) -> None:
    """Raise BAD_PARAM_ERR unless a doorbell record is 8 aligned bytes of writable guest memory."""
    if address % DOORBELL_RECORD_BYTES:
        raise BadParamError("doorbell record not aligned", f"{address:#x}")
    try:
        memory.segments(address, DOORBELL_RECORD_BYTES)
    except DmaError as error:
        raise BadParamError("doorbell record is not guest memory", str(error)) from None
