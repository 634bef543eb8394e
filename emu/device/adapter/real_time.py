"""The real-time clock of an adapter: the time of day as its driver sets and corrects it.

It runs with the free-running counter, faster or slower by what the driver has measured (PTP). All
functions of the adapter read it; it is 0 when the adapter gets power.

Source: PRM "MTUTC"; core/lib/clock.c: mlx5_ptp_settime_real_time, mlx5_ptp_freq_adj_real_time.
"""

from __future__ import annotations

from typing import Final

SECOND_NS: Final = 1_000_000_000
_SCALED: Final = 1_000_000 << 16
"""Parts of a second in which frequencies are corrected: millionths, 16 bits behind the point."""


class RealTime:
    """A time of day over a counter of nanoseconds."""

    __slots__ = ("_ns", "_scaled_ppm", "_since_ns")

    def __init__(self) -> None:
        self._since_ns = 0
        """The counter when it was last set or corrected."""
        self._ns = 0
        """What it was then."""
        self._scaled_ppm = 0

    def at(self, counter_ns: int) -> int:
        """Nanoseconds since 1970 when the counter is ``counter_ns``."""
        passed = counter_ns - self._since_ns
        return self._ns + passed + passed * self._scaled_ppm // _SCALED

    def stamp(self, counter_ns: int) -> int:
        """The same in the form of time stamps: seconds above, nanoseconds in the lower 32 bits."""
        seconds, rest = divmod(self.at(counter_ns), SECOND_NS)
        return seconds << 32 | rest

    def until(self, time_ns: int, counter_ns: int) -> int:
        """How far the counter gets until it is ``time_ns``; 0 or less when that is past."""
        left = time_ns - self.at(counter_ns)
        return left * _SCALED // (_SCALED + self._scaled_ppm)

    def set(self, time_ns: int, counter_ns: int) -> None:
        """It is ``time_ns`` now."""
        self._since_ns, self._ns = counter_ns, time_ns

    def adjust(self, delta_ns: int, counter_ns: int) -> None:
        """Turn it forward, or back."""
        self.set(max(self.at(counter_ns) + delta_ns, 0), counter_ns)

    def correct(self, scaled_ppm: int, counter_ns: int) -> None:
        """From now on it is faster by so many ``1 / (1000000 << 16)``; slower if negative."""
        self.set(self.at(counter_ns), counter_ns)
        self._scaled_ppm = scaled_ppm


def from_stamp(stamp: int) -> int:
    """The nanoseconds of a time stamp."""
    return (stamp >> 32) * SECOND_NS + (stamp & 0xFFFFFFFF)
