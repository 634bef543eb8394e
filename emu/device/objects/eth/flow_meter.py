"""Flow meters, which colour packets by their rate.

A meter has two buckets of bytes. A packet is green if the committed bucket (CBS, filled at CIR) has
enough bytes. Otherwise the packet is yellow if the excess bucket (EBS, filled at EIR) has enough,
else red. The flow tables decide the action for each colour. Buckets are full when a meter is set.

Source: mlx5_ifc.h: flow_meter_parameters; core/en/tc/meter.c; RFC 2698, RFC 4115.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from emu.device.objects.domains import Pd
from emu.device.objects.eth.reshape import Step
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from layouts.enums.general_object import MeterColor, MeterMode
from layouts.objects.flow_meter import flow_meter_parameters

LOG_MAX_IN_RANGE: Final = 6
"""log2 of the maximum number of objects that one command makes (log_meter_aso_max_alloc)."""
METERS_PER_OBJECT: Final = 2
PARAMETERS_BYTES: Final = flow_meter_parameters.size

_LOG_UNIT: Final = 31
"""Buckets are filled in units of 2^-31 byte. A rate is mantissa / 2^exponent bytes per nanosecond
(core/en/tc/meter.c: MLX5_CALC_CIR), and no exponent is larger."""
_PACKET_BYTES: Final = 128
"""Bytes charged for each packet when the meter counts packets (core/en/tc/meter.c)."""
_GAP_BYTES: Final = 20
"""Bytes of preamble and inter-packet gap."""


class _Bucket:
    """A token bucket of bytes, limited to its burst."""

    __slots__ = ("_at_ns", "_burst", "_rate", "left")

    def __init__(self, burst: int, mantissa: int, exponent: int) -> None:
        self._burst = burst << _LOG_UNIT
        self._rate = mantissa << _LOG_UNIT - exponent
        self.left = self._burst
        self._at_ns: int | None = None

    def fill(self, now_ns: int) -> int:
        """Add the tokens earned since the last call; return the excess over the burst.

        The first call only starts the time and returns 0.
        """
        before, self._at_ns = self._at_ns, now_ns
        if before is None:
            return 0
        full = self.left + self._rate * max(now_ns - before, 0)
        self.left = min(full, self._burst)
        return full - self.left

    def add(self, units: int) -> None:
        """Add the excess of another bucket, up to the burst."""
        self.left = min(self.left + units, self._burst)

    def take(self, octets: int) -> bool:
        """Take tokens for ``octets`` bytes; return False, and take none, if there are too few."""
        needed = octets << _LOG_UNIT
        if needed > self.left:
            return False
        self.left -= needed
        return True


class FlowMeter:
    """A meter, configured by its parameters."""

    __slots__ = ("_committed", "_excess", "_mode", "_overflows", "_start", "_takes_both", "valid")

    def __init__(self, given: flow_meter_parameters) -> None:
        self.valid = bool(given.valid)
        self._mode = MeterMode(given.meter_mode)
        self._start = MeterColor(given.start_color)
        self._overflows = bool(given.bucket_overflow)
        self._takes_both = bool(given.both_buckets_on_green)
        self._committed = _Bucket(
            given.cbs_mantissa << given.cbs_exponent, given.cir_mantissa, given.cir_exponent
        )
        self._excess = _Bucket(
            given.ebs_mantissa << given.ebs_exponent, given.eir_mantissa, given.eir_exponent
        )

    def color(self, before: MeterColor, octets: int, l2_bytes: int, now_ns: int) -> MeterColor:
        """Return the colour of a packet that had the colour ``before``.

        Charge its bytes to a bucket. ``l2_bytes`` of its octets precede the network header. A meter
        that is not valid leaves colours unchanged and charges none. UNDEFINED stands for the
        meter's start colour. RED charges none.
        """
        if before is MeterColor.UNDEFINED:
            before = self._start
        if not self.valid:
            return before
        over = self._committed.fill(now_ns)
        self._excess.fill(now_ns)
        if self._overflows:
            self._excess.add(over)
        size = self._size(octets, l2_bytes)
        if before is MeterColor.GREEN and self._committed.take(size):
            if self._takes_both:
                self._excess.take(size)
            return MeterColor.GREEN
        if before in (MeterColor.GREEN, MeterColor.YELLOW) and self._excess.take(size):
            return MeterColor.YELLOW
        return MeterColor.RED

    def _size(self, octets: int, l2_bytes: int) -> int:
        """Return the bytes to charge for a packet, by the meter's mode.

        128 for a mode of packets.
        """
        if self._mode is MeterMode.NUM_PACKETS:
            return _PACKET_BYTES
        if self._mode is MeterMode.BYTES_IP_LENGTH:
            return octets - l2_bytes
        return octets + (_GAP_BYTES if self._mode is MeterMode.BYTES_CALC_WITH_L2_IPG else 0)


class FlowMeterAso(Object):
    """A range of objects with two meters each and consecutive numbers from ``first`` on."""

    __slots__ = ("_data", "_meters", "log_range", "pd")
    kind = "flow meter aso"
    numbering = Numbering(lambda made: 1 << made.caps.qos.log_max_num_meter_aso >> LOG_MAX_IN_RANGE)
    BASE_BYTES = 1024
    OBJECT_BYTES: ClassVar[int] = 2048

    def __init__(self, pd: Pd, log_range: int, parameters: bytes) -> None:
        """Create the range; ``parameters`` initialize both meters of each object.

        ``pd`` is the protection domain of the send queues whose WQEs may change them.
        """
        super().__init__()
        self.pd = pd
        self.log_range = log_range
        self._data = [bytearray(parameters) for _ in range(1 << log_range)]
        self._meters: dict[tuple[int, int], FlowMeter] = {}

    @property
    def first(self) -> int:
        """Number of the first object."""
        return self.handle << LOG_MAX_IN_RANGE

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + (self.OBJECT_BYTES << self.log_range)

    def about(self) -> dict[str, object]:
        return {"first": self.first, "objects": len(self._data), "pd": self.pd.handle}

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)

    def has(self, number: int) -> bool:
        """Return whether an object of the range has this number."""
        return 0 <= number - self.first < len(self._data)

    def data(self, number: int) -> bytes:
        """Return the parameters of an object's meters."""
        return bytes(self._data[number - self.first])

    def write(self, number: int, data: bytes) -> None:
        """Write the parameters of both meters of an object, whose number must be in the range.

        A meter restarts, with full buckets, only when its parameters change.
        """
        index, old = number - self.first, self._data[number - self.first]
        for place in range(METERS_PER_OBJECT):
            first, end = place * PARAMETERS_BYTES, (place + 1) * PARAMETERS_BYTES
            if old[first:end] != data[first:end]:
                self._meters.pop((index, place), None)
                old[first:end] = data[first:end]

    def meter(self, number: int, place: int) -> FlowMeter:
        """Return meter ``place`` (0 or 1) of an object, made from its parameters at first use."""
        key = (number - self.first, place)
        meter = self._meters.get(key)
        if meter is None:
            data = self._data[key[0]][place * PARAMETERS_BYTES :][:PARAMETERS_BYTES]
            meter = self._meters[key] = FlowMeter(flow_meter_parameters.view(data))
        return meter


class Metering(NamedTuple):
    """The metering action of a flow table entry."""

    aso: FlowMeterAso
    number: int
    """Number of the object."""
    place: int
    """Index of the meter in the object."""
    before: MeterColor
    marks: tuple[Step, ...]
    """By colour: the step that records the colour for later tables."""

    def outcome(self, octets: int, l2_bytes: int, now_ns: int) -> int:
        """Return the colour of a packet, and charge its bytes to the meter."""
        meter = self.aso.meter(self.number, self.place)
        return meter.color(self.before, octets, l2_bytes, now_ns)
