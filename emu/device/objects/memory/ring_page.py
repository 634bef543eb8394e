"""Views of the guest's own bytes that queues keep: the ring's page in use, the doorbell record.

A queue uses the entries of one page after the other. With a view of that page an entry is copied
without a look-up of its address. The number of such views of a function is limited, and all are
dropped when the map of guest memory changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from emu.device.objects.memory.pages import PageList
from emu.device.ports import DmaError, GuestMemory

MAX_PAGES: Final = 8192
"""Maximum number of views of one function; beyond it the oldest one is dropped."""
_NO_BYTES: Final = memoryview(b"")


class RingPage:
    """A view of the page of one ring. Offsets count from the start of the ring's buffer.

    Valid for an entry that starts at ``start`` or behind it, and before ``limit``, which is 0
    without a view. A doorbell record is the entry at 0.
    """

    __slots__ = ("limit", "start", "view")

    def __init__(self) -> None:
        self.view = _NO_BYTES
        self.start = self.limit = 0

    def forget(self) -> None:
        """Drop the view."""
        self.view = _NO_BYTES
        self.start = self.limit = 0


class RingPages:
    """The views of one function."""

    __slots__ = ("_may_keep", "_pages", "memory")

    def __init__(self, memory: GuestMemory, may_keep: Callable[[], bool]) -> None:
        """Keep views of ``memory`` whenever ``may_keep`` allows it.

        Fault rules do not allow it: they observe each access.
        """
        self.memory = memory
        self._may_keep = may_keep
        self._pages: deque[RingPage] = deque()

    def turn(self, page: RingPage, buffer: PageList, at: int, size: int, *, writable: bool) -> bool:
        """View the page of ``buffer`` that has the entry of ``size`` bytes at offset ``at``.

        Return False if no view can be kept: the entry spans pages, or its page is not granted as a
        whole or spans mappings. The caller then accesses memory itself.
        """
        if not self._may_keep():
            return False
        start, end, iova = buffer.page_of(at)
        if at + size > end:
            return False
        try:
            view = self.memory.view(iova, end - start, writable=writable)
        except DmaError:
            return False
        if not page.limit:
            self._add(page)
        page.view, page.start, page.limit = view, start, end - size + 1
        return True

    def keep_record(self, record: RingPage, iova: int, size: int) -> bool:
        """View ``size`` bytes of a doorbell record at ``iova``.

        Return False if no view can be kept, as :meth:`turn`. The caller then reads memory itself.
        """
        if not self._may_keep():
            return False
        try:
            view = self.memory.view(iova, size, writable=False)
        except DmaError:
            return False
        if not record.limit:
            self._add(record)
        record.view, record.limit = view, 1
        return True

    def _add(self, page: RingPage) -> None:
        if len(self._pages) >= MAX_PAGES:
            self._pages.popleft().forget()
        self._pages.append(page)

    def forget(self) -> None:
        """Drop all views; the next access of each queue takes a new one."""
        for page in self._pages:
            page.forget()
        self._pages.clear()
