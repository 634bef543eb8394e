"""What a comparison of our structures with a kernel's says: differences, and excuses for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum


class What(StrEnum):
    """In what our declaration and the driver's differ."""

    STRUCTURE = "missing structure"
    FIELD = "missing field"
    OFFSET = "offset"
    WIDTH = "width"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference; ``ours`` and ``theirs`` are in bits, ``theirs`` None where it is missing.

    Of a missing structure or a different size ``ours`` is the size, of a missing field its offset.
    """

    what: What
    name: str
    """``structure`` or ``structure.field``, with one part more for each structure inside."""
    ours: int
    theirs: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """Differences that some kernels are known to have, and why that is right."""

    releases: tuple[str, ...]
    """Leading numbers of the releases: "6.1" is 6.1.0-50-amd64 and not 6.12. None: all kernels."""
    what: What
    reason: str
    names: tuple[str, ...]
    """As in :attr:`Difference.name`."""

    def concerns(self, release: str) -> bool:
        """Whether ``release``, as ``uname -r`` says it, is one of these."""
        starts = (re.match(rf"{re.escape(start)}(?!\d)", release) for start in self.releases)
        return not self.releases or any(starts)


@dataclass(slots=True)
class BtfReport:
    """What the check of all structures against one kernel found."""

    release: str
    structures: int
    """How many were looked for."""
    differences: list[Difference] = field(default_factory=list)
    """Those that nothing explains."""
    explained: list[tuple[Difference, str]] = field(default_factory=list)
    """The known ones, each with its reason."""
    unused: list[tuple[What, str]] = field(default_factory=list)
    """Known differences that this kernel does not have: wrong, or to be taken out."""
    unmodelled: list[str] = field(default_factory=list)
    """Named fields of theirs in ranges that we leave reserved; no difference."""

    @property
    def holds(self) -> bool:
        """True when every difference is explained and every explanation is needed."""
        return not self.differences and not self.unused
