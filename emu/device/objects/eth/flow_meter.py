"""Flow meters: they colour packets by the rate at which these come.

A meter has two buckets of bytes. A packet for which there is enough in the committed one (CBS,
filled at CIR) is green, one for which there is enough in the excess one (EBS, filled at EIR) is
yellow, any other is red; what is done with each is up to the tables. Buckets are full when a meter
is set.

Source: mlx5_ifc.h: flow_meter_parameters; core/en/tc/meter.c; RFC 2698, RFC 4115.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from emu.device.objects.domains import Pd
from emu.device.objects.eth.reshape import Step
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from layouts.eth_enums import MeterColor, MeterMode
from layouts.objects.flow_meter import flow_meter_parameters

if TYPE_CHECKING:
    from layouts.objects.flow_meter import FlowMeterParameters

LOG_MOST_IN_RANGE: Final = 6
"""Objects that one command makes, at most (log_meter_aso_max_alloc)."""
METERS_PER_OBJECT: Final = 2
PARAMETERS_BYTES: Final = flow_meter_parameters.size

_LOG_UNIT: Final = 31
"""Buckets are filled in units of a 2^31th of a byte: a rate is mantissa / 2^exponent bytes for each
nanosecond (core/en/tc/meter.c: MLX5_CALC_CIR), and no exponent is larger."""
_PACKET_BYTES: Final = 128
"""What each packet counts for when packets are metered (core/en/tc/meter.c)."""
_GAP_BYTES: Final = 20
"""Preamble and gap between frames."""


class _Bucket:
    """Bytes that may pass, as many as its burst at most."""

    __slots__ = ("_at_ns", "_burst", "_rate", "left")

    def __init__(self, burst: int, mantissa: int, exponent: int) -> None:
        self._burst = burst << _LOG_UNIT
        self._rate = mantissa << _LOG_UNIT - exponent
        self.left = self._burst
        self._at_ns: int | None = None

    def fill(self, now_ns: int) -> int:
        """Add what its rate has given since the last time; what it has no room for."""
        before, self._at_ns = self._at_ns, now_ns
        if before is None:
            return 0
        full = self.left + self._rate * max(now_ns - before, 0)
        self.left = min(full, self._burst)
        return full - self.left

    def add(self, units: int) -> None:
        """Add what another bucket had no room for."""
        self.left = min(self.left + units, self._burst)

    def take(self, octets: int) -> bool:
        """Take so many bytes out, if it has them."""
        needed = octets << _LOG_UNIT
        if needed > self.left:
            return False
        self.left -= needed
        return True


class FlowMeter:
    """One meter, as its parameters say."""

    __slots__ = ("_committed", "_excess", "_mode", "_overflows", "_start", "_takes_both", "valid")

    def __init__(self, given: FlowMeterParameters) -> None:
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
        """The colour of a packet that had the colour ``before``, and takes what it needs.

        ``l2_bytes`` of its octets are before the network layer's header. A meter that is not valid
        leaves colours alone. UNDEFINED is the colour that the meter begins with.
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
        if self._mode is MeterMode.NUM_PACKETS:
            return _PACKET_BYTES
        if self._mode is MeterMode.BYTES_IP_LENGTH:
            return octets - l2_bytes
        return octets + (_GAP_BYTES if self._mode is MeterMode.BYTES_CALC_WITH_L2_IPG else 0)


class FlowMeterAso(Object):
    """Objects with two meters each, whose numbers follow each other from ``first`` on."""

    __slots__ = ("_data", "_meters", "log_range", "pd")
    kind = "flow meter aso"
    numbering = Numbering(
        lambda made: 1 << made.caps.qos.log_max_num_meter_aso >> LOG_MOST_IN_RANGE
    )
    BASE_BYTES = 1024
    OBJECT_BYTES: ClassVar[int] = 2048

    def __init__(self, pd: Pd, log_range: int, parameters: bytes) -> None:
        """``parameters`` of the two meters are what each object begins with.

        ``pd`` is that of the send queues whose requests may change them.
        """
        super().__init__()
        self.pd = pd
        self.log_range = log_range
        self._data = [bytearray(parameters) for _ in range(1 << log_range)]
        self._meters: dict[tuple[int, int], FlowMeter] = {}

    @property
    def first(self) -> int:
        """The number of the first of them."""
        return self.handle << LOG_MOST_IN_RANGE

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + (self.OBJECT_BYTES << self.log_range)

    def about(self) -> dict[str, object]:
        return {"first": self.first, "objects": len(self._data), "pd": self.pd.handle}

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)

    def has(self, number: int) -> bool:
        """Whether an object of the range has this number."""
        return 0 <= number - self.first < len(self._data)

    def data(self, number: int) -> bytes:
        """The parameters of an object's meters."""
        return bytes(self._data[number - self.first])

    def write(self, number: int, data: bytes) -> None:
        """Change parameters. A meter whose parameters are written begins anew."""
        index, old = number - self.first, self._data[number - self.first]
        for place in range(METERS_PER_OBJECT):
            first, end = place * PARAMETERS_BYTES, (place + 1) * PARAMETERS_BYTES
            if old[first:end] != data[first:end]:
                self._meters.pop((index, place), None)
                old[first:end] = data[first:end]

    def meter(self, number: int, place: int) -> FlowMeter:
        """One of the two meters of an object."""
        key = (number - self.first, place)
        meter = self._meters.get(key)
        if meter is None:
            data = self._data[key[0]][place * PARAMETERS_BYTES :][:PARAMETERS_BYTES]
            meter = self._meters[key] = FlowMeter(flow_meter_parameters.view(data))
        return meter


class Metering(NamedTuple):
    """What an entry of a flow table has a meter do."""

    aso: FlowMeterAso
    number: int
    """Of the object."""
    place: int
    """Which of its meters."""
    before: MeterColor
    marks: tuple[Step, ...]
    """By colour: what tells later tables of it."""

    def answer(self, octets: int, l2_bytes: int, now_ns: int) -> int:
        """The colour of a packet."""
        meter = self.aso.meter(self.number, self.place)
        return meter.color(self.before, octets, l2_bytes, now_ns)
