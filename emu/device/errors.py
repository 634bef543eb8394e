"""Command refusals: a status and a reason.

A handler raises :class:`CmdError`; ``emu.device.cmdif`` catches it centrally and writes status and
syndrome into the output. Real firmware's syndromes are opaque numbers. Here a syndrome is the first
24 bits of a CRC over the reason's text. ``mlx5emu explain 0x1b2c3d`` maps a number from dmesg back
to that text.
"""

from __future__ import annotations

import zlib
from functools import cache

from layouts.enums.cmd import Status


@cache
def syndrome_of(reason: str) -> int:
    """Return the 24-bit syndrome of a reason; never 0, which means "no syndrome"."""
    return zlib.crc32(reason.encode()) >> 8 or 1


class CmdError(Exception):
    """Refuses a command, whose handler has changed nothing.

    ``reason`` is fixed text and determines the syndrome; ``detail`` carries the numbers of this
    case, for the log and the trace only.
    """

    def __init__(self, status: Status, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.status = status
        self.reason = reason
        self.detail = detail

    @property
    def syndrome(self) -> int:
        """Value of the output's syndrome field."""
        return syndrome_of(self.reason)


class BadParamError(CmdError):
    """Refuses a command with BAD_PARAM_ERR, the status of most refusals."""

    def __init__(self, reason: str, detail: str = "") -> None:
        CmdError.__init__(self, Status.BAD_PARAM_ERR, reason, detail)
