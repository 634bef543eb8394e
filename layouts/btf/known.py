"""Differences of certain kernels that are known to be correct."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from layouts.btf.report import What

NO_TYPE = "not in the binaries: the driver has no object of this type, and sizeof leaves no trace"
RESERVED = "6.1 leaves these bits reserved"
USER_SPACE = "rdma-core names these bits; the kernel leaves them reserved and forwards them"


@dataclass(frozen=True, slots=True)
class Known:
    """Differences of certain kernels that are known to be correct, with the reason."""

    releases: tuple[str, ...]
    """Leading numbers of the releases: "6.1" is 6.1.0-50-amd64 and not 6.12. None means all
    kernels.
    """
    what: What
    reason: str
    names: tuple[str, ...]
    """Names in the form of :attr:`layouts.btf.report.Difference.name`."""

    def concerns(self, release: str) -> bool:
        """Return whether ``release`` (``uname -r``) is one of ``releases``, compared by numbers.

        True for every release if ``releases`` is empty.
        """
        starts = (re.match(rf"{re.escape(start)}(?!\d)", release) for start in self.releases)
        return not self.releases or any(starts)


def known(table: Mapping[tuple[str, What], Mapping[str, str]]) -> tuple[Known, ...]:
    """Return the differences of a table by releases and kind, then reason.

    Releases and names are separated by blanks. A word with a colon is the structure of the fields
    behind it.
    """
    return tuple(
        Known(tuple(releases.split()), what, reason, tuple(_names(names)))
        for (releases, what), reasons in table.items()
        for reason, names in reasons.items()
    )


def _names(text: str) -> Iterator[str]:
    prefix = ""
    for word in text.split():
        if word.endswith(":"):
            prefix = word.replace(":", ".")
        else:
            yield prefix + word
