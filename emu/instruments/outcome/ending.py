"""Findings from the end of a run: an error of the guest, or the status of a command in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from emu.guests.errors import (
    CommandTimeoutError,
    GuestError,
    GuestHungError,
    GuestPanicError,
    GuestStoppedError,
    ServerError,
)
from emu.instruments.outcome.finding import Finding, Kind, new_finding, plain_text

_CRASHES = frozenset({Kind.PANIC, Kind.OOPS, Kind.KASAN, Kind.HANG})
_EXPLAINED = frozenset({Kind.PANIC, Kind.HANG, Kind.LOST, Kind.TIMEOUT})

EX_DATAERR = os.EX_DATAERR
"""65, the exit status of a command that received other data than were sent (sysexits.h)."""

_ENDS: tuple[tuple[type[GuestError], Kind, str], ...] = (
    (GuestPanicError, Kind.PANIC, ""),
    (ServerError, Kind.SERVER, "device server ended"),
    (CommandTimeoutError, Kind.TIMEOUT, "command timed out"),
    (GuestHungError, Kind.HANG, "no response from the guest"),
    (GuestStoppedError, Kind.LOST, "lost connection to the guest"),
)


def of_error(error: GuestError) -> Finding:
    """Return the finding for an error of the guest; ``Kind.LOST`` for an unknown class of errors.

    The log's findings are more precise.
    """
    for kind_of_error, kind, title in _ENDS:
        if isinstance(error, kind_of_error):
            reason = str(error).removeprefix("the guest panicked: ")
            return new_finding(
                kind, title or f"kernel panic: {plain_text(reason)}", "", error.console.splitlines()
            )
    return new_finding(Kind.LOST, "lost connection to the guest", "", error.console.splitlines())


def of_status(status: int) -> Finding | None:
    """Return the finding for a command's exit status; None unless it is :data:`EX_DATAERR`."""
    if status == EX_DATAERR:
        return new_finding(Kind.CORRUPTION, "corrupted data")
    return None


def merged(logged: Sequence[Finding], ends: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge findings of the log and of the run's end, each title once, those of the log first.

    Panics, hangs, timeouts and lost guests at the end are dropped if the log has a crash.
    """
    is_explained = any(one.kind in _CRASHES for one in logged)
    rest = [one for one in ends if not (is_explained and one.kind in _EXPLAINED)]
    by_title: dict[str, Finding] = {}
    for one in (*logged, *rest):
        by_title.setdefault(one.title, one)
    return tuple(by_title.values())
