"""The list of a KLM key, laid out as a sequence of ranges of other keys.

An entry is 16 bytes: byte count, key, address. An entry with key ``REPEAT_BLOCK`` is the head of a
block, not a range. The entries after the head form a cycle, which repeats. Each repetition advances
every entry's address by its ``stride`` (qp.h: mlx5_stride_block_ctrl_seg, mlx5_stride_block_entry;
rdma-core: mlx5_wqe_umr_repeat_block_seg).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, compress
from typing import Final

from layouts.rings.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

MAX_BLOCKS: Final = 4096
"""Maximum number of repeat blocks in a list.

Drivers use one; each costs as much time as hundreds of entries.
"""

_ADDRESS_SPACE: Final = 1 << 64

Piece = tuple[int, int, int]
"""Key, address and bytes of a range of another key."""


class Ranges:
    """The ranges of one list, found by offset. A range is an entry or a whole block.

    A list ends before the first repeat block that is invalid or exceeds ``MAX_BLOCKS``. Entries
    stay in the list and are read on demand: a list may be long, and a host has many lists. Empty
    entries are left out, so each step through the list covers at least one byte.
    """

    __slots__ = ("_blocks", "_rows", "_starts", "_xlt", "length")

    def __init__(self, xlt: bytes | bytearray) -> None:
        self._xlt = xlt
        self._starts = array("Q")
        self._rows = array("I")
        """For each range: its start offset, and the index of its entry in the list."""
        self._blocks: _RepeatBlocks | None = None
        self.length = 0
        """Bytes that the list covers."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Index the list's ranges, up to an invalid repeat block or 2**64 bytes."""
        end = len(self._xlt) // KLM.size
        words = array("I", bytes(self._xlt[: end * KLM.size]))
        if sys.byteorder == "little":
            words.byteswap()
        counts, keys = words[0::4], words[1::4]
        row = 0
        while row < end and self.length < _ADDRESS_SPACE:
            if keys[row] == REPEAT_BLOCK:
                row = self._add_block(counts, row, end)
                continue
            try:
                stop = keys.index(REPEAT_BLOCK, row)
            except ValueError:
                stop = end
            self._add_plain(counts, row, stop)
            row = stop

    def _add_plain(self, counts: array[int], row: int, stop: int) -> None:
        """Add the entries from ``row`` up to ``stop``, which are plain ranges.

        Leave out empty ones.
        """
        part = counts[row:stop]
        starts = list(accumulate(filter(None, part), initial=self.length))
        self.length = starts.pop()
        del starts[bisect_left(starts, _ADDRESS_SPACE) :]
        self._starts.extend(starts)
        self._rows.extend(compress(range(row, stop), part))

    def _add_block(self, counts: array[int], row: int, end: int) -> int:
        """Add the repeat block at ``row``; return the row after it.

        Returns ``end``, which ends the list, for an invalid block and beyond MAX_BLOCKS blocks. A
        block without repetitions adds no bytes.
        """
        count: int
        cycle, _, repeat, count = REPEAT.unpack_from(self._xlt, row * KLM.size)
        first, stop = row + 1, row + 1 + count
        sizes = [word & 0xFFFF for word in counts[first:stop]]  # the upper half is the stride
        is_good = stop <= end and cycle and sum(sizes) == cycle
        if self._blocks is None:
            self._blocks = _RepeatBlocks()
        if not is_good or len(self._blocks.heads) == MAX_BLOCKS:
            return end
        if repeat:
            self._blocks.add(row, sizes)
            self._starts.append(self.length)
            self._rows.append(row)
            self.length += cycle * repeat
        return stop

    def pieces(self, skip: int, length: int) -> Iterator[Piece]:
        """Yield key, address and size of the ranges of ``length`` bytes from offset ``skip`` on.

        No piece is empty; their sizes add up to ``length``. Raises IndexError at the first step if
        the list ends before the last byte.
        """
        if skip + length > self.length:
            raise IndexError("list ends before the range")
        index = bisect_right(self._starts, skip) - 1
        while length:
            start = self._starts[index]
            is_last = index + 1 == len(self._starts)
            end = self.length if is_last else self._starts[index + 1]
            size = min(end - skip, length)
            row = self._rows[index]
            cycle, key, va = KLM.unpack_from(self._xlt, row * KLM.size)
            if key == REPEAT_BLOCK:
                yield from self._in_block(row, cycle, skip - start, size)
            else:
                yield key, va + skip - start, size
            skip, length, index = end, length - size, index + 1

    def _in_block(self, row: int, cycle: int, skip: int, length: int) -> Iterator[Piece]:
        """Yield key, address and size of ``length`` bytes from ``skip`` on in a repeat block."""
        blocks = self._blocks
        assert blocks is not None
        starts, rows = blocks.starts, blocks.rows
        first, last = blocks.span(row)
        repetition, within = divmod(skip, cycle)
        index = bisect_right(starts, within, first, last) - 1
        into = within - starts[index]
        while length:
            stride, size, key, va = REPEAT_ENTRY.unpack_from(self._xlt, rows[index] * KLM.size)
            size = min(size - into, length)
            yield key, va + repetition * stride + into, size
            length -= size
            into, index = 0, index + 1
            if index == last:
                repetition, index = repetition + 1, first


class _RepeatBlocks:
    """The repeat blocks of one list."""

    __slots__ = ("ends", "heads", "rows", "starts")

    def __init__(self) -> None:
        self.heads = array("I")
        self.ends = array("I", (0,))
        """For each block: the index of its head, and the end of its cycle in ``rows``."""
        self.starts = array("I")
        self.rows = array("I")
        """For each entry of a cycle: its offset in the cycle, and its index in the list."""

    def add(self, head: int, sizes: list[int]) -> None:
        """Add the block with head entry ``head``; ``sizes`` are those of its cycle's entries."""
        self.starts.extend(list(accumulate(filter(None, sizes), initial=0))[:-1])
        self.rows.extend(compress(range(head + 1, head + 1 + len(sizes)), sizes))
        self.heads.append(head)
        self.ends.append(len(self.rows))

    def span(self, head: int) -> tuple[int, int]:
        """Return the start and the end in ``rows`` of the cycle of the block at ``head``."""
        block = bisect_left(self.heads, head)
        return self.ends[block], self.ends[block + 1]
