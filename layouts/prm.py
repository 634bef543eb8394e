"""Declaration of PRM structures: once, as classes, with two methods of reading.

A structure is a class with the name and the fields of mlx5_ifc.h, in order::

    class dealloc_pd_in(CmdIn):
        _ = rsvd(8); pd = bits(24)
        _ = rsvd(32)

``parse`` and ``build`` are construct's, over the same declaration: complete, readable and slow
(60 us for a command). ``view`` lays the class over a buffer: an instance reads or writes one field
at a time, like MLX5_GET and MLX5_SET, in about 0.3 us. A hypothesis test compares the two methods
for every structure.

All fields are big-endian and most significant bit first (PRM, "Conventions"). Reserved ranges are
``_``: never read, written as zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from keyword import iskeyword
from typing import Any, Self

import construct as c

from layouts.fields import (
    ArrayView,
    FieldKind,
    Items,
    Nested,
    Number,
    Reserved,
    Structure,
    array,
    bits,
    integer,
    nested,
    octets,
    rsvd,
    tail,
)

__all__ = ["Field", "Prm", "PrmType", "array", "bits", "nested", "octets", "rsvd", "tail"]

_WORD_BITS = 32
_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True, slots=True)
class Field:
    """Named field: its position (bits from the structure's start) and its contents."""

    name: str
    offset: int
    kind: FieldKind

    @property
    def width(self) -> int:
        """Number of bits; 0 for a tail."""
        return self.kind.width


class _Body(dict[str, Any]):
    """Names of a class body; ``_`` may be declared any number of times, a field once."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.get(name), FieldKind):
            raise TypeError(f"{self._owner}: field name {name} is taken")
        super().__setitem__(f"_{len(self)}" if isinstance(value, Reserved) else name, value)


def _placed(declared: Iterable[tuple[str, FieldKind]]) -> Iterator[Field]:
    """Yield the named fields with their bit offsets; reserved bits only advance the offset."""
    offset = 0
    for attribute, kind in declared:
        if not isinstance(kind, Reserved):
            yield Field(_name(attribute), offset, kind)
        offset += kind.width


def _part(name: str, kind: FieldKind) -> Any:
    """Return a field of construct, without a name for reserved bits."""
    return kind.construct if isinstance(kind, Reserved) else _name(name) / kind.construct


def _name(attribute: str) -> str:
    """Return the field's name; a keyword of Python has an underscore behind it in the class."""
    bare = attribute.removesuffix("_")
    return bare if iskeyword(bare) else attribute


class PrmType(type):
    """Type of structures: what the declaration says, and what makes views.

    ``c_name`` is the driver's name of a structure that the driver declares in C (``mlx5_eqe``).
    ``abstract`` is a common beginning of structures that is none itself. Raises TypeError for parts
    of bytes, two fields of one name, and a name that views use.
    """

    declared: tuple[tuple[str, FieldKind], ...]
    """Kinds by attribute, in order; each reserved range has a name of its own."""
    fields: tuple[Field, ...]
    """Named fields in order."""
    construct: Any
    """Structure in construct, over bits."""
    bit_length: int
    """Number of bits of the fixed part."""
    c_name: str | None
    """Name of the driver's structure in C; None for one of mlx5_ifc.h."""
    abstract: bool
    """Whether the class is the common beginning of structures only."""
    _size: int

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **_: Any) -> _Body:
        """Return the dict of a class body."""
        return _Body(name)

    def __new__(
        metacls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        c_name: str | None = None,
        abstract: bool = False,
    ) -> PrmType:
        """Return the class, with a property in the place of each kind."""
        own = [(key, value) for key, value in body.items() if isinstance(value, FieldKind)]
        declared = (*getattr(bases[0], "declared", ()), *own)
        length = sum(kind.width for _, kind in declared)
        if length % 8:
            raise TypeError(f"{name}: {length} bits are not whole bytes")
        members = {key: value for key, value in body.items() if not isinstance(value, FieldKind)}
        fields = tuple(_placed(declared))
        taken = set(members).union(*(vars(base) for base in bases[0].__mro__[:-1]))
        attributes = [key for key, kind in own if not isinstance(kind, Reserved)]
        for attribute, field in zip(attributes, fields[len(fields) - len(attributes) :]):
            if field.name in taken:
                raise TypeError(f"{name}: field name {field.name} is taken")
            accessors = property(*field.kind.accessors(field.offset, length))
            members[attribute] = members[field.name] = accessors
        members |= {
            "__slots__": (), "declared": declared, "fields": fields, "bit_length": length,
            "_size": length // 8, "c_name": c_name, "abstract": abstract,
            "construct": c.Struct(*(_part(key, kind) for key, kind in declared)),
        }  # fmt: skip
        return super().__new__(metacls, name, bases, members)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, body)

    @property
    def size(cls) -> int:
        """Number of bytes of the fixed part; a structure may have a field of this name."""
        return cls._size


class Prm(Structure, metaclass=PrmType, abstract=True):
    """Structure of the PRM; an instance is a view, with one property for each field."""

    @classmethod
    def parse(cls, data: bytes) -> Any:
        """Decode with construct into a Container of every named field.

        Bytes behind the structure, or behind the last whole item of its tail, are ignored. Raises
        construct's StreamError for fewer bytes than the fixed part.
        """
        whole = bytes(data)
        if step := _tail_step(cls):
            # Bit streams of construct must not end inside an item.
            whole = whole[: len(whole) - (len(whole) - cls._size) % step]
        return c.Bitwise(cls.construct).parse(whole)

    @classmethod
    def build(cls, obj: Mapping[str, object]) -> bytes:
        """Encode with construct, reserved bits as 0. Raises KeyError for a missing field."""
        built: bytes = c.Bitwise(cls.construct).build(obj)
        return built

    @classmethod
    def view(cls, buf: Any, offset: int = 0) -> Self:
        """Lay the structure over ``buf`` itself at ``offset`` bytes; fields become attributes.

        Raises ValueError when the buffer is shorter than the fixed part. Assignments need a
        writable buffer and raise ValueError for a value that does not fit.
        """
        if len(buf) - offset < cls._size:
            raise ValueError(f"{cls.__name__}: {len(buf) - offset} bytes, wants {cls._size}")
        view = cls.__new__(cls)
        view.buf = buf
        view.base = offset
        return view

    @classmethod
    def new(cls, extra: int = 0, **values: Any) -> Self:
        """Return a view over a new zeroed buffer, with ``values`` as fields.

        ``extra`` bytes follow the fixed fields, for a tail. Raises as :meth:`Prm.assign` does.
        """
        view = cls(bytearray(cls._size + extra), 0)
        view.assign(values)
        return view

    @classmethod
    def named_size(cls, besides: str = "") -> int:
        """Return the bytes up to the end of the last named field's word, or up to a tail.

        The bytes behind it are reserved. The field ``besides`` (``structure.field`` for a nested
        one), and all bytes behind it, are not counted.
        """
        return -(-_named_bits(cls, besides) // _WORD_BITS) * _WORD_BITS // 8

    @classmethod
    def has_tail(cls) -> bool:
        """Whether the structure, or its last nested structure, ends with a list of any length."""
        return _tail_step(cls) > 0

    @classmethod
    def together(cls, *names: str) -> Callable[[Any], int]:
        """Return a function that reads neighbouring fields of a view as one number.

        The first field has the highest bits. Raises TypeError for fields that are not neighbours in
        this order, KeyError for an unknown name.
        """
        joined = cls._joined(names)
        return integer(joined.offset, joined.width, cls.bit_length)[0]

    @classmethod
    def place(cls, *names: str) -> tuple[int, int]:
        """Return shift and mask of neighbouring fields in the structure as one number.

        For a structure that is a field of a message. Raises as :meth:`together`.
        """
        joined = cls._joined(names)
        return cls.bit_length - joined.offset - joined.width, (1 << joined.width) - 1

    @classmethod
    def packer(cls, *names: str, upto: int | None = None) -> struct.Struct:
        """Return a ``struct.Struct`` over the named fields, in their order; the others are padding.

        Neighbours that are joined by ``+`` are one number, as for :meth:`together`. Packing writes
        zeros to the padding, unpacking skips it. Raises TypeError for a field that is not whole
        bytes, and KeyError for an unknown name. ``upto`` is the size in bytes; the default is the
        whole structure.
        """
        fields = [cls._joined(name.split("+")) for name in names]
        return struct.Struct(_format(fields, cls._size if upto is None else upto))

    @classmethod
    def _joined(cls, names: Sequence[str]) -> Field:
        """Return the field of this name, or several as one number; raise as :meth:`together`."""
        fields = cls._named(names)
        if len(fields) == 1:
            return fields[0]
        for one, other in pairwise(fields):
            if one.offset + one.width != other.offset:
                raise TypeError(f"{cls.__name__}: {other.name} does not follow {one.name}")
        width = sum(field.width for field in fields)
        return Field("+".join(names), fields[0].offset, bits(width))

    @classmethod
    def _named(cls, names: Iterable[str]) -> list[Field]:
        """Return the fields of these names; raise KeyError for an unknown one."""
        by_name = {field.name: field for field in cls.fields}
        return [by_name[name] for name in names]

    def __bytes__(self) -> bytes:
        return bytes(self.buf[self.base : self.base + type(self)._size])

    def copy(self) -> Self:
        """Return a view over a copy of the fixed part, which is writable."""
        return type(self)(bytearray(bytes(self)))

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set the named fields in the buffer, nested structures from mappings; others stay.

        Raises AttributeError for an unknown name, ValueError or TypeError for a value that does not
        fit. Fields before that one are already set.
        """
        for name, value in values.items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Return every field by name, nested structures as nested dicts: for traces and tests."""
        return {field.name: _plain(getattr(self, field.name)) for field in type(self).fields}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.as_dict()}>"


def _named_bits(prm: type[Prm], besides: str = "") -> int:
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
        kind = field.kind
        width = _named_bits(kind.prm, within) if isinstance(kind, Nested) else field.width
        end = max(end, field.offset + width)
        if is_it:
            break
    return end


def _tail_step(prm: type[Prm]) -> int:
    """Return the bytes of an item of the tail of a structure, or of its last structure.

    Returns 0 for a structure without a tail.
    """
    last = prm.fields[-1].kind if prm.fields else None
    if isinstance(last, Nested):
        return _tail_step(last.prm)
    return last.stride if isinstance(last, Items) and last.count is None else 0


def _format(fields: Iterable[Field], end: int) -> str:
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
        if isinstance(field.kind, Number):
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
    if isinstance(value, Prm):
        return value.as_dict()
    if isinstance(value, ArrayView):
        return [_plain(item) for item in value]
    return value
