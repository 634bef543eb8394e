"""Which findings make a run fail: ``--fail-on warning``, ``error`` or ``never``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from emu.instruments.outcome.finding import Finding, Kind

_ERRORS = frozenset(
    {
        Kind.PANIC, Kind.OOPS, Kind.KASAN, Kind.UBSAN, Kind.LOCKDEP, Kind.HANG, Kind.REFCOUNT,
        Kind.LEAK, Kind.CORRUPTION, Kind.LOST, Kind.TIMEOUT, Kind.SERVER,
    }
)  # fmt: skip
_WARNINGS = _ERRORS | {Kind.WARNING}
"""A driver's own messages (Kind.DRIVER) are told and never fail: whoever injects faults wants
them."""


class FailOn(StrEnum):
    """From which severity on a finding is a failure."""

    WARNING = "warning"
    """A WARNING, or an error."""
    ERROR = "error"
    """What the kernel calls a BUG, or worse: oops, sanitizers, lockdep, hangs, leaks."""
    NEVER = "never"


_STALLS = ("INFO: rcu detected stall", "BUG: soft lockup", "BUG: workqueue lockup")


def failures(
    reported: Iterable[Finding], fail_on: FailOn, *, is_emulated: bool
) -> tuple[Finding, ...]:
    """The findings that are failures.

    In a guest whose processors are emulated a processor that makes no progress may be a busy host:
    stalls are told there, and do not fail.
    """
    kinds = {FailOn.WARNING: _WARNINGS, FailOn.ERROR: _ERRORS}.get(fail_on, frozenset())
    return tuple(
        one
        for one in reported
        if one.kind in kinds and not (is_emulated and one.title.startswith(_STALLS))
    )
