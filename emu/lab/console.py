"""What a guest's console tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PANIC = "Kernel panic - not syncing: "
_TROUBLE = re.compile(r"BUG: |Oops: |general protection fault|kernel BUG at |Kernel panic")
_TAIL = 20  # lines that are worth showing
_TROUBLE_TAIL = 60  # lines, when the kernel tells its end


_MOST_READ = 64 << 20
"""Bytes of a log that are looked at, from its end: a guest can write for days."""


def read(log: Path) -> str:
    """The text of a log, as far as there is one; of a very long one the end."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _MOST_READ, 0))
            return file.read(_MOST_READ).decode(errors="replace").replace("\r\n", "\n")
    except OSError:
        return ""


def tail(text: str) -> str:
    """The last lines, or more of them when they tell of the kernel's end."""
    lines = text.splitlines()
    for number, line in enumerate(lines[-2 * _TROUBLE_TAIL :]):
        if _TROUBLE.search(line):
            return "\n".join(lines[-2 * _TROUBLE_TAIL :][number:][:_TROUBLE_TAIL])
    return "\n".join(lines[-_TAIL:])


def panic(text: str) -> str | None:
    """Why the kernel panicked the last time; None when it did not."""
    for line in reversed(text.splitlines()):
        _, found, reason = line.partition(_PANIC)
        if found:
            return reason.strip()
    return None
