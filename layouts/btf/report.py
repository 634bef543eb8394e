"""Result of a comparison with a kernel's structures: differences, and known reasons for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class What(StrEnum):
    """Kinds of difference between our declaration and the driver's."""

    STRUCTURE = "missing structure"
    FIELD = "missing field"
    OFFSET = "offset"
    WIDTH = "width"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two declarations; ``ours`` and ``theirs`` are in bits.

    ``theirs`` is None where it is missing. Of a missing structure or a different size ``ours`` is
    the size, of a missing field its offset.
    """

    what: What
    name: str
    """Name ``structure`` or ``structure.field``, with one more component for each nested
    structure.
    """
    ours: int
    theirs: int | None


@dataclass(slots=True)
class BtfReport:
    """Result of the check of all structures against one kernel."""

    release: str
    structures: int
    """Number of structures checked."""
    differences: list[Difference] = field(default_factory=list)
    """Differences without a known reason."""
    explained: list[tuple[Difference, str]] = field(default_factory=list)
    """Known differences, each with its reason."""
    unused: list[tuple[What, str]] = field(default_factory=list)
    """Known differences that this kernel does not have: wrong entries, or obsolete ones."""
    unmodelled: list[str] = field(default_factory=list)
    """Named fields of theirs in ranges that we leave reserved; not counted as differences."""

    @property
    def holds(self) -> bool:
        """Whether every difference is explained and every explanation is needed."""
        return not self.differences and not self.unused
