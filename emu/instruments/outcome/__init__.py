"""Judges a guest's run: findings from its kernel's log and from the end of the run."""

from emu.instruments.outcome.ending import EX_DATAERR, merged, of_error, of_status
from emu.instruments.outcome.finding import Finding, Kind
from emu.instruments.outcome.kernel_log import driver_lines, findings, still_blocked
from emu.instruments.outcome.objects import growing_kinds, settled
from emu.instruments.outcome.severity import FailOn, failures
from emu.instruments.outcome.slab import growth

__all__ = [
    "EX_DATAERR",
    "FailOn",
    "Finding",
    "Kind",
    "driver_lines",
    "failures",
    "findings",
    "growing_kinds",
    "growth",
    "merged",
    "of_error",
    "of_status",
    "settled",
    "still_blocked",
]
