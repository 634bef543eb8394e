"""Translation cache of a key: recently used ranges, and pages.

A message for a cached range finds its views by the range. Messages for other ranges of the same
pages, such as a ring of buffers, find the pages' views.

A change of a key or its translations drops its views (``emu.device.objects.memory.mkey``), a change
of the memory's map all of them. DMA faults have to see every access, so nothing new is cached while
a plan for faults is in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access_error import ABSENT_PAGE, AccessError
from emu.device.engine.mr.entries import MTT_ADDRESS, page_views
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.rights import WRITES
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE
from emu.device.objects.memory.views import Span, Views
from emu.device.ports import DmaError, GuestMemory

if TYPE_CHECKING:
    from emu.device.state.view_cache import ViewCache

_KEPT_RANGES: Final = 2048
_KEPT_PAGES: Final = 1024
_KEPT_LISTS: Final = 256
"""Maximum number of ranges, single pages, and lists of pages that one key caches.

The small messages of 16 queue pairs of perftest use 1,024 ranges of each key.
"""
_KEPT_PARTS: Final = 1 << 14
"""Maximum number of views in a key's ranges, if all have as many as the newest one."""

_LOG_LIST: Final = 6
_LIST: Final = 1 << _LOG_LIST
"""Pages in a list of ``Mkey.scattered``."""
_NOT_CACHED: Final = memoryview(b"")
"""Placeholder for a page that has not been translated."""

MAX_KEPT_VIEWS = 1 << 18
"""Maximum number of views in the caches of all keys, including those dropped since."""


def keep(cache: ViewCache, mkey: Mkey, span: Span, parts: Views) -> None:
    """Cache a range's views with its key.

    A key with too many cached ranges drops them first: fewer of longer ones. A list beyond
    MAX_KEPT_VIEWS is not cached.
    """
    if len(mkey.views) >= min(_KEPT_RANGES, _KEPT_PARTS // len(parts)):
        mkey.views.clear()
    if _may_cache(cache, mkey, len(parts)):
        mkey.views[span] = parts


def page_part(cache: ViewCache, mkey: Mkey, key: int, span: Span) -> Views:
    """Return the bytes of a range inside one page of an MTT key, and cache the page and the range.

    ``key`` is the number of ``mkey``, with its variant.
    Raises IndexError behind the list of pages, AccessError (ABSENT_PAGE) at an entry without the
    right, DmaError for bytes that are not granted. While a fault plan is in force, no new view is
    cached.
    """
    va, length, need = span
    shift, writable = mkey.log_page_size, need & WRITES != 0
    within = va & (1 << shift) - 1
    number = (va >> shift) * 2 + writable
    page = mkey.page_views.get(number)
    if page is not None:
        views: Views = (page[within : within + length],)
        if len(mkey.views) < _KEPT_RANGES and _may_cache(cache, mkey, 1):
            mkey.views[span] = views
        return views
    entry = mkey.pages.one((va >> shift) - (mkey.start >> shift))
    if not entry & (MTT_WRITE if writable else MTT_READ):
        raise AccessError(ABSENT_PAGE, key, va, length)
    iova = entry & MTT_ADDRESS
    page = _whole(cache.memory, iova, 1 << shift, writable) if cache.probes.faults is None else None
    if page is None:
        views = cache.memory.segments(iova + within, length, writable=writable)
        if cache.probes.faults is None:
            keep(cache, mkey, span, views)
        return views
    if len(mkey.page_views) >= _KEPT_PAGES:
        _forget_pages(mkey)
    if _may_cache(cache, mkey, 1):
        mkey.page_views[number] = page
    return (page[within : within + length],)


def parts_of_pages(cache: ViewCache, mkey: Mkey, span: Span) -> list[memoryview]:
    """Return the bytes of a range of several pages of an MTT key, one view for each page.

    The list is empty where that of ``page_views`` is: the caller then uses ``page_runs``. New views
    are cached unless a fault plan is in force.
    """
    va, length, need = span
    shift, end = mkey.log_page_size, va + length
    first, last, writable = va >> shift, end - 1 >> shift, need & WRITES != 0
    views = _listed(mkey, first, last, writable)
    if not views:
        views = page_views(cache.memory, mkey, va, length, need)
        if not views:
            return []
        if cache.probes.faults is None:
            _list(cache, mkey, first, writable, views)
    views[0] = views[0][va & (1 << shift) - 1 :]
    views[-1] = views[-1][: (end - 1 & (1 << shift) - 1) + 1]
    return views


def _listed(mkey: Mkey, first: int, last: int, writable: bool) -> list[memoryview]:
    """Return the cached views of scattered pages ``first`` to ``last``; empty if any is missing."""
    views: list[memoryview] = []
    for number in range(first >> _LOG_LIST, (last >> _LOG_LIST) + 1):
        pages = mkey.scattered.get(number * 2 + writable)
        if pages is None:
            return []
        start = number << _LOG_LIST
        views += pages[max(first - start, 0) : last - start + 1]
    return views if all(views) else []


def _list(
    cache: ViewCache, mkey: Mkey, first: int, writable: bool, views: list[memoryview]
) -> None:
    """Cache the views of scattered pages from the number ``first`` on, if the limits permit."""
    if len(mkey.scattered) >= _KEPT_LISTS:
        _forget_pages(mkey)
    if not _may_cache(cache, mkey, len(views)):
        return
    done = 0
    while done < len(views):
        at = first + done & _LIST - 1
        number = (first + done >> _LOG_LIST) * 2 + writable
        pages = mkey.scattered.setdefault(number, [_NOT_CACHED] * _LIST)
        part = views[done : done + _LIST - at]
        pages[at : at + len(part)] = part
        done += len(part)


def _forget_pages(mkey: Mkey) -> None:
    mkey.page_views.clear()
    mkey.scattered.clear()


def _whole(memory: GuestMemory, iova: int, size: int, writable: bool) -> memoryview | None:
    """Return the view of a page; None unless one mapping grants all of it."""
    try:
        views = memory.segments(iova, size, writable=writable)
    except DmaError:
        return None
    return views[0] if len(views) == 1 else None


def _may_cache(cache: ViewCache, mkey: Mkey, count: int) -> bool:
    """Count new views against MAX_KEPT_VIEWS; return whether they may be cached.

    When the limit is exceeded, all keys of the function drop their views first. Return False only
    if ``count`` alone exceeds the limit.
    """
    cache.count += count
    if cache.count > MAX_KEPT_VIEWS:
        cache.forget()
        cache.count = count
    if count > MAX_KEPT_VIEWS:
        return False
    cache.keys.add(mkey.handle)
    return True
