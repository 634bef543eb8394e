"""Guest memory that the caller controls: a buffer, and the access rights of its pages.

Implements :class:`emu.device.ports.GuestMemory`, which defines what the device may expect of it.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

from emu.device.ports import Buffer, DmaError

_PIECE = 1 << 16
_ZEROES = bytes(_PIECE)


class OutOfMemoryError(AssertionError):
    """Raised when the guest is too small for its driver's allocations."""


class Memory:
    """Guest RAM from ``base`` on, with a page allocator that reuses only freed memory.

    Device and driver share the methods; while the device is not permitted, use ``ram``. All
    addresses are IOVAs, all sizes bytes.
    """

    PAGE = 4096

    def __init__(self, size: int = 16 << 20, base: int = 0x1_0000_0000) -> None:
        self.base = base
        # The host's kernel allocates pages of a mapping on first use; zeroing all takes 4 ms.
        # Reading a private mapping allocates no page.
        self.ram = memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._next = base
        self._freed: dict[tuple[int, int], list[int]] = {}
        self._revoked: set[int] = set()
        self._permitted = True
        self._check: Callable[[int, int, bool], None] | None = None
        self.forget_views: Callable[[], None] = lambda: None
        """Called when cached views may cover removed pages."""

    # -- what a guest does

    def alloc(self, size: int, align: int = PAGE) -> int:
        """Return the IOVA of ``size`` zeroed bytes, a multiple of ``align``.

        Reuse freed memory first. Raises OutOfMemoryError when the guest's RAM is used up.
        """
        freed = self._freed.get((size, align))
        if freed:
            address = freed.pop()
            self.write(address, bytes(size))
            return address
        address = -(-self._next // align) * align
        if address + size > self.base + len(self.ram):
            raise OutOfMemoryError(f"no space for {size} bytes in {len(self.ram)}")
        self._next = address + size
        return address

    def free(self, address: int, size: int, align: int = PAGE) -> None:
        """Free what ``alloc`` returned for this size and alignment."""
        self._freed.setdefault((size, align), []).append(address)

    def pages(self, size: int) -> list[int]:
        """Allocate enough separate pages for ``size`` bytes.

        Return their IOVAs in descending order. Raises OutOfMemoryError.
        """
        total = -(-size // self.PAGE)
        pages = [self.alloc(self.PAGE) for _ in range(total)]
        return pages[::-1]

    def contents(self) -> dict[int, bytes]:
        """Return a copy of the pages that are not all zeroes, by their IOVAs; ignores permissions.

        Comparing two of these takes a quarter of the time of comparing two copies of the memory.
        """
        found = {}
        for start in range(0, len(self.ram), _PIECE):
            piece = bytes(self.ram[start : start + _PIECE])
            if piece != _ZEROES:
                for at in range(0, len(piece), self.PAGE):
                    page = piece[at : at + self.PAGE]
                    if page.strip(b"\0"):
                        found[self.base + start + at] = page
        return found

    def revoke(self, page: int) -> None:
        """Unmap the page at this IOVA for good: DMA to it raises DmaError.

        Calls ``forget_views``.
        """
        self._revoked.add(page // self.PAGE)
        self.forget_views()

    # -- what the device does

    def permit(self, allowed: bool) -> None:
        """Set whether bus mastering is on."""
        self._permitted = allowed
        self.forget_views()

    @property
    def is_watched(self) -> bool:
        """Whether a check is called for each access."""
        return self._check is not None

    def watch(self, check: Callable[[int, int, bool], None] | None) -> None:
        """Call ``check(iova, length, is_write)`` before each access; it may raise DmaError."""
        self._check = check
        self.forget_views()

    def _offset(self, iova: int, length: int, *, is_write: bool) -> int:
        """Return the range's offset in ``ram`` if the access is granted.

        Raises DmaError: the watch's check refuses, bus mastering is off, the range is outside the
        RAM, or it includes a revoked page.
        """
        if self._check is not None:
            self._check(iova, length, is_write)
        at = iova - self.base
        if not self._permitted:
            raise DmaError(iova, length, "bus mastering is off")
        if length < 0 or at < 0 or at + length > len(self.ram):
            raise DmaError(iova, length)
        if self._revoked and not self._revoked.isdisjoint(
            range(iova // self.PAGE, (iova + max(length, 1) - 1) // self.PAGE + 1)
        ):
            raise DmaError(iova, length)
        return at

    def read(self, iova: int, length: int) -> bytes:
        """Return a copy of ``length`` bytes. Raises DmaError."""
        at = self._offset(iova, length, is_write=False)
        return bytes(self.ram[at : at + length])

    def write(self, iova: int, data: Buffer) -> None:
        """Write all of ``data``. Raises DmaError without having written anything."""
        at = self._offset(iova, len(data), is_write=True)
        self.ram[at : at + len(data)] = data

    def view(self, iova: int, length: int, *, writable: bool = True) -> memoryview:
        """Return the bytes themselves. Raises DmaError."""
        at = self._offset(iova, length, is_write=writable)
        return self.ram[at : at + length]

    def segments(self, iova: int, length: int, *, writable: bool = True) -> list[memoryview]:
        """Return the bytes themselves in chunks, of which there is one. Raises DmaError."""
        return [self.view(iova, length, writable=writable)]

    def equal_views(
        self, starts: Sequence[int], size: int, *, writable: bool = True
    ) -> list[memoryview]:
        """Return views of ranges of one size, in order.

        Return [] if an access to one of them would be refused, or while a check is set.
        """
        if self._check is not None:
            return []
        try:
            return [self.view(iova, size, writable=writable) for iova in starts]
        except DmaError:
            return []
