"""Entries of a key for a range: the pages of an MTT, or ranges of other keys.

Only the list is checked here: ``access.py`` has checked the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import eq
from typing import Final

from emu.device.engine.mr.access_error import ABSENT_PAGE, AccessError
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.rights import WRITES
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE
from emu.device.ports import GuestMemory
from layouts.rings.wqe import KLM

_MANY: Final = 4
"""Number of pages from which on processing all of them together is faster."""

MTT_ADDRESS: Final = ~0xFFF & (1 << 64) - 1
"""Bits of an MTT entry with the page's address; rights are below."""


def page_views(
    memory: GuestMemory, mkey: Mkey, va: int, length: int, need: int
) -> list[memoryview]:
    """Return views of the whole pages that a range of an MTT key touches; empty if not possible.

    Empty for few pages, contiguous pages, a list that ends early, or an entry without the right.
    Then ``page_runs`` joins pages, or raises the error. Raises IndexError if the list ends before
    the first page. Many pages take 0.4 of the time of ``page_runs``.
    """
    shift = mkey.log_page_size
    size = 1 << shift
    count = (va & size - 1) + length + size - 1 >> shift
    entries = mkey.pages.part((va >> shift) - (mkey.start >> shift), count)
    right = MTT_WRITE if need & WRITES else MTT_READ
    if len(entries) != count or count < _MANY or entries[1] - entries[0] == size:
        return []
    if not all(map(right.__and__, entries)):
        return []
    starts = [entry & MTT_ADDRESS for entry in entries]
    if True in map(eq, starts[1:], [start + size for start in starts]):
        return []
    return memory.equal_views(starts, size, writable=bool(need & WRITES))


def page_runs(mkey: Mkey, va: int, length: int, need: int) -> Iterator[tuple[int, int]]:
    """Yield contiguous runs (IOVA, bytes) of an MTT key's range, neighbouring pages joined.

    Raises IndexError where the list ends, AccessError (ABSENT_PAGE) at an entry without the right.
    """
    range_end = va + length
    shift, pages = mkey.log_page_size, mkey.pages
    size = 1 << shift
    right = MTT_WRITE if need & WRITES else MTT_READ
    index = (va >> shift) - (mkey.start >> shift)
    within = va & size - 1
    left = within + length + size - 1 >> shift
    start = end = -1
    while left:
        entries = pages.part(index, left)
        for entry in entries:
            if not entry & right:
                raise AccessError(ABSENT_PAGE, mkey.key, range_end - length, length)
            page = (entry & MTT_ADDRESS) + within
            part = min(length, size - within)
            if page != end:
                if start >= 0:
                    yield start, end - start
                start = page
            end = page + part
            length -= part
            within = 0
        index += len(entries)
        left -= len(entries)
    yield start, end - start


def klm_ranges(mkey: Mkey, va: int, length: int) -> Iterable[tuple[int, int, int]]:
    """Return (key, address, bytes) below a KLM key: entries of any length, back to back."""
    return mkey.ranges.pieces(va - mkey.start, length)


def ksm_ranges(mkey: Mkey, va: int, length: int) -> Iterable[tuple[int, int, int]]:
    """Return (key, address, bytes) below a KSM key: entries of equal length, from the key's start.

    Raises IndexError behind the list of entries. The start need not be a multiple of that length.
    UCX's key for atomics starts some bytes after one: its address ``start_addr + n`` is ``va + n``
    of the first entry (src/uct/ib/mlx5/dv/ib_mlx5dv_md.c: uct_ib_mlx5_devx_reg_ksm_data_contig).
    """
    shift = mkey.log_page_size
    index = va - mkey.start >> shift
    within = va - mkey.start & (1 << shift) - 1
    blocks = mkey.blocks
    if within + length <= 1 << shift:
        if index < blocks.near:
            _, key, at = KLM.unpack_from(blocks.first, index * KLM.size)
        else:
            _, key, at = blocks.entry(index)
        return ((key, at + within, length),)
    return _ksm_series(mkey, index, within, length)


def _ksm_series(mkey: Mkey, index: int, within: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges from ``within`` bytes into the entry ``index`` on; IndexError at the end."""
    shift, blocks = mkey.log_page_size, mkey.blocks
    while length:
        _, key, at = blocks.entry(index)
        size = min(length, (1 << shift) - within)
        yield key, at + within, size
        length -= size
        index += 1
        within = 0
