"""Declaration of PRM structures: once, in construct, with two methods of reading.

``Prm`` is a construct ``Struct`` over bits, in the order and with the names of mlx5_ifc.h::

    pd_in = Prm("dealloc_pd_in", *CMD_IN, rsvd(8), "pd" / bits(24), rsvd(32))

``parse`` and ``build`` are construct's own: complete, readable and slow (60 us for a command).
``view`` lays the same declaration over a buffer and reads or writes one field at a time, like
MLX5_GET and MLX5_SET, in about 0.3 us. The accessors come from ``layouts.codec``, derived from the
declaration, so no second description has to be kept equal. A hypothesis test compares the two
methods for every structure.

All fields are big-endian and most significant bit first (PRM, "Conventions"). Reserved ranges are
padding: never read, written as zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic

import construct as c

from layouts import codec

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ViewT_co = TypeVar("ViewT_co", bound=codec.View, covariant=True, default=Any)
else:
    from typing import TypeVar

    ViewT_co = TypeVar("ViewT_co")

_WORD_BITS = 32


def bits(width: int) -> Any:
    """Return an unsigned field of ``width`` bits."""
    return c.BitsInteger(width)


def rsvd(width: int) -> Any:
    """Return ``width`` reserved bits."""
    return c.Padding(width)


def octets(length: int) -> Any:
    """Return a field of ``length`` uninterpreted bytes (a GUID table, a union, a MAD)."""
    return c.Bytewise(c.Bytes(length))


def array(count: int, item: Any) -> Any:
    """Return a field of ``count`` items, each a field or a structure."""
    return c.Array(count, item)


def tail(item: Any) -> Any:
    """Return the flexible array at a structure's end: all items that fit the buffer."""
    return c.GreedyRange(item)


@dataclass(frozen=True, slots=True)
class Field:
    """Named field: its position (bits from the structure's start) and its contents."""

    name: str
    offset: int
    width: int
    kind: Any
    """Type of the field in construct: bits, octets, array, tail or a nested :class:`Prm`."""


class Prm(c.Struct, Generic[ViewT_co]):  # type: ignore[misc]  # construct is untyped
    """Structure of the PRM, and the type of its views (``layouts.stubs``).

    ``name`` is the structure's name in mlx5_ifc.h without ``mlx5_ifc_`` and ``_bits``. For a
    structure that the driver declares in C instead, ``c_name`` is that name (``mlx5_eqe``).
    """

    def __init__(self, name: str, *fields: Any, c_name: str | None = None) -> None:
        super().__init__(*fields)
        self.prm_name = name
        self.c_name = c_name
        self.fields: tuple[Field, ...] = tuple(_walk(fields))
        self.bit_length: int = sum(_width(field) for field in fields)
        if self.bit_length % 8:
            raise TypeError(f"{name}: {self.bit_length} bits are not whole bytes")
        self.size: int = self.bit_length // 8
        self._view: Any = codec.view_class(self)

    def parse(self, data: bytes, **_contextkw: Any) -> Any:
        """Decode with construct into a Container of every named field.

        Bytes behind the structure, or behind the last whole item of its tail, are ignored. Raises
        construct's StreamError for fewer bytes than the fixed part.
        """
        whole = bytes(data)
        if step := _tail_step(self):
            # Bit streams of construct must not end inside an item.
            whole = whole[: len(whole) - (len(whole) - self.size) % step]
        return c.Bitwise(c.Struct(*self.subcons)).parse(whole)

    def build(self, obj: Mapping[str, object], **_contextkw: Any) -> bytes:
        """Encode with construct, reserved bits as 0. Raises KeyError for a missing field."""
        built: bytes = c.Bitwise(c.Struct(*self.subcons)).build(obj)
        return built

    def view(self, buf: Any, offset: int = 0) -> ViewT_co:
        """Lay the structure over ``buf`` itself at ``offset`` bytes; fields become attributes.

        Raises ValueError when the buffer is shorter than the fixed part. Assignments need a
        writable buffer and raise ValueError for a value that does not fit.
        """
        if len(buf) - offset < self.size:
            raise ValueError(f"{self.prm_name}: {len(buf) - offset} bytes, wants {self.size}")
        view: ViewT_co = self._view(buf, offset)
        return view

    def new(self, extra: int = 0, **values: Any) -> ViewT_co:
        """Return a view over a new zeroed buffer, with ``values`` as fields.

        ``extra`` bytes follow the fixed fields, for a tail. Raises as :meth:`View.assign` does.
        """
        view: ViewT_co = self._view(bytearray(self.size + extra), 0)
        view.assign(values)
        return view

    def named_size(self, besides: str = "") -> int:
        """Return the bytes up to the end of the last named field's word, or up to a tail.

        The bytes behind it are reserved. The field ``besides`` (``structure.field`` for a nested
        one), and all bytes behind it, are not counted.
        """
        return -(-_named_bits(self, besides) // _WORD_BITS) * _WORD_BITS // 8

    @property
    def has_tail(self) -> bool:
        """Whether the structure, or its last nested structure, ends with a list of any length."""
        return _tail_step(self) > 0

    def together(self, *names: str) -> Callable[[Any], int]:
        """Return a function that reads neighbouring fields of a view as one number.

        The first field has the highest bits. Raises TypeError for fields that are not neighbours in
        this order, KeyError for an unknown name.
        """
        by_name = {field.name: field for field in self.fields}
        fields = [by_name[name] for name in names]
        for one, other in pairwise(fields):
            if one.offset + one.width != other.offset:
                raise TypeError(f"{self.prm_name}: {other.name} does not follow {one.name}")
        first, width = fields[0], sum(field.width for field in fields)
        return codec.accessors(c.BitsInteger(width), first.offset, width, self.bit_length)[0]

    def packer(self, *names: str, upto: int | None = None) -> struct.Struct:
        """Return a ``struct.Struct`` over the named fields, in their order; the others are padding.

        Packing writes zeros there, unpacking skips them. Raises TypeError for a field that is not
        whole bytes, and KeyError for an unknown name. ``upto`` is the size in bytes; the default is
        the whole structure.
        """
        by_name = {field.name: field for field in self.fields}
        end = self.size if upto is None else upto
        return struct.Struct(codec.struct_format([by_name[name] for name in names], end))

    def __repr__(self) -> str:
        return f"<Prm {self.prm_name}, {self.size} bytes>"


def _walk(fields: tuple[Any, ...]) -> Iterator[Field]:
    """Yield the named fields with their bit offsets; padding only advances the offset."""
    offset = 0
    for field in fields:
        width = _width(field)
        if field.name:
            yield Field(field.name, offset, width, field.subcon)
        offset += width


def _named_bits(prm: Prm, besides: str = "") -> int:
    """Return the bits up to the end of the last named field, nested structures included.

    The field ``besides`` and all behind it do not count.
    """
    name, _, inner = besides.partition(".")
    end = 0
    for field in prm.fields:
        is_it = field.name == name
        if is_it and not inner:
            break
        within = inner if is_it else ""
        width = _named_bits(field.kind, within) if isinstance(field.kind, Prm) else field.width
        end = max(end, field.offset + width)
        if is_it:
            break
    return end


def _tail_step(prm: Prm) -> int:
    """Return the bytes of an item of the tail of a structure, or of its last structure.

    Returns 0 for a structure without a tail.
    """
    last = prm.fields[-1].kind if prm.fields else None
    if isinstance(last, Prm):
        return _tail_step(last)
    return _width(last.subcon) // 8 if isinstance(last, c.GreedyRange) else 0


def _width(field: Any) -> int:
    """Return the width of a field in bits; 0 for a tail, which has no fixed width."""
    kind = field.subcon if isinstance(field, c.Renamed) else field
    if isinstance(kind, Prm):
        return kind.bit_length
    if isinstance(kind, c.GreedyRange):
        return 0
    if isinstance(kind, c.Array):
        return int(kind.count) * _width(kind.subcon)
    return int(kind.sizeof())
