"""The real-time clock of an adapter: the time of day, set and corrected by the driver.

The clock follows the free-running counter, faster or slower by the driver's frequency correction
(PTP). All functions of the adapter read it; it is 0 at power-on.

Source: PRM "MTUTC"; core/lib/clock.c: mlx5_ptp_settime_real_time, mlx5_ptp_freq_adj_real_time.
"""

from __future__ import annotations

from typing import Final

SECOND_NS: Final = 1_000_000_000
_SCALED: Final = 1_000_000 << 16
"""Units of a frequency correction per unit of frequency: millionths with 16 fractional bits."""


class RealTime:
    """A time of day over a counter of nanoseconds."""

    __slots__ = ("_ns", "_scaled_ppm", "_since_ns")

    def __init__(self) -> None:
        self._since_ns = 0
        """Counter value at the last setting or correction."""
        self._ns = 0
        """Time of day at that counter value."""
        self._scaled_ppm = 0

    def at(self, counter_ns: int) -> int:
        """Return nanoseconds since 1970 at ``counter_ns``."""
        passed = counter_ns - self._since_ns
        return self._ns + passed + passed * self._scaled_ppm // _SCALED

    def stamp(self, counter_ns: int) -> int:
        """Return the time at ``counter_ns`` as a time stamp: seconds above, nanoseconds in the
        lower 32 bits.
        """
        seconds, rest = divmod(self.at(counter_ns), SECOND_NS)
        return seconds << 32 | rest

    def until(self, time_ns: int, counter_ns: int) -> int:
        """Return the counter nanoseconds until the clock reads ``time_ns``; 0 or less if past.

        The present frequency correction is included.
        """
        left = time_ns - self.at(counter_ns)
        return left * _SCALED // (_SCALED + self._scaled_ppm)

    def set(self, time_ns: int, counter_ns: int) -> None:
        """Set the clock to ``time_ns``."""
        self._since_ns, self._ns = counter_ns, time_ns

    def adjust(self, delta_ns: int, counter_ns: int) -> None:
        """Move the clock by ``delta_ns``, forward or back, but not below 0; the frequency stays."""
        self.set(max(self.at(counter_ns) + delta_ns, 0), counter_ns)

    def correct(self, scaled_ppm: int, counter_ns: int) -> None:
        """Set the frequency correction, in units of ``1 / (1000000 << 16)``; negative is slower."""
        self.set(self.at(counter_ns), counter_ns)
        self._scaled_ppm = scaled_ppm


def from_stamp(stamp: int) -> int:
    """Return the nanoseconds of a time stamp."""
    return (stamp >> 32) * SECOND_NS + (stamp & 0xFFFFFFFF)
