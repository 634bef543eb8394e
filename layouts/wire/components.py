"""Component masks of the subnet administrator: the fields of a record that a query selects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from layouts.fields import Items, Nested
from layouts.prm import Field, Prm


class Components:
    """Component mask of a record: the fields that its bits select (IBTA 15.4.4).

    Every field counts, in the record's order, reserved ranges and array items too. A record is
    handled as one big-endian number, so that a whole mask is compared at once.
    """

    def __init__(self, prm: type[Prm]) -> None:
        self.prm = prm
        self.bits: dict[str, int] = {}
        """Mask bits of each field by its name; a structure's fields have its name and a dot before
        theirs, an array has a bit for each item.
        """
        self._selected: list[int] = []
        for name, offset, width in _components(prm, "", 0):
            if name:
                self.bits[name] = self.bits.get(name, 0) | 1 << len(self._selected)
            self._selected.append(((1 << width) - 1) << prm.bit_length - offset - width)

    def mask_of(self, *names: str) -> int:
        """Return the component mask that selects these fields."""
        return sum(self.bits[name] for name in names)

    def record_bits(self, comp_mask: int) -> int:
        """Return the bits of a record that a component mask selects, for a bitwise AND.

        The record counts as one big-endian number. Spare mask bits are ignored.
        """
        selected = 0
        for bit, field_bits in enumerate(self._selected):
            if comp_mask >> bit & 1:
                selected |= field_bits
        return selected


@cache
def components(prm: type[Prm]) -> Components:
    """Return the component mask of a record, computed once for each layout."""
    return Components(prm)


def _components(prm: type[Prm], prefix: str, base: int) -> Iterator[tuple[str, int, int]]:
    """Yield name (empty for reserved bits), offset and width in bits of each component."""
    at = 0
    for field in prm.fields:
        if field.offset > at:
            yield "", base + at, field.offset - at
        yield from _parts(field, prefix + field.name, base + field.offset)
        at = field.offset + field.width
    if at < prm.bit_length:
        yield "", base + at, prm.bit_length - at


def _parts(field: Field, name: str, offset: int) -> Iterator[tuple[str, int, int]]:
    """Yield the components of a field: of a structure all fields, of an array each item."""
    kind = field.kind
    if isinstance(kind, Nested):
        yield from _components(kind.prm, f"{name}.", offset)
        return
    count = kind.count or 0 if isinstance(kind, Items) else 1
    width = field.width // count
    for index in range(count):
        yield name, offset + index * width, width
