"""Views of the pages of rings: which entries they serve, and when they are dropped."""

from array import array

import pytest

from emu.device.objects.memory import ring_page
from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.ring_page import RingPage, RingPages
from emu.driver.world.memory import Memory

PAGE = 4096
ENTRY = 64
FIRST, SECOND = range(PAGE - 128), range(PAGE - 128, PAGE + 256)
"""The parts of the buffer in its pages."""


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def pages(memory):
    return RingPages(memory, lambda: True)


@pytest.fixture
def buffer(memory):
    """Two pages, not neighbours; the buffer begins and ends inside them."""
    return PageList(memory, array("Q", memory.pages(2 * PAGE)), 12, 128, PAGE + 256)


def serves(page, at):
    return page.start <= at < page.limit


@pytest.mark.parametrize(
    ("at", "served"),
    [(0, FIRST), (PAGE - 192, FIRST), (PAGE, SECOND)],
)
def test_entries_of_one_page(memory, pages, buffer, at, served):
    page = RingPage()
    assert pages.turn(page, buffer, at, ENTRY, writable=True)
    assert page.start == served[0]
    assert [place for place in range(-ENTRY, 2 * PAGE) if serves(page, place)] == [
        place for place in served if place + ENTRY - 1 in served
    ]
    page.view[at - page.start] = 0x5A
    assert memory.read(buffer.address(at), 1) == b"\x5a"


def test_entry_in_two_pages(pages, buffer):
    page = RingPage()
    assert not pages.turn(page, buffer, PAGE - 128 - ENTRY // 2, ENTRY, writable=True)
    assert not serves(page, 0)


def test_page_that_is_no_guest_memory(memory, pages, buffer):
    memory.revoke(buffer.pages[1])
    page = RingPage()
    assert pages.turn(page, buffer, 0, ENTRY, writable=True)
    assert not pages.turn(page, buffer, PAGE, ENTRY, writable=True)
    assert serves(page, 0)


def test_nothing_is_kept_while_it_may_not(memory, buffer):
    page = RingPage()
    assert not RingPages(memory, lambda: False).turn(page, buffer, 0, ENTRY, writable=True)
    assert not page.view


def test_all_are_dropped_at_once(pages, buffer):
    kept = [RingPage() for _ in range(3)]
    for page in kept:
        assert pages.turn(page, buffer, 0, ENTRY, writable=True)
    pages.forget()
    assert not any(page.view or serves(page, 0) for page in kept)
    assert pages.turn(kept[0], buffer, 0, ENTRY, writable=True)


def test_the_oldest_one_is_dropped(pages, buffer, monkeypatch):
    monkeypatch.setattr(ring_page, "MAX_PAGES", 2)
    kept = [RingPage() for _ in range(3)]
    for page in (kept[0], kept[1], kept[1], kept[2]):
        assert pages.turn(page, buffer, 0, ENTRY, writable=True)
    assert [bool(page.view) for page in kept] == [False, True, True]


def test_a_doorbell_record(memory, pages):
    iova, record = memory.alloc(8, align=8), RingPage()
    assert not serves(record, 0)
    assert pages.keep_record(record, iova + 4, 4)
    memory.write(iova, bytes(range(8)))
    assert serves(record, 0)
    assert bytes(record.view) == bytes(range(4, 8))


def test_a_doorbell_record_of_which_no_view_is_kept(memory, pages):
    iova, record = memory.pages(PAGE)[0], RingPage()
    assert not RingPages(memory, lambda: False).keep_record(record, iova, 4)
    memory.revoke(iova)
    assert not pages.keep_record(record, iova, 4)
    assert not serves(record, 0)


def test_doorbell_records_are_dropped_with_pages(memory, pages, buffer, monkeypatch):
    monkeypatch.setattr(ring_page, "MAX_PAGES", 2)
    record, page = RingPage(), RingPage()
    assert pages.keep_record(record, memory.pages(PAGE)[0], 4)
    assert pages.turn(page, buffer, 0, ENTRY, writable=True)
    assert serves(record, 0)
    assert serves(page, 0)
    assert pages.turn(RingPage(), buffer, 0, ENTRY, writable=True)
    assert not record.view
    assert not serves(record, 0)
    pages.forget()
    assert not page.view
