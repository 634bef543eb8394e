"""Kinds of fields that a structure is declared with: numbers, bytes, structures, arrays.

A kind knows its construct, its width and its accessors. A type checker sees a descriptor with the
type of the field's value; ``layouts.prm`` puts a property in its place. Most fields are numbers
(``integer.py``).
"""

from __future__ import annotations

import sys
from array import array as numbers
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, SupportsBytes, TypeVar, overload

import construct as c

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WORD_BYTES = 8

Getter = Callable[[Any], Any]
Setter = Callable[[Any, Any], None]

# Unseen by mypyc, which takes all that it compiles, ``layouts.integer`` too, for one cycle of
# imports. Fields would be in the cycle, and get their types too late.
if TYPE_CHECKING:
    integer: Callable[[int, int, int], tuple[Getter, Setter]]
else:
    from layouts.integer import integer

ItemT = TypeVar("ItemT")
PrmT = TypeVar("PrmT", bound="Structure")


class View:
    """Place in a buffer: the buffer itself and a byte offset."""

    __slots__ = ("base", "buf")

    def __init__(self, buf: Any, base: int = 0) -> None:
        self.buf = buf
        self.base = base


class Structure(View):
    """Structure that a field can consist of (``layouts.prm.Prm``)."""

    __slots__ = ()

    construct: ClassVar[Any]
    """Structure in construct, over bits."""
    bit_length: ClassVar[int]
    """Number of bits of the fixed part."""

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set the named fields in the buffer."""
        raise NotImplementedError


class ArrayView(Generic[ItemT]):
    """Items of equal width in sequence; a tail's length follows from the buffer."""

    __slots__ = ("_count", "_get", "_holder", "_put", "_stride")

    def __init__(self, holder: View, count: int, items: Items[ItemT]) -> None:
        self._holder = holder
        self._count = count
        self._stride = items.stride
        self._get, self._put = items.item_accessors

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> View:
        if not 0 <= index < self._count:
            raise IndexError(index)
        return View(self._holder.buf, self._holder.base + index * self._stride)

    def __getitem__(self, index: int) -> ItemT:
        item: ItemT = self._get(self._at(index))
        return item

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(self._at(index), value)

    def __iter__(self) -> Iterator[ItemT]:
        return (self[index] for index in range(self._count))

    def words(self, count: int) -> numbers[int]:
        """Return a copy of the first ``count`` items, which are numbers of 64 bits.

        Raises IndexError for more items than the array has, TypeError for items of another width.
        """
        span = self._words(count)
        words = numbers("Q", bytes(self._holder.buf[span]))
        if sys.byteorder == "little":
            words.byteswap()
        return words

    def put_words(self, values: Iterable[int]) -> None:
        """Set the first items, which are numbers of 64 bits; the others stay.

        Raises IndexError for more values than items, TypeError for items of another width.
        """
        words = numbers("Q", values)
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


class FieldKind:
    """Contents of a field: ``construct`` decodes and encodes it, ``width`` is its bits."""

    def __init__(self, construct: Any, width: int) -> None:
        self.construct = construct
        self.width = width

    def accessors(self, offset: int, room: int) -> tuple[Getter, Setter]:
        """Return getter and setter at bit ``offset`` of a structure of ``room`` bits.

        Setters raise ValueError for a number or length that does not fit.
        """
        raise NotImplementedError


class Reserved(FieldKind):
    """Padding: never read, written as zero."""


class Number(FieldKind):
    """Unsigned number."""

    def accessors(self, offset: int, room: int) -> tuple[Getter, Setter]:
        return integer(offset, self.width, room)

    if TYPE_CHECKING:

        def __get__(self, view: View, owner: object) -> int: ...
        def __set__(self, view: View, value: int) -> None: ...


class Octets(FieldKind):
    """Bytes taken as they are."""

    def accessors(self, offset: int, room: int) -> tuple[Getter, Setter]:
        start, length = offset // 8, self.width // 8

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

    if TYPE_CHECKING:

        def __get__(self, view: View, owner: object) -> bytes: ...
        def __set__(self, view: View, value: SupportsBytes | Buffer) -> None: ...


class Nested(FieldKind, Generic[PrmT]):
    """Structure inside a structure: read as a view of the same buffer.

    Set from bytes of its size, or from a mapping, which sets only the named fields.
    """

    def __init__(self, prm: type[PrmT]) -> None:
        super().__init__(prm.construct, prm.bit_length)
        self.prm = prm

    def accessors(self, offset: int, room: int) -> tuple[Getter, Setter]:
        prm, start, size = self.prm, offset // 8, self.width // 8

        def get(view: View) -> PrmT:
            inner = prm.__new__(prm)
            inner.buf = view.buf
            inner.base = view.base + start
            return inner

        def put(view: View, value: Any) -> None:
            if isinstance(value, Mapping):
                get(view).assign(value)
                return
            at = view.base + start
            data = _bytes(value)
            if len(data) != size:
                raise ValueError(f"{prm.__name__}: {len(data)} bytes, wants {size}")
            view.buf[at : at + size] = data

        return get, put

    if TYPE_CHECKING:

        def __get__(self, view: View, owner: object) -> PrmT: ...
        def __set__(
            self, view: View, value: SupportsBytes | Buffer | Mapping[str, Any]
        ) -> None: ...


class Items(FieldKind, Generic[ItemT]):
    """Items of equal width: ``count`` of them, or at a structure's end all that fit the buffer.

    Set all at once by a sequence of the same length; another length raises ValueError first.
    """

    def __init__(self, item: FieldKind, count: int | None) -> None:
        if item.width % 8:
            raise TypeError("array items must be whole bytes")
        whole = c.GreedyRange(item.construct) if count is None else c.Array(count, item.construct)
        super().__init__(whole, (count or 0) * item.width)
        self.item = item
        self.count = count
        self.stride = item.width // 8
        self.item_accessors = item.accessors(0, item.width)

    def accessors(self, offset: int, room: int) -> tuple[Getter, Setter]:
        start, count, stride = offset // 8, self.count, self.stride

        def get(view: View) -> ArrayView[ItemT]:
            at = view.base + start
            fits = (len(view.buf) - at) // stride if count is None else count
            return ArrayView(View(view.buf, at), fits, self)

        def put(view: View, values: Any) -> None:
            items = get(view)
            if len(values) != len(items):
                raise ValueError(f"{len(values)} items, wants {len(items)}")
            for index, value in enumerate(values):
                items[index] = value

        return get, put

    if TYPE_CHECKING:

        def __get__(self, view: View, owner: object) -> ArrayView[ItemT]: ...
        def __set__(self, view: View, value: Collection[Any] | ArrayView[Any]) -> None: ...


def bits(width: int) -> Number:
    """Return an unsigned field of ``width`` bits."""
    return Number(c.BitsInteger(width), width)


def rsvd(width: int) -> Reserved:
    """Return ``width`` reserved bits."""
    return Reserved(c.Padding(width), width)


def octets(length: int) -> Octets:
    """Return a field of ``length`` uninterpreted bytes (a GUID table, a union, a MAD)."""
    return Octets(c.Bytewise(c.Bytes(length)), 8 * length)


def nested(prm: type[PrmT]) -> Nested[PrmT]:
    """Return a field that is a structure of its own."""
    return Nested(prm)


@overload
def array(count: int, item: Number) -> Items[int]: ...
@overload
def array(count: int, item: Octets) -> Items[bytes]: ...
@overload
def array(count: int, item: Nested[PrmT]) -> Items[PrmT]: ...
def array(count: int, item: Any) -> Items[Any]:
    """Return a field of ``count`` items of one kind. Raises TypeError for parts of bytes."""
    return Items(item, count)


@overload
def tail(item: Number) -> Items[int]: ...
@overload
def tail(item: Octets) -> Items[bytes]: ...
@overload
def tail(item: Nested[PrmT]) -> Items[PrmT]: ...
def tail(item: Any) -> Items[Any]:
    """Return the flexible array at a structure's end: all items that fit the buffer."""
    return Items(item, None)


def _bytes(value: Any) -> bytes:
    """Return ``bytes(value)``; raise TypeError for a number, which would make that many zeros."""
    if isinstance(value, int):
        raise TypeError(f"{value:#x} is not bytes")
    return bytes(value)
