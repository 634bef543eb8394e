"""Merges the kernel's events into the device's: one trace, by the host's clock."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator

from emu.device.trace.event import TraceEvent
from emu.guests.timeline.clock import GuestClock, mark_of


def merged(
    device: Iterable[TraceEvent], kernel: Iterable[TraceEvent], clock: GuestClock
) -> Iterator[TraceEvent]:
    """Yield all events in the order of time; leave out the marks of the clock.

    ``kernel`` has the guest's time and is sorted here; ``device`` is in the order of time already.
    """
    translated = sorted(
        (
            dataclasses.replace(event, t_ns=clock.host_ns(event.t_ns))
            for event in kernel
            if mark_of(event) is None
        ),
        key=_time,
    )
    return heapq.merge(device, translated, key=_time)


def _time(event: TraceEvent) -> int:
    return event.t_ns
