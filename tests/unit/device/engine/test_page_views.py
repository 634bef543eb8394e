"""A range's pages looked at together: the bytes that one look at each finds, or none."""

import random
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.mr.cache import page_part, parts_of_pages
from emu.device.engine.mr.entries import page_runs, page_views
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE, PageEntries
from emu.device.ports import DmaError
from emu.driver.world.memory import Memory

pytestmark = pytest.mark.pure("fakes stand for memory keys and the function")
PAGE = 4096
START = 0x7000_0000 + 60 * PAGE
"""Ranges run over the end of a list of 64 pages."""
BOTH = MTT_READ | MTT_WRITE


@pytest.fixture(scope="module")
def memory():
    memory = Memory(16 * PAGE)
    memory.ram[:] = random.Random(1).randbytes(16 * PAGE)
    return memory


def paged(memory, entries):
    """A key over these pages of memory, of which there are 16, each with its rights."""
    pages = PageEntries()
    pages.write(0, array("Q", [memory.base + page * PAGE | rights for page, rights in entries]))
    return SimpleNamespace(
        key=0x100, handle=1, log_page_size=12, start=START, pages=pages,
        views={}, page_views={}, scattered={},
    )  # fmt: skip


def cache_of(memory):
    """What the functions need of a cache."""
    return SimpleNamespace(
        memory=memory, probes=SimpleNamespace(faults=None), count=0, keys=set(), forget=None
    )


def parts(cache, mkey, span):
    """The views of a range by way of the cache; nothing where it is left to runs, or refused."""
    if span[0] // PAGE != (span[0] + span[1] - 1) // PAGE:
        return parts_of_pages(cache, mkey, span)
    try:
        return page_part(cache, mkey, mkey.key, span)
    except (AccessError, DmaError):
        return []


def one_by_one(memory, mkey, span):
    """The range's bytes in runs of pages; None where it is not there."""
    try:
        return b"".join(memory.read(iova, size) for iova, size in page_runs(mkey, *span))
    except (AccessError, DmaError):
        return None


ENTRIES = st.tuples(st.integers(0, 16), st.sampled_from([BOTH] * 9 + [0, MTT_READ, MTT_WRITE]))


SPANS = st.tuples(
    st.integers(0, 8 * PAGE - 1),
    st.one_of(st.integers(1, 300), st.integers(1, 8 * PAGE)),
    st.sampled_from([LOCAL_READ, LOCAL_WRITE]),
)


@given(st.lists(ENTRIES, min_size=8, max_size=8), st.lists(SPANS, min_size=1, max_size=12))
def test_same_bytes_or_none(memory, entries, spans):
    """Whatever ranges have been looked at before."""
    mkey = paged(memory, entries)
    cache = cache_of(memory)
    for at, length, need in spans:
        span = START + at, min(length, 8 * PAGE - at), need
        views = parts(cache, mkey, span)
        assert not views or b"".join(views) == one_by_one(memory, mkey, span)
        if at // PAGE == (at + span[1] - 1) // PAGE and one_by_one(memory, mkey, span) is not None:
            assert len(views) == 1


def test_pages_that_do_not_lie_together(memory):
    """From the middle of the first to the middle of the last, each a view of its own."""
    mkey = paged(memory, [(page, BOTH) for page in (9, 3, 15, 0, 7)])
    cache = cache_of(memory)
    for start, end in (100, 100), (8, 4000), (100, 100):
        span = START + start, 4 * PAGE - start + end, LOCAL_WRITE
        views = parts(cache, mkey, span)
        assert [len(view) for view in views] == [PAGE - start, PAGE, PAGE, PAGE, end]
        assert b"".join(views) == one_by_one(memory, mkey, span)


def test_pages_are_looked_at_once(memory, monkeypatch):
    mkey = paged(memory, [(page, BOTH) for page in (9, 3, 15, 0, 7, 5)])
    cache = cache_of(memory)
    parts(cache, mkey, (START, 6 * PAGE, LOCAL_WRITE))
    monkeypatch.setattr(mkey, "pages", None)
    assert len(parts(cache, mkey, (START + PAGE + 5, 4 * PAGE, LOCAL_WRITE))) == 5
    mkey.scattered.clear()
    with pytest.raises(AttributeError):
        parts(cache, mkey, (START + PAGE + 5, 4 * PAGE, LOCAL_WRITE))


def test_neighbours_are_joined_though_each_page_was_used(memory):
    """One view goes quicker than many, so pages that lie together are left to runs."""
    mkey = paged(memory, [(page, BOTH) for page in (2, 3, 4, 5)])
    cache = cache_of(memory)
    for page in range(4):
        assert len(parts(cache, mkey, (START + page * PAGE, 64, LOCAL_WRITE))) == 1
    assert parts(cache, mkey, (START, 4 * PAGE, LOCAL_WRITE)) == []


@pytest.mark.parametrize(
    "entries",
    [
        [(9, BOTH), (3, BOTH), (15, BOTH)],
        [(2, BOTH), (3, BOTH), (9, BOTH), (7, BOTH)],
        [(9, BOTH), (7, BOTH), (2, BOTH), (3, BOTH)],
        [(9, BOTH), (3, MTT_READ), (15, BOTH), (0, BOTH)],
        [(9, BOTH), (3, BOTH), (16, BOTH), (0, BOTH)],
    ],
    ids=["few", "neighbours first", "neighbours last", "may not be written", "no memory"],
)
def test_what_is_left_to_runs(memory, entries):
    assert not page_views(memory, paged(memory, entries), START, len(entries) * PAGE, LOCAL_WRITE)


def test_a_list_that_ends_before_the_range(memory):
    mkey = paged(memory, [(page, BOTH) for page in (9, 3, 15, 0)])
    assert not page_views(memory, mkey, START + 1, 4 * PAGE, LOCAL_READ)
    with pytest.raises(IndexError):
        page_views(memory, mkey, START + 4 * PAGE, PAGE, LOCAL_READ)
