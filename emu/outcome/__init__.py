"""What became of a guest: findings, from its kernel's log and from how its run has ended."""

from emu.outcome.ending import EX_DATAERR, of_error, of_status, together
from emu.outcome.finding import Finding, Kind
from emu.outcome.kernel_log import findings
from emu.outcome.slab import growth

__all__ = [
    "EX_DATAERR",
    "Finding",
    "Kind",
    "findings",
    "growth",
    "of_error",
    "of_status",
    "together",
]
