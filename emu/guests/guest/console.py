"""Reads a guest's console log."""

from __future__ import annotations

import os
import re
from pathlib import Path

_PANIC = "Kernel panic - not syncing: "
_NO_BOOT = "mlx5emu: the boot failed: "
"""Begins the line with which init.sh and begin.sh power the guest off."""
_TROUBLE = re.compile(
    r"BUG: |Oops: |general protection fault|kernel BUG at |Kernel panic"
    r"|Unable to handle kernel |Internal error: |Oops \[#"  # other processors than x86
)
_TAIL = 20  # lines to show
_TROUBLE_TAIL = 60  # lines to show after a panic or an oops


_MAX_READ = 64 << 20
"""Maximum bytes read from the end of a log: a guest can write for days."""


def read(log: Path) -> str:
    """Return the text of a log, or its last 64 MiB; empty if the file is absent or unreadable."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _MAX_READ, 0))
            return file.read(_MAX_READ).decode(errors="replace").replace("\r\n", "\n")
    except OSError:
        return ""


def tail(text: str) -> str:
    """Return the last 20 lines; after a recent panic or oops, 60 lines from its first line."""
    lines = text.splitlines()
    for number, line in enumerate(lines[-2 * _TROUBLE_TAIL :]):
        if _TROUBLE.search(line):
            return "\n".join(lines[-2 * _TROUBLE_TAIL :][number:][:_TROUBLE_TAIL])
    return "\n".join(lines[-_TAIL:])


def panic_reason(text: str) -> str | None:
    """Return the reason of the last kernel panic that ``text`` reports; None without one."""
    return _last_after(_PANIC, text)


def why_off(text: str, otherwise: str) -> str:
    """Return why a guest has powered off: its init failed, else the sentence ``otherwise``."""
    failed = _last_after(_NO_BOOT, text)
    return otherwise if failed is None else f"the guest failed to boot: {failed}"


def _last_after(begin: str, text: str) -> str | None:
    for line in reversed(text.splitlines()):
        _, mark, reason = line.partition(begin)
        if mark:
            return reason.strip()
    return None
