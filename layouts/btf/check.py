"""Compares our structures with those that a driver's own binaries declare.

mlx5_ifc.h declares a PRM structure as C, with one byte for each bit: ``u8 log_cq_size[0x5]`` is a
field of five bits, and a byte offset of the compiler is a bit offset in the PRM. BTF keeps that.
Structures that the driver declares in plain C (``Prm.c_name``) are compared bit by bit.

Every named field of ours must exist in theirs with the same name, offset and width, and both must
have the same size. Only offset and width are compared of a union of theirs and of a field that we
declare as octets. The same applies to a word of theirs that we split into finer fields. A range
that we leave reserved may have a name there; :attr:`layouts.btf.report.BtfReport.unmodelled` lists
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from layouts.btf.known import Known
from layouts.btf.reader import Btf, BtfKind
from layouts.btf.report import BtfReport, Difference, What
from layouts.fields import Items, Nested
from layouts.prm import Field, Prm

_IFC = "mlx5_ifc_"
"""Prefix of mlx5_ifc.h's structures, in which a byte means a bit."""

_RESERVED = re.compile(r"reserved|rsvd")


@dataclass(frozen=True, slots=True)
class _FieldPlace:
    offset: int
    width: int
    type_id: int


class _Theirs:
    """Structure of the driver's, with offsets and widths in PRM bits."""

    def __init__(self, btf: Btf, type_id: int, unit: int) -> None:
        self.btf, self.unit = btf, unit
        self.name = btf.name(type_id)
        self.size = btf.size(type_id) * 8 // unit
        self.members = {
            member.name: _FieldPlace(member.offset // unit, member.width // unit, member.type_id)
            for member in btf.members(type_id)
        }

    def inner(self, name: str) -> _Theirs | BtfKind:
        """Return the structure of a member, of an array's items too; of other types only the kind.

        The member must exist (KeyError).
        """
        type_id = self.btf.element(self.members[name].type_id)
        kind = self.btf.kind(type_id)
        return _Theirs(self.btf, type_id, self.unit) if kind is BtfKind.STRUCT else kind


def check(
    ours: Mapping[str, type[Prm]], release: str, btfs: Iterable[Btf], known: Iterable[Known] = ()
) -> BtfReport:
    """Compare all of ``ours`` with the types of the kernel ``release``, and return the report.

    A difference named in ``known`` for this release is listed as explained, with the reason; unused
    entries are listed too. A structure is taken from the first of ``btfs`` that has it. Raises
    :class:`layouts.btf.reader.BtfError` when the types are inconsistent.
    """
    report = BtfReport(release, len(ours))
    excuses = {
        (entry.what, name): entry.reason
        for entry in known
        if entry.concerns(release)
        for name in entry.names
    }
    unused = dict.fromkeys(excuses)
    comparison = _Comparison(ours, tuple(btfs))
    for difference in comparison.differences():
        key = (difference.what, difference.name)
        unused.pop(key, None)
        if key in excuses:
            report.explained.append((difference, excuses[key]))
        else:
            report.differences.append(difference)
    report.unused = list(unused)
    report.unmodelled = comparison.unmodelled
    return report


class _Comparison:
    """Run of the comparison over all structures."""

    def __init__(self, ours: Mapping[str, type[Prm]], btfs: tuple[Btf, ...]) -> None:
        self._ours = ours
        self._btfs = btfs
        self._splits: set[str] = set()
        self.unmodelled: list[str] = []

    def differences(self) -> Iterator[Difference]:
        """Yield all differences, and collect ``unmodelled``.

        A structure that is in none of the kernel's types is a difference, unless it only splits
        words of theirs.
        """
        missing = []
        for prm in self._ours.values():
            theirs = self._find(prm)
            if theirs is None:
                missing.append(prm)
            else:
                yield from self._compare(prm, theirs, prm.__name__)
                self.unmodelled += _unmodelled(prm, theirs)
        for prm in missing:
            if prm.__name__ not in self._splits:
                yield Difference(What.STRUCTURE, prm.__name__, prm.bit_length, None)

    def _find(self, prm: type[Prm]) -> _Theirs | None:
        """Return the driver's structure, from the first binary that has it; None without one."""
        name, *path = _counterpart(prm).split(".")
        for btf in self._btfs:
            for type_id in btf.find(name):
                unit = 8 if name.startswith(_IFC) else 1
                return _descend(_Theirs(btf, type_id, unit), path)
        return None

    def _compare(self, prm: type[Prm], theirs: _Theirs, name: str) -> Iterator[Difference]:
        """Yield the differences of a structure's fields and of its size."""
        for ours in prm.fields:
            yield from self._compare_field(ours, theirs, f"{name}.{ours.name}")
        if prm.bit_length != theirs.size:
            yield Difference(What.SIZE, name, prm.bit_length, theirs.size)

    def _compare_field(self, ours: Field, theirs: _Theirs, name: str) -> Iterator[Difference]:
        """Yield the differences of a field: missing, offset, width, and those of its structure.

        Only a field of the same width is compared further.
        """
        member = theirs.members.get(ours.name)
        if member is None:
            yield Difference(What.FIELD, name, ours.offset, None)
            return
        if ours.offset != member.offset:
            yield Difference(What.OFFSET, name, ours.offset, member.offset)
        if ours.width != member.width:
            yield Difference(What.WIDTH, name, ours.width, member.width)
            return
        kind = ours.kind
        inner = kind.item if isinstance(kind, Items) else kind
        if isinstance(inner, Nested):
            yield from self._compare_nested(inner.prm, theirs.inner(ours.name), name)

    def _compare_nested(
        self, prm: type[Prm], theirs: _Theirs | BtfKind, name: str
    ) -> Iterator[Difference]:
        """Yield the differences inside a field that is a structure here.

        None are yielded for a union of theirs, a word that is split here, and a structure that is
        compared under its own name anyway.
        """
        if isinstance(theirs, _Theirs):
            if theirs.name != _counterpart(prm) or prm.__name__ not in self._ours:
                yield from self._compare(prm, theirs, name)
        elif theirs is not BtfKind.UNION and prm.c_name is None:
            self._splits.add(prm.__name__)


def _descend(theirs: _Theirs, path: list[str]) -> _Theirs | None:
    """Return the structure inside a structure, by the names of members; None if one is missing."""
    for step in path:
        inner = theirs.inner(step) if step in theirs.members else None
        if not isinstance(inner, _Theirs):
            return None
        theirs = inner
    return theirs


def _counterpart(prm: type[Prm]) -> str:
    """Return the driver's name for a structure; dots lead to a member's own structure."""
    return prm.c_name or f"{_IFC}{prm.__name__}_bits"


def _unmodelled(prm: type[Prm], theirs: _Theirs) -> Iterator[str]:
    """Yield the driver's named fields in ranges that our structure leaves reserved."""
    modelled = [(ours.offset, ours.offset + ours.width) for ours in prm.fields]
    names = {ours.name for ours in prm.fields}
    for name, member in theirs.members.items():
        end = member.offset + member.width
        overlaps = any(first < end and member.offset < last for first, last in modelled)
        if name not in names and not overlaps and not _RESERVED.match(name):
            yield f"{prm.__name__}.{name}"
