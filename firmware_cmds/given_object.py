"""Object behind the headers of CREATE_GENERAL_OBJECT and MODIFY_GENERAL_OBJECT."""

from __future__ import annotations

from collections.abc import Iterable


def given_object(words: Iterable[bytes], size: int) -> bytes:
    """Return the first ``size`` bytes of a command's ``object``; missing bytes are zeros."""
    return b"".join(words)[:size].ljust(size, b"\0")
