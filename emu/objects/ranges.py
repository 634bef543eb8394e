"""The list of a KLM key, laid out: which ranges of other keys follow one another.

An entry is 16 bytes: byte count, key, address. One whose key is ``REPEAT_BLOCK`` is no range but
begins a block: so many entries behind it make up a cycle, and the cycle is repeated, each entry
going on ``stride`` bytes further (qp.h: mlx5_stride_block_ctrl_seg, mlx5_stride_block_entry; in
rdma-core mlx5_wqe_umr_repeat_block_seg).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from layouts.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

_ADDRESS_SPACE = 1 << 64

Piece = tuple[int, int, int]
"""Key, address and bytes of a range of another key."""


class _Entry(NamedTuple):
    at: int
    """Where in the cycle it begins."""
    size: int
    stride: int
    key: int
    va: int


class _Block(NamedTuple):
    """A cycle of entries that is repeated."""

    cycle: int
    entries: tuple[_Entry, ...]

    def pieces(self, skip: int, length: int) -> Iterator[Piece]:
        """The ranges behind ``length`` bytes that begin ``skip`` bytes into the block."""
        turn, within = divmod(skip, self.cycle)
        while length:
            for entry in self.entries:
                into = max(within - entry.at, 0)
                size = min(entry.size - into, length)
                if size > 0:
                    yield entry.key, entry.va + turn * entry.stride + into, size
                    length -= size
            turn, within = turn + 1, 0


class Ranges:
    """The ranges of one list, found by their offset.

    A list whose repeat blocks make no sense ends in front of the first such block. Entries stay in
    the list and are read when they are wanted: a list may be long, and a host has many of them.
    """

    def __init__(self, xlt: bytes | bytearray) -> None:
        self._xlt = xlt
        self._starts = array("Q")
        self._places = array("I")
        """By range: the offset at which it begins, and where its entry stands in the list."""
        self.length = 0
        """Bytes that the list covers."""
        at, end = 0, len(xlt) - len(xlt) % KLM.size
        while at < end and self.length < _ADDRESS_SPACE:
            place = at
            bcount, key, _ = KLM.unpack_from(xlt, at)
            at += KLM.size
            if key == REPEAT_BLOCK:
                _, _, repeat, count = REPEAT.unpack_from(xlt, place)
                cycle = _cycle(xlt, at, count)
                at += count * KLM.size
                if cycle is None or cycle.cycle != bcount:
                    return
                bcount *= repeat
            if bcount:
                self._starts.append(self.length)
                self._places.append(place)
                self.length += bcount

    def pieces(self, skip: int, length: int) -> Iterator[Piece]:
        """The ranges behind ``length`` bytes from offset ``skip`` on.

        Raises IndexError when the list ends before them.
        """
        if skip + length > self.length:
            raise IndexError("list ends before the range")
        index = bisect_right(self._starts, skip) - 1
        while length:
            start = self._starts[index]
            is_last = index + 1 == len(self._starts)
            end = self.length if is_last else self._starts[index + 1]
            size = min(end - skip, length)
            _, key, va = KLM.unpack_from(self._xlt, self._places[index])
            if key == REPEAT_BLOCK:
                yield from self._block(self._places[index]).pieces(skip - start, size)
            else:
                yield key, va + skip - start, size
            skip, length, index = end, length - size, index + 1

    def _block(self, place: int) -> _Block:
        """The repeat block at this place of the list, which has been looked at before."""
        _, _, _, count = REPEAT.unpack_from(self._xlt, place)
        block = _cycle(self._xlt, place + KLM.size, count)
        assert block is not None
        return block


def _cycle(xlt: bytes | bytearray, at: int, count: int) -> _Block | None:
    """The entries of a repeat block; None when they leave the list."""
    if at + count * KLM.size > len(xlt):
        return None
    entries, done = [], 0
    for number in range(count):
        stride, size, key, va = REPEAT_ENTRY.unpack_from(xlt, at + number * KLM.size)
        entries.append(_Entry(done, size, stride, key, va))
        done += size
    return _Block(done, tuple(entries)) if done else None
