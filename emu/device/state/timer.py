"""The adapter's free-running timer, which time-stamps CQEs and drives the driver's clock.

CQEs of some queues have the adapter's real-time clock instead.

Source: mlx5_ifc.h: initial_seg.internal_timer_h, cmd_hca_cap.device_frequency_khz;
core/lib/clock.c: mlx5_timecounter_init.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Final

from emu.device.adapter.real_time import RealTime
from emu.device.ports import Clock

_KHZ_OF_NS: Final = 1_000_000


class FreeRunningTimer:
    """The timer of one function: the number of its periods since the clock's zero."""

    __slots__ = ("by", "now_ns", "real_time", "times")

    def __init__(self, clock: Clock, khz: int, real_time: RealTime) -> None:
        """Create a timer of ``khz`` (device_frequency_khz): ``times`` periods in ``by`` ns.

        ``real_time`` is the adapter's clock.
        """
        self.real_time = real_time
        self.now_ns: Callable[[], int] = clock.now_ns
        common = gcd(khz, _KHZ_OF_NS)
        self.times = khz // common
        self.by = _KHZ_OF_NS // common

    def read(self) -> int:
        """Return the number of periods, not truncated to 64 bits."""
        return self.now_ns() * self.times // self.by

    def real_stamp(self) -> int:
        """Return the real-time clock as a time stamp."""
        return self.real_time.stamp(self.now_ns())
