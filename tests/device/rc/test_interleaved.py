"""Repeat blocks: interleaved layouts of a KLM key, as mlx5dv_wr_mr_interleaved builds them."""

import pytest

from emu.driver.keys.umr import FastRegKey
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.rings.wqe import KLM, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

IOVA = 0x1234_0000_0000
DATA = bytes(range(256)) * 16


@pytest.fixture
def source(node):
    region = node.region(len(DATA))
    region.write(DATA)
    return region


@pytest.fixture
def area(node):
    return node.region(8192, va=0x5000_0000_0000)


def block(repeat, *entries, cycle=None, count=None):
    """A repeat block over (bytes, skip, key, address) entries, as translation entries."""
    cycle = sum(size for size, *_ in entries) if cycle is None else cycle
    count = len(entries) if count is None else count
    rows = [REPEAT_ENTRY.pack(size + skip, size, key, va) for size, skip, key, va in entries]
    head = REPEAT.pack(cycle, REPEAT_BLOCK, repeat, count)
    return [KLM.unpack(row) for row in (head, *rows)]


def open_key(node, qp, entries, length, room=8):
    key = FastRegKey(node, entries=room, mode=AccessMode.KLMS)
    key.register(qp, entries, IOVA, length, variant=1)
    node.settle()
    good(qp)
    return key


def test_two_strided_ranges_take_turns(node, qps, source, area):
    """Eight bytes of each in every turn, two bytes left out between them."""
    left, right = qps
    entries = block(3, (8, 2, area.key, area.va), (8, 2, area.key, area.va + 64))
    key = open_key(node, right, entries, 48)
    left.write((key.key, IOVA), source.sge(0, 48))
    node.settle()
    good(left)
    for turn in range(3):
        assert area.read(10 * turn, 8) == DATA[16 * turn :][:8]
        assert area.read(64 + 10 * turn, 8) == DATA[16 * turn + 8 :][:8]
        assert area.read(10 * turn + 8, 2) == bytes(2)


@pytest.mark.parametrize(("at", "size"), [(0, 1), (5, 8), (7, 20), (16, 16), (47, 1), (13, 35)])
def test_any_part_of_it_is_found(node, qps, source, area, at, size):
    left, right = qps
    area.write(bytes(range(200)))
    entries = block(3, (8, 2, area.key, area.va), (8, 2, area.key, area.va + 64))
    key = open_key(node, right, entries, 48)
    whole = b"".join(
        bytes(range(base + 10 * turn, base + 10 * turn + 8))
        for turn in range(3)
        for base in (0, 64)
    )
    left.read((key.key, IOVA + at), source.sge(0, size))
    node.settle()
    good(left)
    assert source.read(0, size) == whole[at : at + size]


def test_plain_ranges_around_a_block(node, qps, source, area):
    left, right = qps
    entries = [
        (4, area.key, area.va),
        *block(2, (2, 6, area.key, area.va + 16)),
        (4, area.key, area.va + 100),
    ]
    key = open_key(node, right, entries, 12)
    left.write((key.key, IOVA), source.sge(0, 12))
    node.settle()
    good(left)
    assert area.read(0, 4) == DATA[:4]
    assert area.read(16, 2) + area.read(24, 2) == DATA[4:8]
    assert area.read(100, 4) == DATA[8:12]


@pytest.mark.parametrize(
    "entries",
    [
        block(3, (8, 0, 0, 0), cycle=9),
        block(3, (8, 0, 0, 0), count=200),
        block(3, (0, 8, 0, 0)),
        block(0, (8, 0, 0, 0)),
        [(0, 0, 0)],
    ],
    ids=["cycle is no sum", "entries leave the list", "nothing in it", "never", "no list"],
)
def test_list_that_does_not_cover_the_key(node, qps, source, entries):
    left, right = qps
    key = open_key(node, right, entries, 24)
    left.write((key.key, IOVA), source.sge(0, 8))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_access_in_more_pieces_than_anybody_needs(node, qps, area):
    """A repeat block may ask for a billion pieces of a byte: that is refused, and soon."""
    left, right = qps
    entries = block(0xFFFFFFFF, (1, 0xFFFE, area.key, area.va), (1, 0, area.key, area.va))
    entries[1] = KLM.unpack(REPEAT_ENTRY.pack(0, 1, area.key, area.va))
    key = open_key(node, right, entries, 1 << 33)
    left.read((key.key, IOVA), (1 << 20, *node.region(1 << 20).sge()[1:]))
    assert failure(left) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_list_is_laid_out_again_after_an_update(node, qps, source, area):
    left, right = qps
    key = FastRegKey(node, entries=8, mode=AccessMode.KLMS)
    for at in (0, 512):
        entries = block(2, (4, 4, area.key, area.va + at))
        key.register(right, entries, IOVA, 8, variant=1)
        left.write((key.key, IOVA), source.sge(0, 8))
        node.settle()
        key.invalidate(right)
        node.settle()
        good(left)
        good(right)
        assert area.read(at, 4) + area.read(at + 8, 4) == DATA[:8]
