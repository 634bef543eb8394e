"""A queue's buffer in guest memory: a list of pages that need not lie together.

Source: the pas[] lists of CREATE_EQ, CREATE_CQ, CREATE_QP and CREATE_RMP, with the fields
log_page_size (pages of ``4096 << n`` bytes) and page_offset of their contexts. The offset counts in
64ths of a page, whatever its size (hw/mem.c: mlx5_umem_find_best_quantized_pgoff).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emu.errors import CmdError
from emu.ports import Buffer, DmaError, GuestMemory
from layouts.enums import Status

ADAPTER_PAGE_SHIFT = 12
LOG_OFFSETS_PER_PAGE = 6


class PageList:
    """``length`` bytes that start ``offset`` bytes into the first of the pages."""

    __slots__ = ("_mask", "_memory", "_offset", "_pages", "_shift", "length")

    def __init__(
        self, memory: GuestMemory, pages: Sequence[int], shift: int, offset: int, length: int
    ) -> None:
        self._memory = memory
        self._pages = pages
        self._shift = shift
        self._mask = (1 << shift) - 1
        self._offset = offset
        self.length = length

    @property
    def pages(self) -> Sequence[int]:
        """The page addresses, as the command gave them."""
        return self._pages

    @property
    def shift(self) -> int:
        """log2 of the bytes in a page."""
        return self._shift

    def read(self, at: int, length: int) -> bytes:
        """Copy bytes out of the buffer; ``at + length`` lies within it."""
        start = at + self._offset
        within = start & self._mask
        if within + length <= self._mask + 1:  # most entries lie in one page
            return self._memory.read(self._pages[start >> self._shift] + within, length)
        return b"".join(self._memory.read(iova, size) for iova, size in self._pieces(at, length))

    def write(self, at: int, data: Buffer) -> None:
        """Copy bytes into the buffer."""
        start = at + self._offset
        within = start & self._mask
        if within + len(data) <= self._mask + 1:
            self._memory.write(self._pages[start >> self._shift] + within, data)
            return
        done = 0
        for iova, size in self._pieces(at, len(data)):
            self._memory.write(iova, data[done : done + size])
            done += size

    def address(self, at: int) -> int:
        """The IOVA of one byte of the buffer."""
        at += self._offset
        return self._pages[at >> self._shift] + (at & self._mask)

    def part(self, at: int, length: int) -> PageList:
        """A piece of the buffer as a buffer; ``at + length`` lies within it."""
        return PageList(self._memory, self._pages, self._shift, self._offset + at, length)

    def _pieces(self, at: int, length: int) -> Iterator[tuple[int, int]]:
        at += self._offset
        while length:
            within = at & self._mask
            size = min(length, self._mask + 1 - within)
            yield self._pages[at >> self._shift] + within, size
            at += size
            length -= size


def queue_buffer(
    memory: GuestMemory, pas: Sequence[int], log_page_size: int, page_offset: int, length: int
) -> PageList:
    """The buffer that a create command describes.

    Raises BAD_PARAM_ERR for a list that is too short for ``length`` bytes, for a page that is not
    aligned to 4096 bytes, and for one that is not guest memory.
    """
    shift = log_page_size + ADAPTER_PAGE_SHIFT
    offset = page_offset << shift - LOG_OFFSETS_PER_PAGE
    needed = -(-(offset + length) >> shift)
    if len(pas) < needed:
        raise CmdError(Status.BAD_PARAM_ERR, "page list too short", f"{len(pas)} of {needed} pages")
    pages = [pas[index] for index in range(needed)]
    check_pages(memory, pages, 1 << shift, offset + length)
    return PageList(memory, pages, shift, offset, length)


def check_pages(memory: GuestMemory, pages: Sequence[int], size: int, used: int) -> None:
    """Each page is aligned, and all that is used of it is writable guest memory.

    Raises BAD_PARAM_ERR.
    """
    for page in pages:
        if page & ((1 << ADAPTER_PAGE_SHIFT) - 1):
            raise CmdError(Status.BAD_PARAM_ERR, "page address not aligned", f"{page:#x}")
        try:
            memory.segments(page, min(size, used))
        except DmaError as error:
            raise CmdError(Status.BAD_PARAM_ERR, "page is not guest memory", str(error)) from None
        used -= size


DOORBELL_RECORD_BYTES = 8


def check_record(memory: GuestMemory, address: int) -> None:
    """A doorbell record is two words in guest memory. Raises BAD_PARAM_ERR otherwise."""
    if address % DOORBELL_RECORD_BYTES:
        raise CmdError(Status.BAD_PARAM_ERR, "doorbell record not aligned", f"{address:#x}")
    try:
        memory.segments(address, DOORBELL_RECORD_BYTES)
    except DmaError as error:
        raise CmdError(
            Status.BAD_PARAM_ERR, "doorbell record is not guest memory", str(error)
        ) from None
