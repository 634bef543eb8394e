"""Errors that the user can fix: shown unchanged, without a traceback."""

from __future__ import annotations

from typing import Final

WRONG_USE: Final = 2
"""Exit status for mistakes in what a user wrote: words of a command line, or a file."""


class UserError(Exception):
    """A wrong input, a missing program, a guest that failed; the message is one clear line."""

    status = 1
    """Exit status of the command line."""

    def detail(self) -> str:
        """Return more lines that help to find the cause; empty when there are none."""
        return ""
