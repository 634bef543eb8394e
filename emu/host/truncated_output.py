"""The reason why a file that a run writes ended before the run, and whether that is a mistake.

A file at its size limit is what the user asked for; so is a pipe whose reader has closed it. A file
that a full disk or a slow reader truncated seems complete and is not. Its writer reports that at
the end, with a status.
"""

from __future__ import annotations

import errno
from pathlib import Path


class LimitError(OSError):
    """The file has reached its size limit."""


def complaint(what: str, path: Path, ended_by: OSError | None) -> str:
    """Return the message about a truncated file; "" when the file is complete or was cut as wanted.

    Wanted is an end at the size limit (LimitError) or by a pipe's reader (EPIPE); ``ended_by`` is
    None for a complete file.
    """
    if ended_by is None or isinstance(ended_by, LimitError) or ended_by.errno == errno.EPIPE:
        return ""
    return f"the {what} {path} is not complete: {ended_by.strerror}"
