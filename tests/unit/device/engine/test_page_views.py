"""A range's pages looked at together: the bytes that one look at each finds, or none."""

import random
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.engine.mr.entries import page_runs, page_views
from emu.device.engine.mr.rights import LOCAL_READ, LOCAL_WRITE, AccessError
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE, PageEntries
from emu.device.ports import DmaError
from emu.driver.world.memory import Memory

PAGE, START = 4096, 0x7000_0000
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
    return SimpleNamespace(key=0x100, log_page_size=12, start=START, pages=pages)


def one_by_one(memory, mkey, span):
    """The range's bytes in runs of pages; None where it is not there."""
    try:
        return b"".join(memory.read(iova, size) for iova, size in page_runs(mkey, *span))
    except (AccessError, DmaError):
        return None


ENTRIES = st.tuples(st.integers(0, 16), st.sampled_from([BOTH] * 9 + [0, MTT_READ, MTT_WRITE]))


@given(st.lists(ENTRIES, min_size=8, max_size=8), st.data())
def test_same_bytes_or_none(memory, entries, data):
    mkey = paged(memory, entries)
    at = data.draw(st.integers(0, 4 * PAGE))
    length = data.draw(st.integers(1, 8 * PAGE - at))
    need = data.draw(st.sampled_from([LOCAL_READ, LOCAL_WRITE]))
    span = START + at, length, need
    views = page_views(memory, mkey, *span)
    assert not views or b"".join(views) == one_by_one(memory, mkey, span)


def test_pages_that_do_not_lie_together(memory):
    """From the middle of the first to the middle of the last, each a view of its own."""
    mkey = paged(memory, [(page, BOTH) for page in (9, 3, 15, 0, 7)])
    span = START + 100, 4 * PAGE, LOCAL_WRITE
    views = page_views(memory, mkey, *span)
    assert [len(view) for view in views] == [PAGE - 100, PAGE, PAGE, PAGE, 100]
    assert b"".join(views) == one_by_one(memory, mkey, span)


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
