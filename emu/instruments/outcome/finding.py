"""A finding: one failure, under a title that is equal in every run.

Titles are those of syzkaller (pkg/report) where it has one, so they can be searched on its
dashboard. A title names the failure and the function, and has no addresses, offsets, numbers of
processes and processors, and no suffixes of the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from emu.host.printable import one_line

LONGEST_TITLE = 160
LONGEST_LINE = 240
MAX_LINES = 60
"""Limit of the report lines that a finding keeps."""

UNKNOWN = "unknown function"

_DECORATION = re.compile(r"\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias|clone)(?:\.\d+)*")
_ADDRESS = re.compile(r"\b(?:0x)?[0-9a-f]{8,16}\b|\b0x[0-9a-f]+\b")
_PCI = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?\b")
_OFFSET = re.compile(r"\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?")


class Kind(StrEnum):
    """Kinds of failures, worst first."""

    PANIC = "panic"
    OOPS = "oops"
    KASAN = "kasan"
    UBSAN = "ubsan"
    LOCKDEP = "lockdep"
    HANG = "hang"
    REFCOUNT = "refcount"
    WARNING = "warning"
    LEAK = "leak"
    CORRUPTION = "corrupted data"
    LOST = "guest lost"
    TIMEOUT = "timeout"
    DRIVER = "driver"
    SERVER = "device server"


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure; all texts are bounded and printable.

    ``function`` is the kernel function in the title, or empty. ``lines`` are the log's lines about
    the failure, without times.
    """

    kind: Kind
    title: str
    function: str = ""
    lines: tuple[str, ...] = ()


def new_finding(kind: Kind, title: str, function: str = "", lines: Iterable[str] = ()) -> Finding:
    """Return a finding with its texts cut and made printable, as a guest may have written them.

    At most 60 lines of 240 characters are kept, and 160 characters of the title.
    """
    shown = tuple(one_line(line, LONGEST_LINE) for line, _ in zip(lines, range(MAX_LINES)))
    name = one_line(function, LONGEST_TITLE)
    return Finding(kind, one_line(title.strip(), LONGEST_TITLE), name, shown)


def plain_function(name: str) -> str:
    """Return a function's name without the compiler's suffixes (``.isra.0``, ``.cold``)."""
    return _DECORATION.sub("", name)


def plain_text(text: str) -> str:
    """Replace addresses, offsets and numbers, which differ between runs, in a message."""
    text = _PCI.sub("PCI", _OFFSET.sub("", text))
    return _NUMBER.sub("N", _ADDRESS.sub("ADDR", text))
