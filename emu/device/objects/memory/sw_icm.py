"""Software ICM: adapter memory into which drivers write flow tables by queue pairs.

A driver allocates ranges of the areas that the capabilities describe and covers them with memory
keys. RDMA writes then store steering entries (STEs) and action lists there. A page is allocated on
its first write; unwritten memory reads as zeros.

Sources: PRM "SW ICM"; mlx5_ifc.h: sw_icm, device_mem_cap; core/lib/dm.c;
core/steering/dr_icm_pool.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from emu.device.objects.ledger import Ledger
from emu.device.objects.memory.views import Views
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

LOG_BLOCK: Final = 12
"""log2 of the allocation granularity, in bytes (log_sw_icm_alloc_granularity)."""
LOG_PAGE: Final = 12
PAGE_BYTES: Final = 1 << LOG_PAGE
STE_BYTES: Final = 64
_HELD_BYTES: Final = PAGE_BYTES + 256
"""Cost of a page on the host, in bytes."""
_NOTHING: Final = memoryview(bytes(PAGE_BYTES))
MAX_DECODED: Final = 1 << 12
"""Maximum number of cached decoded entries."""
MAX_DECODED_BYTES: Final = 16 << 20
"""Maximum bytes of all cached decoded entries on the host."""
DECODED: Final = "decoded steering entries"
"""The ledger's account of cached decoded entries."""
MAX_INVALIDATED_ENTRIES: Final = 1 << 6
"""Maximum number of entries that a write may invalidate one by one."""


class Area(NamedTuple):
    """Address range of one kind of memory."""

    start: int
    log_size: int

    def has(self, start: int, length: int) -> bool:
        """Return whether the whole range lies in the area."""
        return self.start <= start and start + length <= self.start + (1 << self.log_size)


STEERING: Final = Area(0x10_0000_0000, 30)
"""Steering entries."""
HEADER_MODIFY: Final = Area(0x20_0000_0000, 22)
"""Action lists. An entry points to one by 16 bits, in units of 64 bytes."""
HEADER_MODIFY_PATTERN: Final = Area(0x30_0000_0000, 22)
"""Action lists with separate arguments."""
AREAS: Final = (STEERING, HEADER_MODIFY, HEADER_MODIFY_PATTERN)


class SwIcm(Object):
    """A range of software ICM that a driver has allocated."""

    __slots__ = ("log_size", "pages", "start")
    kind = "software icm"
    numbering = Numbering(lambda made: 1 << 12)

    def __init__(self, start: int, log_size: int) -> None:
        super().__init__()
        self.start = start
        self.log_size = log_size
        self.pages = 0
        """Number of written pages."""

    @property
    def length(self) -> int:
        """Length in bytes."""
        return 1 << self.log_size

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.pages * _HELD_BYTES

    @staticmethod
    def page_cost(pages: int) -> int:
        """Return the cost of ``pages`` pages on the host, in bytes."""
        return pages * _HELD_BYTES

    def about(self) -> dict[str, object]:
        return {"start": self.start, "bytes": self.length, "written": self.pages * PAGE_BYTES}


class Decoded(Protocol):
    """A decoded entry."""

    @property
    def host_bytes(self) -> int:
        """Bytes of the entry on the host."""


class IcmMemory:
    """All software ICM of a function."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pages: dict[int, bytearray] = {}
        """Pages by page number."""
        self._ranges: dict[int, SwIcm] = {}
        """Ranges by start address."""
        self.decoded: dict[int, Decoded] = {}
        """Valid decoded entries by address."""
        self._decoded_bytes = 0
        self.changes = 0
        """Number of invalidations so far."""

    def is_free(self, start: int, length: int) -> bool:
        """Return whether no allocated range overlaps this one; limits of areas are not checked."""
        return all(
            held.start + held.length <= start or start + length <= held.start
            for held in self._ranges.values()
        )

    def take(self, icm: SwIcm) -> None:
        """Record a free range as allocated."""
        self._ranges[icm.start] = icm

    def give_back(self, icm: SwIcm) -> list[bytearray]:
        """Free a range and return its written pages, for :func:`free_each`.

        All decoded entries are invalidated.
        """
        del self._ranges[icm.start]
        first, count = icm.start >> LOG_PAGE, icm.length >> LOG_PAGE
        held = self._pages
        if count < len(held):
            numbers = [page for page in range(first, first + count) if page in held]
        else:
            numbers = [page for page in held if first <= page < first + count]
        self.changed()
        return [held.pop(page) for page in numbers]

    def drop(self) -> list[bytearray]:
        """Return all written pages, as the memory is in use no more, for :func:`free_each`."""
        pages, self._pages = [*self._pages.values()], {}
        return pages

    def owner(self, start: int, length: int) -> SwIcm | None:
        """Return the allocated range that contains all of this one; None without one."""
        for held in self._ranges.values():
            if held.start <= start and start + length <= held.start + held.length:
                return held
        return None

    def changed(self) -> None:
        """Drop all decoded entries and credit the ledger; count the change for cached decisions."""
        self._forget()
        self.changes += 1

    def _forget(self) -> None:
        self.decoded.clear()
        self._charge(-self._decoded_bytes)

    def _charge(self, size: int) -> None:
        self._decoded_bytes += size
        self._ledger.hold(DECODED, size)

    def missing(self, start: int, length: int) -> int:
        """Return the number of pages in a range that no write has allocated yet."""
        return sum(page not in self._pages for page in _pages_of(start, length))

    def hold(self, icm: SwIcm, start: int, length: int) -> None:
        """Allocate the missing pages of a range of ``icm`` before a write to it, filled with zeros.

        Decoded entries in the range are dropped; all of them, for a long range or another area than
        STEERING. ``icm.pages`` counts the pages; the caller charges the ledger.
        """
        for page in _pages_of(start, length):
            if page not in self._pages:
                self._pages[page] = bytearray(PAGE_BYTES)
                icm.pages += 1
        if STEERING.has(start, length) and length <= STE_BYTES * MAX_INVALIDATED_ENTRIES:
            for address in range(start - start % STE_BYTES, start + length, STE_BYTES):
                made = self.decoded.pop(address, None)
                if made is not None:
                    self._charge(-made.host_bytes)
            self.changes += 1
        else:
            self.changed()

    def views(self, start: int, length: int) -> Views:
        """Return views of a range, one for each page; unwritten pages are read-only zeros.

        Call ``hold`` before a write.
        """
        return [self._view(*segment) for segment in _segments(start, length)]

    def _view(self, page: int, at: int, size: int) -> memoryview:
        held = self._pages.get(page)
        return (_NOTHING if held is None else memoryview(held))[at : at + size]

    def read(self, address: int, length: int) -> bytes:
        """Return a copy of a range within one page; unwritten memory reads as zeros."""
        held = self._pages.get(address >> LOG_PAGE)
        at = address & PAGE_BYTES - 1
        return bytes(length) if held is None else bytes(held[at : at + length])

    def is_held(self, address: int) -> bool:
        """Return whether the page at an address has been written."""
        return address >> LOG_PAGE in self._pages

    def keep(self, address: int, made: Decoded) -> None:
        """Cache a decoded entry by address until a write changes it, and charge the ledger.

        The entry is not cached if the ledger has no space. A full cache is flushed first.
        """
        size = made.host_bytes
        if len(self.decoded) >= MAX_DECODED or self._decoded_bytes + size > MAX_DECODED_BYTES:
            self._forget()
        if self._ledger.has_room(size):
            self.decoded[address] = made
            self._charge(size)


def free_each(pages: list[bytearray]) -> Iterator[int]:
    """Free pages, of which there may be 260,000; yield the cost of each, in objects."""
    while pages:
        pages.pop()
        yield 1


def _pages_of(start: int, length: int) -> range:
    return range(start >> LOG_PAGE, (start + length - 1 >> LOG_PAGE) + 1)


def _segments(start: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Yield page, offset and size of each segment of a range."""
    end = start + length
    while start < end:
        at = start & PAGE_BYTES - 1
        size = min(PAGE_BYTES - at, end - start)
        yield start >> LOG_PAGE, at, size
        start += size
