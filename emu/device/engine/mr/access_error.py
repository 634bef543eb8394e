"""Errors of an access to memory by key, and how much one access may move (IBTA 10.6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from emu.device.engine.events.error_syndromes import Cause


class Violation(IntEnum):
    """Reasons to refuse an access, in the order of the checks."""

    NO_KEY = 1
    FREE = 2
    DOMAIN = 3
    RIGHTS = 4
    BOUNDS = 5
    TRANSLATION = 6
    DEPTH = 7
    TOO_FRAGMENTED = 8
    """The access is too long or scattered for one call: request less at a time."""
    ABSENT_PAGE = 9
    """The key is valid, but a page is absent: wait for the driver if possible."""


_CAUSES: Final[Mapping[Violation, Cause]] = {
    Violation.NO_KEY: Cause.KEY,
    Violation.FREE: Cause.KEY,
    Violation.DOMAIN: Cause.DOMAIN,
    Violation.RIGHTS: Cause.RIGHTS,
    Violation.BOUNDS: Cause.BOUNDS,
}

TOO_FRAGMENTED: Final = Violation.TOO_FRAGMENTED
ABSENT_PAGE: Final = Violation.ABSENT_PAGE


class AccessError(Exception):
    """Access that a key does not allow, or not now; nothing has been read or written.

    ``limit``, for TOO_FRAGMENTED, is the number of bytes to request at a time.

    For ABSENT_PAGE ``key`` and ``va`` name the page where the translation ended, which may be in a
    key below the requested one; ``length`` is the rest of the range in that key. For keys below an
    implicit key, ``key`` is the implicit key: its driver frees the keys below it at any time and
    then does not know them any more (hw/odp.c).
    """

    def __init__(
        self, violation: Violation, key: int, va: int, length: int, limit: int = 0
    ) -> None:
        super().__init__(f"key {key:#x}, {va:#x}+{length:#x}: {violation.name.lower()}")
        self.violation = violation
        self.cause = _CAUSES.get(violation, Cause.MEMORY)
        self.key = key
        self.va = va
        self.length = length
        self.limit = limit


MAX_BYTES = 4 << 20
"""Maximum number of bytes that are translated and moved in one call."""

PACKET_BYTES: Final = 4096 + 64
"""A packet with its headers."""

SEGMENT_BYTES: Final = 256
"""Number of bytes that one call always translates, however scattered.

A range too scattered for one call is moved in segments of this size.
"""
