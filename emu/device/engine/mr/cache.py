"""What a key caches of its translations: ranges that were used lately, and single pages.

A message of the same range as one before finds its views by the range. Messages from and to
changing places of few pages, as from a ring of buffers, find theirs in the page's view.

A cached view is used while the memory's ``generation`` is that of the view; what changes a key or
its translations drops them (``emu.device.objects.memory.mkey``). DMA faults have to see every
access, so nothing new is cached while a plan for faults is in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.entries import in_page
from emu.device.engine.mr.rights import WRITES
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.views import Span, Views
from emu.device.ports import DmaError, GuestMemory

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_KEPT_RANGES: Final = 64
_KEPT_PAGES: Final = 1024
"""How many ranges, and how many pages, of one key are cached."""

MOST_KEPT_VIEWS = 1 << 18
"""Views in the cached translations of all keys, including those dropped since."""


def keep(hca: Hca, mkey: Mkey, span: Span, views: Views) -> None:
    """Cache a translation with its key."""
    if len(mkey.views) >= _KEPT_RANGES:
        mkey.views.clear()
    if _has_room(hca, mkey, len(views)):
        mkey.views[span] = hca.memory.generation, views


def page_part(hca: Hca, mkey: Mkey, span: Span) -> Views:
    """The bytes of a range inside one page of an MTT key.

    Raises IndexError and AccessError as ``in_page`` does, DmaError for bytes that are not granted.
    """
    va, length, need = span
    size = 1 << mkey.log_page_size
    within = va & size - 1
    page = (va >> mkey.log_page_size) << 1 | (need & WRITES != 0)
    cached = mkey.page_views.get(page)
    if cached is not None and cached[0] == hca.memory.generation:
        views: Views = (cached[1][within : within + length],)
        if len(mkey.views) < _KEPT_RANGES and _has_room(hca, mkey, 1):
            mkey.views[span] = hca.memory.generation, views
        return views
    iova = in_page(mkey, va, length, need)
    whole = _whole(hca.memory, iova - within, size, bool(page & 1)) if hca.faults is None else None
    if whole is None:
        return hca.memory.segments(iova, length, writable=bool(page & 1))
    if len(mkey.page_views) >= _KEPT_PAGES:
        mkey.page_views.clear()
    if _has_room(hca, mkey, 1):
        mkey.page_views[page] = hca.memory.generation, whole
    return (whole[within : within + length],)


def _whole(memory: GuestMemory, iova: int, size: int, writable: bool) -> memoryview | None:
    """The view of a page; None if not all of it is granted, in one mapping."""
    try:
        views = memory.segments(iova, size, writable=writable)
    except DmaError:
        return None
    return views[0] if len(views) == 1 else None


def _has_room(hca: Hca, mkey: Mkey, count: int) -> bool:
    """Count views that a key caches; when all keys have too many, drop all of them."""
    hca.kept_views += count
    if hca.kept_views > MOST_KEPT_VIEWS:
        hca.forget_views()
        hca.kept_views = count
    if count > MOST_KEPT_VIEWS:
        return False
    hca.keys_with_views.add(mkey.handle)
    return True
