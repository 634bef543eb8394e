"""The adapter's free-running timer, which time-stamps CQEs and drives the driver's clock.

Source: mlx5_ifc.h: initial_seg.internal_timer_h, cmd_hca_cap.device_frequency_khz;
core/lib/clock.c: mlx5_timecounter_init.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Final

from emu.device.ports import Clock

_KHZ_OF_NS: Final = 1_000_000


def free_running(clock: Clock, khz: int) -> Callable[[], int]:
    """Return a function that reads the timer: the number of its periods since the clock's zero.

    ``khz`` is the timer's frequency (device_frequency_khz). The value is not truncated to 64 bits.
    """
    now_ns = clock.now_ns
    if khz == _KHZ_OF_NS:
        return now_ns
    common = gcd(khz, _KHZ_OF_NS)
    times, by = khz // common, _KHZ_OF_NS // common
    return lambda: now_ns() * times // by
