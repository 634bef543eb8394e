"""Failures of the emulator itself while the fuzzer looks for those of the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_INTERNAL: Final = "internal error"
"""Words of every line that the server logs with the traceback of an exception it did not expect."""
_MAX_LOG_BYTES: Final = 16 << 20


def internal_errors(log: Path | None) -> list[str]:
    """Return the lines about exceptions in a device server's log; none where there is no log."""
    if log is None:
        return []
    try:
        with log.open("rb") as file:
            text = file.read(_MAX_LOG_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if _INTERNAL in line]
