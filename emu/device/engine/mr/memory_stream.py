"""Memory's side of a key with signatures or encryption, for the duration of an access."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from emu.device.engine.mr import access as memory
from emu.device.engine.mr.access_error import (
    PACKET_BYTES,
    SEGMENT_BYTES,
    TOO_FRAGMENTED,
    AccessError,
)
from emu.device.objects.memory.views import copy

if TYPE_CHECKING:
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.state.hca import Hca

_NO_LIMIT: Final = 1 << 64


class Stream(Protocol):
    """Bytes of a key before or behind its encryption or its signatures."""

    def outgoing(self, at: int, length: int) -> bytes:
        """Read a range. Raise AccessError."""

    def touch(self, at: int, length: int) -> None:
        """Translate all memory that a range needs, without writing. Raise AccessError."""

    def incoming(self, at: int, data: memoryview) -> None:
        """Write a range that has been touched."""


class MemoryStream:
    """Bytes that the key's list of other keys covers."""

    __slots__ = ("_depth", "_hca", "_limit", "_mkey", "_need")

    def __init__(self, hca: Hca, mkey: Mkey, need: int, depth: int, limit: int) -> None:
        """Open the key's memory; above ``limit`` steps of ``hca.budget`` it is TOO_FRAGMENTED."""
        self._hca, self._mkey, self._need, self._depth = hca, mkey, need, depth
        self._limit = limit

    def unlimited(self) -> None:
        """Remove the limit, because something may be written from now on."""
        self._limit = _NO_LIMIT

    def _views(self, at: int, length: int) -> Iterator[memoryview]:
        """Yield views of a range, translated packet by packet.

        Raises AccessError of the keys below. Raises TOO_FRAGMENTED when the budget's steps exceed
        the limit.
        """
        mkey, va = self._mkey, self._mkey.start + at
        while length:
            size = min(length, PACKET_BYTES)
            span = va, size, self._need
            views = memory.indirect(self._hca, mkey, span, self._depth, self._limit)
            if self._hca.budget.steps > self._limit:
                raise AccessError(TOO_FRAGMENTED, mkey.key, va, length, SEGMENT_BYTES)
            yield from views
            va, length = va + size, length - size

    def outgoing(self, at: int, length: int) -> bytes:
        """Read a range. Raise AccessError."""
        return b"".join(self._views(at, length))

    def touch(self, at: int, length: int) -> None:
        """Translate a range. Raise AccessError."""
        for _ in self._views(at, length):
            pass

    def incoming(self, at: int, data: memoryview) -> None:
        """Write a range."""
        copy(list(self._views(at, len(data))), (data,))
