"""Selects the findings that fail a run: ``--fail-on warning``, ``error`` or ``never``."""

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
"""Messages of the driver (Kind.DRIVER) are reported but never fail: injected faults cause them."""


class FailOn(StrEnum):
    """The least severity that is a failure."""

    WARNING = "warning"
    """A WARNING or an error."""
    ERROR = "error"
    """A BUG or worse: oops, sanitizers, lockdep, hangs, leaks."""
    NEVER = "never"


_STALLS = ("INFO: rcu detected stall", "BUG: soft lockup", "BUG: workqueue lockup")


def failures(
    reported: Iterable[Finding], fail_on: FailOn, *, is_emulated: bool
) -> tuple[Finding, ...]:
    """Return the findings that fail a run at ``fail_on``; none for NEVER, no ``Kind.DRIVER``.

    If ``is_emulated``, stalls (RCU, soft lockup, workqueue) do not fail, because a busy host can
    stall the guest's processors.
    """
    kinds = {FailOn.WARNING: _WARNINGS, FailOn.ERROR: _ERRORS}.get(fail_on, frozenset())
    return tuple(
        one
        for one in reported
        if one.kind in kinds and not (is_emulated and one.title.startswith(_STALLS))
    )
