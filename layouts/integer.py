"""Accessors of the numbers in a structure.

A number inside one aligned word of 8 to 64 bits is one ``struct`` call and a shift; any other one
is read and written by ``int.from_bytes`` and back. The functions get a view, that is a buffer and a
byte offset.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

_WHOLE = {8: Struct(">B"), 16: Struct(">H"), 32: Struct(">I"), 64: Struct(">Q")}

Getter = Callable[[Any], Any]
Setter = Callable[[Any, Any], None]


def integer(offset: int, width: int, room: int) -> tuple[Getter, Setter]:
    """Return getter and setter of ``width`` bits at bit ``offset`` of a structure.

    ``room`` is the structure's size in bits, which no access exceeds. The setter keeps the other
    bits and raises ValueError for a negative number or one that does not fit.
    """
    if width in _WHOLE and offset % 8 == 0:
        return _whole(_WHOLE[width], offset // 8)
    for word, align in ((8, 8), (16, 16), (32, 32), (64, 32)):
        start = offset // align * align
        # A structure whose size is not a multiple of words may end the buffer inside the last one.
        if offset + width <= start + word <= room:
            return _shifted(_WHOLE[word], start // 8, start + word - offset - width, width)
    return _wide(offset, width)


def _whole(word: Struct, start: int) -> tuple[Getter, Setter]:
    """Return getter and setter of a whole 8, 16, 32 or 64-bit number, at byte ``start``."""
    unpack, pack, limit = word.unpack_from, word.pack_into, 1 << word.size * 8

    def get(view: Any) -> int:
        value: int = unpack(view.buf, view.base + start)[0]
        return value

    def put(view: Any, value: int) -> None:
        if not 0 <= value < limit:
            raise _misfit(value, limit)
        pack(view.buf, view.base + start, value)

    return (_in_byte(start, 0, limit - 1) if word.size == 1 else get), put


def _shifted(word: Struct, start: int, shift: int, width: int) -> tuple[Getter, Setter]:
    """Return getter and setter of some bits inside one word at byte ``start``."""
    unpack, pack = word.unpack_from, word.pack_into
    limit = 1 << width
    mask = limit - 1
    keep = (1 << word.size * 8) - 1 - (mask << shift)

    def get(view: Any) -> int:
        value: int = unpack(view.buf, view.base + start)[0] >> shift & mask
        return value

    def put(view: Any, value: int) -> None:
        if not 0 <= value < limit:
            raise _misfit(value, limit)
        at = view.base + start
        old: int = unpack(view.buf, at)[0]
        pack(view.buf, at, old & keep | value << shift)

    return (_in_byte(start, shift, mask) if word.size == 1 else get), put


def _in_byte(start: int, shift: int, mask: int) -> Callable[[Any], int]:
    """Return a getter of some bits of one byte, three times faster without a ``struct`` call."""

    def get(view: Any) -> int:
        value: int = view.buf[view.base + start] >> shift & mask
        return value

    return get


def _wide(offset: int, width: int) -> tuple[Getter, Setter]:
    """Return getter and setter of a number that no single word contains."""
    first, last = offset // 8, (offset + width + 7) // 8
    shift, limit = last * 8 - offset - width, 1 << width

    def get(view: Any) -> int:
        base = view.base
        return int.from_bytes(view.buf[base + first : base + last], "big") >> shift & (limit - 1)

    def put(view: Any, value: int) -> None:
        if not 0 <= value < limit:
            raise _misfit(value, limit)
        base = view.base
        old = int.from_bytes(view.buf[base + first : base + last], "big")
        new = old & ~((limit - 1) << shift) | value << shift
        view.buf[base + first : base + last] = new.to_bytes(last - first, "big")

    return get, put


def _misfit(value: int, limit: int) -> ValueError:
    return ValueError(f"{value:#x} does not fit in {limit.bit_length() - 1} bits")
