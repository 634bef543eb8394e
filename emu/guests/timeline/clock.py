"""Relates a guest's clock to the device's clock, which is the host's monotonic clock.

From time to time the host sends its clock to the program in the guest, which writes it into the
kernel's log (:meth:`emu.guests.Guest.mark_clock`). The log then has both times of one moment. The
transfer into the guest delays a mark and never advances it: of marks close together the earliest is
the most accurate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emu.device.trace.event import TraceEvent
from emu.guests.errors import LabError

_MARK = re.compile(r"mlx5emu: clock (\d{1,19})")
_CLOSE_NS = 5_000_000_000
_MAX_DRIFT = 0.01
"""Maximum drift of an emulated processor's clock; a mark with more was delayed."""


@dataclass(frozen=True)
class Mark:
    """One moment by both clocks, in nanoseconds."""

    guest_ns: int
    host_ns: int

    @property
    def offset_ns(self) -> int:
        """Lead of the guest's clock in nanoseconds."""
        return self.guest_ns - self.host_ns


def mark_of(event: TraceEvent) -> Mark | None:
    """Return the clock mark in a kernel log's line; None for every other line."""
    match = _MARK.fullmatch(str(event.fields.get("text")))
    return Mark(event.t_ns, int(match[1])) if match is not None else None


class GuestClock:
    """Converts the guest's time to the host's and back. Raises :class:`LabError` without a mark."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        if not marks:
            raise LabError(
                "the guest's log has no clock mark: its times cannot be converted to the device's"
            )
        first, last = _best(marks, marks[0]), _best(marks, marks[-1])
        span = last.host_ns - first.host_ns
        drift = (last.offset_ns - first.offset_ns) / span if span > _CLOSE_NS else 0.0
        self._mark = last
        self._drift = drift if abs(drift) < _MAX_DRIFT else 0.0

    @classmethod
    def of_log(cls, events: Iterable[TraceEvent]) -> GuestClock:
        """Return the clock of a kernel's log."""
        return cls([mark for event in events if (mark := mark_of(event)) is not None])

    def host_ns(self, guest_ns: int) -> int:
        """Return the host's time at a guest's time."""
        passed = guest_ns - self._mark.guest_ns
        return self._mark.host_ns + round(passed / (1 + self._drift))

    def guest_ns(self, host_ns: int) -> int:
        """Return the guest's time at a host's time."""
        passed = host_ns - self._mark.host_ns
        return self._mark.guest_ns + round(passed * (1 + self._drift))


def _best(marks: Sequence[Mark], about: Mark) -> Mark:
    """Return the least delayed mark of those close to ``about``."""
    close = (mark for mark in marks if abs(mark.guest_ns - about.guest_ns) < _CLOSE_NS)
    return min(close, key=lambda mark: mark.offset_ns)
