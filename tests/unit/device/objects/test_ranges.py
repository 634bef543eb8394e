"""The list of a KLM key, laid out: against a plain reading of it, and at its limits."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.objects.memory import ranges as ranges_module
from emu.device.objects.memory.ranges import MAX_BLOCKS, Ranges
from layouts.rings.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

SMALL = st.integers(0, 9)
KEYS = st.integers(0x10, 0x14).map(lambda index: index << 8)
MOST = (1 << 32) - 1


def block(repeat, entries):
    """A repeat block of (size, skip, key, va), and the single bytes that it covers."""
    rows = [REPEAT_ENTRY.pack(size + skip, size, key, va) for size, skip, key, va in entries]
    cycle = sum(size for size, *_ in entries)
    covered = [
        (key, va + turn * (size + skip) + byte)
        for turn in range(repeat)
        for size, skip, key, va in entries
        for byte in range(size)
    ]
    return REPEAT.pack(cycle, REPEAT_BLOCK, repeat, len(rows)) + b"".join(rows), covered


def plain(size, key, va):
    return KLM.pack(size, key, va), [(key, va + byte) for byte in range(size)]


BLOCKS = st.builds(
    block,
    st.integers(1, 4),
    st.lists(st.tuples(SMALL, SMALL, KEYS, SMALL), min_size=1, max_size=3).filter(
        lambda entries: any(size for size, *_ in entries)
    ),
)
LISTS = st.lists(st.builds(plain, SMALL, KEYS, SMALL) | BLOCKS, max_size=6)


@given(LISTS, st.data())
def test_every_range_is_found(parts, data):
    xlt = b"".join(raw for raw, _ in parts)
    covered = [byte for _, some in parts for byte in some]
    ranges = Ranges(xlt)
    assert ranges.length == len(covered)
    skip = data.draw(st.integers(0, len(covered)))
    length = data.draw(st.integers(0, len(covered) - skip))
    found = ranges.pieces(skip, length) if length else ()
    assert [(key, va + byte) for key, va, size in found for byte in range(size)] == covered[
        skip : skip + length
    ]


@given(LISTS)
def test_a_list_ends_where_it_ends(parts):
    ranges = Ranges(b"".join(raw for raw, _ in parts))
    with pytest.raises(IndexError):
        list(ranges.pieces(0, ranges.length + 1))


def test_more_than_the_address_space():
    """What no address reaches is left out. Only a list longer than any key's gets there."""
    count, size = 65534, 65535
    entry = REPEAT_ENTRY.pack(size, size, 0x1000, 7)
    block = REPEAT.pack(count * size, REPEAT_BLOCK, MOST, count) + entry * count
    length = count * size * MOST
    ranges = Ranges(block * 3)
    assert ranges.length == 2 * length > 1 << 64
    for skip, at in ((0, 0), (length - size, (MOST - 1) * size), (length, 0)):
        assert next(iter(ranges.pieces(skip, 5))) == (0x1000, 7 + at, 5)


def test_a_long_list_costs_little():
    xlt = b"".join(KLM.pack(4096, 0x1000, number << 12) for number in range(1 << 14))
    tracemalloc.start()
    try:
        ranges = Ranges(xlt)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(ranges.pieces(0x3000, 1)) == [(0x1000, 0x3000, 1)]
    assert used < 16 << 14


class Counted:
    """An entry's layout that counts how often one is read."""

    def __init__(self, layout):
        self.layout, self.size, self.reads = layout, layout.size, 0

    def unpack_from(self, *args):
        self.reads += 1
        return self.layout.unpack_from(*args)


class TestSteps:
    """What it costs to find a range, in entries that are read."""

    @pytest.fixture
    def reads(self, monkeypatch):
        counted = {name: Counted(getattr(ranges_module, name)) for name in ("KLM", "REPEAT_ENTRY")}
        for name, layout in counted.items():
            monkeypatch.setattr(ranges_module, name, layout)
        return lambda: sum(layout.reads for layout in counted.values())

    @pytest.mark.parametrize("start", [0, 5, 999, 1_000_000])
    def test_empty_entries_of_a_block(self, reads, start):
        raw, _ = block(1, [(0, 1, 0x1000, 7)] * 30 + [(1, 0, 0x1100, 8)])
        ranges = Ranges(REPEAT.pack(1, REPEAT_BLOCK, MOST, 31) + raw[REPEAT.size :])
        found = list(ranges.pieces(start, 1000))
        assert found == [(0x1100, 8 + turn, 1) for turn in range(start, start + 1000)]
        assert reads() <= 1001

    def test_empty_entries_of_a_list(self, reads):
        empty = KLM.pack(0, 0x1000, 0) * 10_000
        ranges = Ranges(KLM.pack(1, 0x1000, 1) + empty + KLM.pack(1, 0x1000, 2) + empty)
        assert list(ranges.pieces(0, 2)) == [(0x1000, 1, 1), (0x1000, 2, 1)]
        assert reads() == 2

    def test_end_of_a_long_cycle(self, reads):
        count = 60_000
        entry = REPEAT_ENTRY.pack(1, 1, 0x1000, 7)
        ranges = Ranges(REPEAT.pack(count, REPEAT_BLOCK, MOST, count) + entry * count)
        for _ in range(5):
            assert list(ranges.pieces(3 * count - 1, 2)) == [(0x1000, 9, 1), (0x1000, 10, 1)]
        assert reads() <= 5 * 3


def test_blocks_without_end():
    """Each block of one entry would be laid out by itself: the list ends where there are enough."""
    one, covered = block(1, [(3, 0, 0x1000, 7)])
    ranges = Ranges(one * (MAX_BLOCKS + 1))
    assert ranges.length == 3 * MAX_BLOCKS
    assert len(covered) == 3


def test_nothing_is_given_of_a_range_that_leaves_the_list():
    raw, _ = plain(100, 0x1000, 0)
    for skip, length in ((0, 101), (100, 1), (200, 5)):
        with pytest.raises(IndexError):
            next(Ranges(raw).pieces(skip, length))
