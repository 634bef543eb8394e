"""Why a file that a run writes has ended before the run, and whether that is a mistake.

One that has the size that it may have is what was asked for, and so is a pipe whose reader has
seen enough. One that a full disk or a slow reader has ended looks complete and is not: whoever
writes it says so at the end, with a status.
"""

from __future__ import annotations

import errno
from pathlib import Path


class LimitError(OSError):
    """The file is as long as it may be."""


def complaint(what: str, path: Path, ended_by: OSError | None) -> str:
    """What is to be said of the file at the end; empty when nothing that was wanted is missing."""
    if ended_by is None or isinstance(ended_by, LimitError) or ended_by.errno == errno.EPIPE:
        return ""
    return f"the {what} {path} is not complete: {ended_by.strerror}"
