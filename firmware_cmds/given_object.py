"""The object that CREATE_GENERAL_OBJECT and MODIFY_GENERAL_OBJECT bring behind their headers."""

from __future__ import annotations

from collections.abc import Iterable


def given_object(words: Iterable[bytes], size: int) -> bytes:
    """The first ``size`` bytes of a command's ``object``; what it does not bring is zeros."""
    return b"".join(words)[:size].ljust(size, b"\0")
