"""Guest memory in a test's hand."""

from __future__ import annotations

from emu.device.ports import DmaError


class Memory:
    """Guest RAM from ``base`` on, with a page allocator that never gives the same page twice.

    Device and driver share the methods; while the device is not permitted, look at ``ram``.
    """

    PAGE = 4096
    generation = 0

    def __init__(self, size=16 << 20, base=0x1_0000_0000):
        self.base = base
        self.ram = bytearray(size)
        self._view = memoryview(self.ram)
        self._next = base
        self._freed = {}
        self._revoked = set()
        self._permitted = True
        self._check = None

    def alloc(self, size, align=PAGE):
        """IOVA of ``size`` zeroed bytes."""
        freed = self._freed.get((size, align))
        if freed:
            address = freed.pop()
            self.write(address, bytes(size))
            return address
        address = -(-self._next // align) * align
        assert address + size <= self.base + len(self.ram), "the test's guest is out of memory"
        self._next = address + size
        return address

    def free(self, address, size, align=PAGE):
        """Give back what ``alloc`` returned."""
        self._freed.setdefault((size, align), []).append(address)

    def pages(self, size):
        """A list of pages that do not lie together, enough for ``size`` bytes."""
        total = -(-size // self.PAGE)
        pages = [self.alloc(self.PAGE) for _ in range(total)]
        return pages[::-1]

    def revoke(self, page):
        """The guest unmaps a page."""
        self._revoked.add(page // self.PAGE)
        self.generation += 1

    def permit(self, allowed):
        self._permitted = allowed
        self.generation += 1

    @property
    def is_watched(self):
        return self._check is not None

    def watch(self, check):
        self._check = check
        self.generation += 1

    def _offset(self, iova, length, *, is_write):
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

    def read(self, iova, length):
        at = self._offset(iova, length, is_write=False)
        return bytes(self._view[at : at + length])

    def write(self, iova, data):
        at = self._offset(iova, len(data), is_write=True)
        self._view[at : at + len(data)] = data

    def view(self, iova, length, *, writable=True):
        at = self._offset(iova, length, is_write=writable)
        return self._view[at : at + length]

    def segments(self, iova, length, *, writable=True):
        return [self.view(iova, length, writable=writable)]
