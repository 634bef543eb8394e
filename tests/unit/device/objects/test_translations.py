"""Lists of translations that are held sparsely: against plain lists, and what they cost."""

import random
import tracemalloc
from array import array

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.objects.memory.translations import (
    CHUNK,
    DENSE_BYTES,
    RULE_BYTES,
    KeyEntries,
    PageEntries,
)
from layouts.rings.wqe import KLM

PLACES = st.one_of(
    st.integers(0, 20), st.integers(CHUNK - 20, CHUNK + 20), st.integers(2 * CHUNK, 4 * CHUNK)
)
SIZES = st.sampled_from([1, 2, 8, 100, CHUNK - 1, CHUNK, CHUNK + 5, 2 * CHUNK + 8])
NULL, GIB = 0x200, 1 << 30


def numbers(kind, size, seed):
    """Page entries: absent ones, real ones, or a mixture."""
    if kind == "absent":
        return [0] * size
    rng = random.Random(seed)
    return [rng.randrange(1, 1 << 52) << 12 | 3 if kind == "all" or rng.random() < 0.5 else 0
            for _ in range(size)]  # fmt: skip


KINDS = st.sampled_from(["absent", "all", "some"])
WRITES = st.lists(st.tuples(PLACES, SIZES, KINDS, st.integers(0, 9)), max_size=6)


def overwritten(plain, at, entries, nothing):
    plain += [nothing] * (at - len(plain))
    plain[at : at + len(entries)] = entries


@settings(max_examples=examples(30))
@given(writes=WRITES, probes=st.lists(PLACES, min_size=5, max_size=5))
def test_pages(writes, probes):
    pages, plain = PageEntries(), []
    for at, size, kind, seed in writes:
        entries = numbers(kind, size, seed)
        pages.write(at, array("Q", entries))
        overwritten(plain, at, entries, 0)
    assert pages.count == len(plain)
    assert list(pages.read(0, 1 << 30)) == plain
    for probe in probes:
        if probe >= len(plain):
            with pytest.raises(IndexError):
                pages.part(probe, 1)
            with pytest.raises(IndexError):
                pages.one(probe)
            continue
        assert pages.one(probe) == plain[probe]
        for most in (1, 50, 10 * CHUNK):
            found = list(pages.part(probe, most))
            assert 0 < len(found) <= most
            assert found == plain[probe : probe + len(found)]
    assert pages.to_bytes(100) == b"".join(n.to_bytes(8, "big") for n in plain)[:100]


def rows(kind, at, size, seed):
    """KSM entries as drivers fill them: one that is repeated, one that goes on, or any."""
    if kind == "absent":
        return [(0, NULL, 0)] * size
    if kind == "all":
        return [(GIB, NULL + seed, (at + number) * GIB) for number in range(size)]
    rng = random.Random(seed)
    return [(0, rng.randrange(1 << 32), rng.randrange(1 << 64)) for _ in range(size)]


@settings(max_examples=examples(30))
@given(writes=WRITES, probes=st.lists(PLACES, min_size=20, max_size=20))
def test_keys(writes, probes):
    keys, plain = KeyEntries(), []
    for at, size, kind, seed in writes:
        entries = rows(kind, at, size, seed)
        keys.write(at, b"".join(KLM.pack(*row) for row in entries))
        overwritten(plain, at, entries, (0, 0, 0))
    assert keys.count == len(plain)
    assert keys.near * KLM.size == len(keys.first)
    for probe in [*probes, len(plain) - 1, CHUNK - 1, CHUNK]:
        if not 0 <= probe < len(plain):
            with pytest.raises(IndexError):
                keys.entry(max(probe, len(plain)))
        else:
            assert keys.entry(probe) == plain[probe]
    assert keys.to_bytes(200) == b"".join(KLM.pack(*row) for row in plain)[:200]


UMR = (1 << 16) - 4
"""Entries of one request (umr.c: MLX5_MAX_UMR_CHUNK): no multiple of a chunk's."""


@pytest.mark.parametrize("stride", [0, GIB], ids=["all alike", "each for its address"])
def test_key_over_the_address_space(stride):
    """Filled as mlx5_ib does; then some of its entries change."""
    count = 1 << 18
    tracemalloc.start()
    try:
        keys = KeyEntries()
        for at in range(0, count, UMR):
            size = min(UMR, count - at)
            keys.write(at, b"".join(KLM.pack(0, NULL, n * stride) for n in range(at, at + size)))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= keys.host_bytes == DENSE_BYTES + RULE_BYTES * (count // CHUNK)
    before = keys.host_bytes
    keys.write(count // 2 + 8, KLM.pack(0, 0x1234, 0x5678) * 4)
    assert keys.host_bytes == before + DENSE_BYTES - RULE_BYTES
    assert keys.entry(count // 2 + 11) == (0, 0x1234, 0x5678)
    for index in (0, count // 2 + 7, count // 2 + 12, count - 1):
        assert keys.entry(index) == (0, NULL, index * stride)
    assert len(list(keys.given())) < 2 * CHUNK


def test_rule_that_would_leave_the_address_space():
    keys = KeyEntries()
    entries = [(0, 1, (1 << 64) - 2 * CHUNK), (0, 1, (1 << 64) - 2)]
    entries += [(0, 1, number) for number in range(CHUNK - 2)]
    keys.write(0, b"".join(KLM.pack(*row) for row in entries))
    assert [keys.entry(index) for index in range(CHUNK)] == entries


def test_pages_that_nobody_has_written_cost_nothing():
    tracemalloc.start()
    try:
        pages = PageEntries()
        pages.write(1 << 25, array("Q", (3 << 12 | 3,) * 8))
        for at in range(0, 1 << 18, 1 << 14):
            pages.write(at, array("Q", bytes(8 << 14)))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 4096
    assert pages.count == (1 << 25) + 8
    assert list(pages.part(1 << 24, 5)) == [0]
    assert list(pages.part(1 << 25, 5)) == [3 << 12 | 3] * 5


def test_pages_that_go_give_their_room_back():
    pages = PageEntries()
    pages.write(CHUNK, array("Q", range(1, CHUNK + 1)))
    tracemalloc.start()
    try:
        pages.write(CHUNK, array("Q", bytes(8 * CHUNK)))
        pages.write(0, array("Q", bytes(8 * CHUNK)))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1024
    assert not any(pages.read(0, 2 * CHUNK))


def test_absent_pages_in_the_midst_of_others():
    pages = PageEntries()
    pages.write(0, array("Q", range(1, 9)))
    pages.write(2, array("Q", (0, 0)))
    assert list(pages.read(0, 8)) == [1, 2, 0, 0, 5, 6, 7, 8]
    pages.write(0, array("Q", (0, 0)))
    assert list(pages.read(0, 8)) == [0, 0, 0, 0, 5, 6, 7, 8]


def test_absent_pages_in_the_midst_of_nothing_cost_nothing():
    pages = PageEntries()
    tracemalloc.start()
    try:
        pages.write(CHUNK // 2, array("Q", bytes(8 * (CHUNK // 2))))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 1024
    assert pages.count == CHUNK
