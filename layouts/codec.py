"""Views: fast access to a declared structure, with accessors derived from the fields.

A view is two words, a buffer and a byte offset. Each field of the declaration becomes a property
whose getter and setter have the field's position built in; most fields are numbers
(``integer.py``).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import construct as c

from layouts.integer import Getter, Setter, integer

if TYPE_CHECKING:
    from layouts.prm import Field, Prm

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}

_WORD_BYTES = 8

ItemT = TypeVar("ItemT")


class View:
    """Structure laid over a buffer. Subclasses have one property for each declared field."""

    __slots__ = ("base", "buf")
    prm: Prm

    def __init__(self, buf: Any, base: int = 0) -> None:
        self.buf = buf
        self.base = base

    def __bytes__(self) -> bytes:
        return bytes(self.buf[self.base : self.base + self.prm.size])

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set the named fields in the buffer, nested structures from mappings; others stay.

        Raises AttributeError for an unknown name, ValueError or TypeError for a value that does not
        fit. Fields before that one are already set.
        """
        for name, value in values.items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Return every field by name, nested structures as nested dicts: for traces and tests."""
        return {field.name: _plain(getattr(self, field.name)) for field in self.prm.fields}

    def __repr__(self) -> str:
        return f"<{self.prm.prm_name} {self.as_dict()}>"


class ArrayView(Generic[ItemT]):
    """Items of equal width in sequence; a tail's length follows from the buffer."""

    __slots__ = ("_accessors", "_count", "_holder", "_stride")

    def __init__(self, buf: Any, base: int, count: int, item: _Item) -> None:
        self._holder = View(buf, base)
        self._count = count
        self._stride = item.stride
        self._accessors = item.accessors

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> View:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return View(self._holder.buf, self._holder.base + index * self._stride)

    def __getitem__(self, index: int) -> ItemT:
        item: ItemT = self._accessors[0](self._at(index))
        return item

    def __setitem__(self, index: int, value: Any) -> None:
        self._accessors[1](self._at(index), value)

    def __iter__(self) -> Iterator[ItemT]:
        return (self[index] for index in range(self._count))

    def words(self, count: int) -> array[int]:
        """Return a copy of the first ``count`` items, which are numbers of 64 bits.

        Raises IndexError for more items than the array has, TypeError for items of another width.
        """
        span = self._words(count)
        words = array("Q", bytes(self._holder.buf[span]))
        if sys.byteorder == "little":
            words.byteswap()
        return words

    def put_words(self, values: Iterable[int]) -> None:
        """Set the first items, which are numbers of 64 bits; the others stay.

        Raises IndexError for more values than items, TypeError for items of another width.
        """
        words = array("Q", values)
        span = self._words(len(words))
        if sys.byteorder == "little":
            words.byteswap()
        self._holder.buf[span] = words.tobytes()

    def _words(self, count: int) -> slice:
        """Return the buffer's range of the first items, of 64 bits each.

        Raises IndexError for more items than the array has, TypeError for items of another width.
        """
        if self._stride != _WORD_BYTES:
            raise TypeError(f"items of {self._stride} bytes are not 64-bit numbers")
        if not 0 <= count <= self._count:
            raise IndexError(count)
        at = self._holder.base
        return slice(at, at + count * _WORD_BYTES)


class _Item:
    """Item of an array: the bytes from one item to the next, and its getter."""

    __slots__ = ("accessors", "stride")

    def __init__(self, kind: Any) -> None:
        from layouts.prm import _width

        width = _width(kind)
        if width % 8:
            raise TypeError("array items must be whole bytes")
        self.stride = width // 8
        self.accessors = accessors(kind, 0, width, width)


def view_class(prm: Prm) -> type[View]:
    """Return the view type of a structure: one property for each field.

    Raises TypeError for two fields of one name, and for a name that :class:`View` uses.
    """
    members: dict[str, Any] = {"__slots__": (), "prm": prm}
    for field in prm.fields:
        if field.name in members or hasattr(View, field.name):
            raise TypeError(f"{prm.prm_name}: field name {field.name} is taken")
        members[field.name] = property(
            *accessors(field.kind, field.offset, field.width, prm.bit_length)
        )
    return type(f"{prm.prm_name}_view", (View,), members)


def accessors(kind: Any, offset: int, width: int, room: int) -> tuple[Getter, Setter]:
    """Return getter and setter of a ``kind`` field at bit ``offset`` of ``room`` in the structure.

    Getters return a number, bytes, a :class:`View` or an :class:`ArrayView`; the last two read and
    write the same buffer. Setters raise ValueError for a number or length that does not fit.
    """
    if hasattr(kind, "prm_name"):
        return _nested(kind, offset // 8)
    if isinstance(kind, c.GreedyRange):
        return _tail(kind, offset // 8)
    if isinstance(kind, c.Array):
        return _array(kind, offset // 8)
    if isinstance(kind, c.BitsInteger):
        return integer(offset, width, room)
    return _octets(offset // 8, width // 8)


def _nested(prm: Prm, start: int) -> tuple[Getter, Setter]:
    """Return getter and setter of a structure; the setter takes a mapping or bytes of its size.

    A mapping sets only the named fields. Other lengths raise ValueError.
    """

    def get(view: View) -> Any:
        return prm._view(view.buf, view.base + start)

    def put(view: View, value: Any) -> None:
        """Set the structure from a mapping (only its fields) or bytes of its size (ValueError)."""
        if isinstance(value, Mapping):
            get(view).assign(value)
            return
        at = view.base + start
        data = _bytes(value)
        if len(data) != prm.size:
            raise ValueError(f"{prm.prm_name}: {len(data)} bytes, wants {prm.size}")
        view.buf[at : at + prm.size] = data

    return get, put


def _array(kind: Any, start: int) -> tuple[Getter, Setter]:
    """Return getter and setter of an array of fixed length."""
    item, count = _Item(kind.subcon), int(kind.count)

    def get(view: View) -> ArrayView[Any]:
        return ArrayView(view.buf, view.base + start, count, item)

    return get, _each(get)


def _tail(kind: Any, start: int) -> tuple[Getter, Setter]:
    """Return getter and setter of a tail: all whole items that the buffer has from ``start`` on."""
    item = _Item(kind.subcon)

    def get(view: View) -> ArrayView[Any]:
        at = view.base + start
        return ArrayView(view.buf, at, (len(view.buf) - at) // item.stride, item)

    return get, _each(get)


def _each(get: Getter) -> Setter:
    """Return a setter that sets an array item by item, from a sequence of its own length.

    Any other length raises ValueError before the first item is set.
    """

    def put(view: View, values: Any) -> None:
        items = get(view)
        if len(values) != len(items):
            raise ValueError(f"{len(values)} items, wants {len(items)}")
        for index, value in enumerate(values):
            items[index] = value

    return put


def _octets(start: int, length: int) -> tuple[Getter, Setter]:
    """Return getter and setter of bytes; the setter raises ValueError for another length."""

    def get(view: View) -> bytes:
        at = view.base + start
        return bytes(view.buf[at : at + length])

    def put(view: View, value: Any) -> None:
        data = _bytes(value)
        if len(data) != length:
            raise ValueError(f"{len(data)} bytes, wants {length}")
        at = view.base + start
        view.buf[at : at + length] = data

    return get, put


def _bytes(value: Any) -> bytes:
    """Return ``bytes(value)``; raise TypeError for a number, which would make that many zeros."""
    if isinstance(value, int):
        raise TypeError(f"{value:#x} is not bytes")
    return bytes(value)


def struct_format(fields: Sequence[Field], end: int) -> str:
    """Return the ``struct`` format of the given fields and padding, ``end`` bytes long.

    Raises TypeError for a field that is not whole bytes, out of order or behind ``end``. TypeError
    also for a number whose width ``struct`` does not have.
    """
    format_, at = ">", 0
    for field in fields:
        start, length = field.offset // 8, field.width // 8
        if (field.offset | field.width) % 8 or start < at or start + length > end:
            raise TypeError(f"{field.name} does not occupy whole bytes of its own")
        code = f"{length}s"
        if isinstance(field.kind, c.BitsInteger):
            if field.width not in _CODES:
                raise TypeError(f"{field.name}: struct has no number of {field.width} bits")
            code = _CODES[field.width]
        format_ += _pad(start - at) + code
        at = start + length
    return format_ + _pad(end - at)


def _pad(length: int) -> str:
    return f"{length}x" if length else ""


def _plain(value: Any) -> Any:
    """Return a view as a dict, an array as a list, any other value unchanged."""
    if isinstance(value, View):
        return value.as_dict()
    if isinstance(value, ArrayView):
        return [_plain(item) for item in value]
    return value
