"""Finds internal errors of the emulator during fuzzing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_INTERNAL: Final = "internal error"
"""Text of each line that the server logs with an unexpected exception's traceback."""
_MAX_LOG_BYTES: Final = 16 << 20


def internal_errors(log: Path | None) -> list[str]:
    """Return the lines about exceptions in a device server's log; empty if unreadable.

    Only the first 16 MiB are read.
    """
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            text = file.read(_MAX_LOG_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if _INTERNAL in line]
