"""A finding: one thing that went wrong, under a title that is the same in every run.

The titles are those of syzkaller (pkg/report) where it has one, so that a finding can be looked up
on its dashboard: what happened, and in which function. Addresses, offsets, numbers of processes
and processors, and what a compiler appends to a function's name are not in it.
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
"""Lines of a stack that a finding keeps."""

UNKNOWN = "unknown function"

_DECORATION = re.compile(r"\.(?:isra|constprop|part|cold|llvm|lto_priv|localalias|clone)(?:\.\d+)*")
_ADDRESS = re.compile(r"\b(?:0x)?[0-9a-f]{8,16}\b|\b0x[0-9a-f]+\b")
_PCI = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?\b")
_OFFSET = re.compile(r"\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?")


class Kind(StrEnum):
    """What sort of thing went wrong; the worst first."""

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
    """One thing that went wrong; all texts are bounded and printable.

    ``function`` is the kernel's function that the title names, empty when there is none.
    ``lines`` are those of the log that tell of it, without times.
    """

    kind: Kind
    title: str
    function: str = ""
    lines: tuple[str, ...] = ()


def made(kind: Kind, title: str, function: str = "", lines: Iterable[str] = ()) -> Finding:
    """A finding of texts that a guest may have written: they are cut and made printable."""
    shown = tuple(one_line(line, LONGEST_LINE) for line, _ in zip(lines, range(MAX_LINES)))
    name = one_line(function, LONGEST_TITLE)
    return Finding(kind, one_line(title.strip(), LONGEST_TITLE), name, shown)


def plain_function(name: str) -> str:
    """A function's name without what the compiler has appended (``.isra.0``, ``.cold``)."""
    return _DECORATION.sub("", name)


def plain_text(text: str) -> str:
    """A message without what differs from run to run: addresses, offsets, numbers."""
    text = _PCI.sub("PCI", _OFFSET.sub("", text))
    return _NUMBER.sub("N", _ADDRESS.sub("ADDR", text))
