"""BTF, the type information inside a kernel binary: structures by name, with their members.

The format is the kernel's Documentation/bpf/btf.rst: a header, a section of type records and a
section of strings. The records are numbered from 1 in file order (0 is void). A module's BTF is
*split*: its numbers and string offsets continue those of the vmlinux of its build. Therefore a
module can be read only over that base.

The bytes are not trusted. Any error in them raises :class:`BtfError`; chains of types, nesting and
the number of members are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

_MAGIC = 0xEB9F
_VERSION = 1
_MIN_HEADER = 24
_MAX_DEPTH = 32
"""Maximum length of a chain of types and depth of nesting: the kernel's own bound
(MAX_RESOLVE_DEPTH).
"""
_MAX_MEMBERS = 0xFFFF
"""Maximum number of members of one structure, anonymous members included; BTF bounds each of them
by the same number.
"""
_MAX_NAME = 512
"""Maximum size of a name in bytes: the kernel's own bound (KSYM_NAME_LEN)."""
_POINTER_SIZE = 8
"""Size of a pointer in bytes, which BTF does not record; the driver's binaries are 64-bit."""


class BtfError(ValueError):
    """Raised when the bytes are not BTF, or a type in them is inconsistent."""


class BtfKind(IntEnum):
    """All kinds of BTF_KIND_*: even a record that is skipped must be measured."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


COMPOSITE = frozenset({BtfKind.STRUCT, BtfKind.UNION})
_ALIAS = frozenset(
    {BtfKind.TYPEDEF, BtfKind.VOLATILE, BtfKind.CONST, BtfKind.RESTRICT, BtfKind.TYPE_TAG}
)
_SIZED = COMPOSITE | {BtfKind.INT, BtfKind.ENUM, BtfKind.FLOAT, BtfKind.ENUM64}
_FIXED_TAIL = {BtfKind.INT: 4, BtfKind.ARRAY: 12, BtfKind.VAR: 4, BtfKind.DECL_TAG: 4}
_EACH_TAIL = {
    BtfKind.STRUCT: 12,
    BtfKind.UNION: 12,
    BtfKind.ENUM: 8,
    BtfKind.FUNC_PROTO: 8,
    BtfKind.DATASEC: 12,
    BtfKind.ENUM64: 12,
}


@dataclass(frozen=True, slots=True)
class TypeRecord:
    """Record (struct btf_type), and the offset of its tail in its type section."""

    kind: BtfKind
    name_off: int
    vlen: int
    kind_flag: bool
    size_or_type: int
    types: bytes
    tail: int


@dataclass(frozen=True, slots=True)
class Member:
    """Named member of a structure or union; ``offset`` and ``width`` are in bits."""

    name: str
    offset: int
    width: int
    type_id: int
    """Type of the member, without typedefs and qualifiers."""


class Btf:
    """Types of one binary, over those of ``base`` if it is a module."""

    def __init__(self, data: bytes, base: Btf | None = None) -> None:
        """Index ``data``, the contents of a ``.BTF`` section. Raises :class:`BtfError`."""
        self._base = base
        self._order = _byte_order(data)
        if base is not None and base._order != self._order:
            raise BtfError("BTF and its base differ in byte order")
        self._head = Struct(self._order + "III")
        self._types, self._strings = self._sections(data)
        self._first = base.count if base else 1
        self._string_base = base._string_end if base else 0
        self._string_end: int = self._string_base + len(self._strings)
        self._offsets: list[int] = []
        self._named: dict[str, list[int]] = {}
        self._index()

    @property
    def count(self) -> int:
        """Number of types here and in the base; the next binary's numbers continue from it."""
        return self._first + len(self._offsets)

    def find(self, name: str) -> list[int]:
        """Return the numbers of structures and unions of that name; empty if there are none.

        The numbers of this binary come before those of the base.
        """
        inherited = self._base.find(name) if self._base else []
        return self._named.get(name, []) + inherited

    def kind(self, type_id: int) -> BtfKind:
        """Return the kind of a type, without following aliases."""
        return self._record(type_id).kind

    def name(self, type_id: int) -> str:
        """Return a type's own name, empty for an anonymous one."""
        return self._string(self._record(type_id).name_off)

    def resolve(self, type_id: int) -> int:
        """Return the number of the type below typedefs, qualifiers and tags.

        Raises BtfError for a chain of more than _MAX_DEPTH types, and for a type that does not
        exist.
        """
        for _ in range(_MAX_DEPTH):
            record = self._record(type_id)
            if record.kind not in _ALIAS:
                return type_id
            type_id = record.size_or_type
        raise BtfError(f"type {type_id}: more than {_MAX_DEPTH} names for one type")

    def size(self, type_id: int) -> int:
        """Return the size in bytes of a value of the type: 0 for a flexible array.

        Raises BtfError for a type without a size, such as a function.
        """
        count = 1
        for _ in range(_MAX_DEPTH):
            type_id = self.resolve(type_id)
            record = self._record(type_id)
            if record.kind is BtfKind.PTR:
                return count * _POINTER_SIZE
            if record.kind in _SIZED:
                return count * record.size_or_type
            if record.kind is not BtfKind.ARRAY:
                raise BtfError(f"type {type_id}: {record.kind.name} has no size")
            type_id, _index, items = self._head.unpack_from(record.types, record.tail)
            count *= items
        raise BtfError(f"type {type_id}: array in more than {_MAX_DEPTH} dimensions")

    def element(self, type_id: int) -> int:
        """Return the number of an array's element type, through all its dimensions.

        Any other type is returned without its typedefs, qualifiers and tags. Raises BtfError for
        too many dimensions.
        """
        for _ in range(_MAX_DEPTH):
            type_id = self.resolve(type_id)
            record = self._record(type_id)
            if record.kind is not BtfKind.ARRAY:
                return type_id
            type_id = self._head.unpack_from(record.types, record.tail)[0]
        raise BtfError(f"type {type_id}: array in more than {_MAX_DEPTH} dimensions")

    def members(self, type_id: int) -> list[Member]:
        """Return the named members in order, including those of anonymous structures and unions.

        Offsets count from the start of the type ``type_id``. Raises BtfError for a type that is
        neither structure nor union, too deep nesting, or too many members.
        """
        members: list[Member] = []
        for seen, member in enumerate(self._walk(type_id, 0, 0)):
            if seen == _MAX_MEMBERS:
                raise BtfError(f"type {type_id}: more than {_MAX_MEMBERS} members")
            if member.name:
                members.append(member)
        return members

    def _walk(self, type_id: int, start: int, depth: int) -> Iterator[Member]:
        """Yield every member of a structure or union; behind an anonymous one, its own members.

        Raises BtfError for another type and for too deep nesting.
        """
        if depth == _MAX_DEPTH:
            raise BtfError(f"type {type_id}: nested more than {_MAX_DEPTH} deep")
        record = self._record(type_id)
        if record.kind not in COMPOSITE:
            raise BtfError(f"type {type_id}: {record.kind.name} has no members")
        for at in range(record.tail, record.tail + record.vlen * self._head.size, self._head.size):
            name_off, member_type, offset = self._head.unpack_from(record.types, at)
            bitfield, offset = divmod(offset, 1 << 24) if record.kind_flag else (0, offset)
            name, member_type = self._string(name_off), self.resolve(member_type)
            width = bitfield or self.size(member_type) * 8
            yield Member(name, start + offset, width, member_type)
            if not name and self.kind(member_type) in COMPOSITE:
                yield from self._walk(member_type, start + offset, depth + 1)

    def _sections(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the type and the string section; their offsets count from the header's end.

        Raises BtfError for another version and for sections outside the data.
        """
        magic_flags = Struct(self._order + "HBBIIIII")
        _, version, _, length, type_off, type_len, str_off, str_len = magic_flags.unpack_from(data)
        if version != _VERSION:
            raise BtfError(f"BTF version {version}, wants {_VERSION}")
        if length < _MIN_HEADER or length + max(type_off + type_len, str_off + str_len) > len(data):
            raise BtfError("header points outside the BTF data")
        types, strings = length + type_off, length + str_off
        return data[types : types + type_len], data[strings : strings + str_len]

    def _index(self) -> None:
        """Measure every record once; record its offset and the names of the structures.

        Raises BtfError for a record of unknown kind or beyond the section's end.
        """
        at, end = 0, len(self._types)
        while at < end:
            record = self._parse(at)
            self._offsets.append(at)
            if record.kind in COMPOSITE and record.name_off:
                name = self._string(record.name_off)
                self._named.setdefault(name, []).append(self.count - 1)
            at = record.tail + _FIXED_TAIL.get(record.kind, 0)
            at += record.vlen * _EACH_TAIL.get(record.kind, 0)
            if at > end:
                raise BtfError(f"type {self.count - 1}: {record.kind.name} runs over the end")

    def _record(self, type_id: int) -> TypeRecord:
        """Return a type's record, from the base if it is there; VOID for number 0.

        Raises BtfError for a number beyond the last type.
        """
        if type_id == 0:
            return TypeRecord(BtfKind.VOID, 0, 0, False, 0, b"", 0)
        if self._base and type_id < self._first:
            return self._base._record(type_id)
        if not self._first <= type_id < self.count:
            raise BtfError(f"type {type_id} of {self.count}")
        return self._parse(self._offsets[type_id - self._first])

    def _parse(self, at: int) -> TypeRecord:
        """Return the record at an offset. Raises BtfError for an unknown kind or a cut header."""
        if at + self._head.size > len(self._types):
            raise BtfError(f"type {self.count}: header runs over the end")
        name_off, info, size_or_type = self._head.unpack_from(self._types, at)
        kind = info >> 24 & 0x1F
        if not BtfKind.INT <= kind <= BtfKind.ENUM64:
            raise BtfError(f"type {self.count}: unknown kind {kind}")
        tail, flag = at + self._head.size, bool(info >> 31)
        return TypeRecord(
            BtfKind(kind), name_off, info & 0xFFFF, flag, size_or_type, self._types, tail
        )

    def _string(self, offset: int) -> str:
        """Return the string at an offset, here or in the base. Raises BtfError without one."""
        if self._base and offset < self._string_base:
            return self._base._string(offset)
        start = offset - self._string_base
        end = self._strings.find(0, start, start + _MAX_NAME)
        if end < 0:
            raise BtfError(f"no string at {offset} of {self._string_end}")
        return self._strings[start:end].decode("ascii", "replace")


def _byte_order(data: bytes) -> str:
    """Return the struct module's sign for the byte order of the magic.

    Raises BtfError for another magic and for data shorter than a header.
    """
    if len(data) < _MIN_HEADER:
        raise BtfError(f"{len(data)} bytes are too short for a BTF header")
    for name, sign in (("little", "<"), ("big", ">")):
        if int.from_bytes(data[:2], name) == _MAGIC:  # type: ignore[arg-type]
            return sign
    raise BtfError(f"magic {data[:2].hex()} is not BTF's")
