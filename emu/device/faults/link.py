"""Properties of a link, in the terms of Linux's netem queueing discipline.

A plan has ``[[link]]`` tables, and ``mlx5emu net set`` takes the same keys. A link connects the
port of a function to the network behind it. :mod:`emu.server.net.link` implements it.

Times and rates have the units of tc(8): ``"10ms"``, ``"250us"``, ``"1gbit"``. Probabilities are in
percent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    model_validator,
)

from emu.device.faults.functions import Functions, includes, listed

_U64 = (1 << 64) - 1
_NS_PER_S = 1_000_000_000
MAX_DELAY_NS = 60 * _NS_PER_S
MIN_RATE = 1000
MAX_RATE = 1_000_000_000_000
MAX_PACKETS = 100_000
DEFAULT_LIMIT = 1000

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+|%)")
_TIMES = {"ns": 1, "us": 1000, "usec": 1000, "ms": 1_000_000, "msec": 1_000_000, "s": _NS_PER_S}
_RATES = {
    "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9,
    "bps": 8, "kbps": 8 * 10**3, "mbps": 8 * 10**6, "gbps": 8 * 10**9,
}  # fmt: skip
"""Units of tc(8), where "bps" stands for bytes per second."""


def _quantity(value: object, units: Mapping[str, int], example: str) -> int:
    """Return a number with a unit in the base unit, cut to a whole number.

    Raises ValueError, with the possible units, for other text; a number without a unit is refused.
    """
    needed = f"a number with a unit ({', '.join(units)}) like {example!r}"
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 40 else None
    unit = units.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ValueError(needed)
    try:
        return int(Decimal(match[1]) * unit)
    except InvalidOperation:
        raise ValueError(needed) from None


def _time(value: object) -> int:
    """Return a time in nanoseconds. Raises ValueError for another value and for a longer time."""
    if (time := _quantity(value, _TIMES, "10ms")) > MAX_DELAY_NS:
        raise ValueError(f"at most {time_text(MAX_DELAY_NS)}")
    return time


def _rate(value: object) -> int:
    """Return a rate in bits per second. Raises ValueError for another value or beyond limits."""
    if not MIN_RATE <= (rate := _quantity(value, _RATES, "1gbit")) <= MAX_RATE:
        raise ValueError(f"a rate from {rate_text(MIN_RATE)} to {rate_text(MAX_RATE)}")
    return rate


def _percent(value: object) -> Any:
    return value[:-1] if isinstance(value, str) and value.endswith("%") else value


def time_text(ns: int) -> str:
    """Return a time as text for a link, in the largest unit that gives a whole number."""
    return _text(ns, {"s": _NS_PER_S, "ms": 1_000_000, "us": 1000, "ns": 1})


def rate_text(bits: int) -> str:
    """Return a rate as text for a link, in the largest unit that gives a whole number."""
    return _text(bits, {"gbit": 10**9, "mbit": 10**6, "kbit": 1000, "bit": 1})


def _text(value: int, units: Mapping[str, int]) -> str:
    """Return a value in the largest of the units that gives a whole number, without a space."""
    for unit, size in units.items():
        if not value % size and (value or size == 1):
            return f"{value // size}{unit}"
    raise AssertionError("every number is a multiple of 1")


Time = Annotated[
    int, BeforeValidator(_time), PlainSerializer(time_text, return_type=str),
]  # fmt: skip
Percent = Annotated[float, BeforeValidator(_percent), Field(ge=0, le=100)]


class PlannedLink(BaseModel):
    """The properties of one link, in one direction or both.

    An entry replaces all properties from earlier ones for the same function and direction; an entry
    without properties leaves a link without effects.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)

    function: Functions = None
    """Index in the run of the function to apply to, ``0.vf2`` for a virtual one, or a list of them;
    all functions by default."""
    direction: Literal["tx", "rx"] | None = None
    """``tx``: packets that the function sends; ``rx``: packets that it receives; both by
    default.
    """
    after: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """Number of commands after which the entry takes effect."""

    delay: Time = 0
    """Transit time, in nanoseconds."""
    jitter: Time = 0
    """Maximum deviation of the delay in either direction, uniformly distributed, in nanoseconds.
    Packets with less delay overtake others.
    """
    rate: Annotated[
        int, BeforeValidator(_rate), PlainSerializer(rate_text, return_type=str),
    ] | None = None  # fmt: skip
    """Bits per second."""
    loss: Percent = 0.0
    gemodel: Annotated[list[Percent], Field(min_length=1, max_length=4)] | None = None
    """Bursts of loss by Gilbert and Elliott: p, r, 1-h, 1-k. From packet to packet the link becomes
    bad with probability p, good again with r (default: 100 - p); 1-h of the packets are lost while
    it is bad (default: all), 1-k while it is good (default: none).
    """
    reorder: Percent = 0.0
    """Share of packets that are not delayed and overtake the others."""
    gap: Annotated[int, Field(strict=True, ge=1, le=_U64)] = 1
    """Only every ``gap``-th packet may overtake."""
    duplicate: Percent = 0.0
    corrupt: Percent = 0.0
    """Share of packets with one bit inverted. An InfiniBand port detects that and drops the
    packet.
    """
    ecn: StrictBool = False
    """Whether packets of ECN-capable senders are marked instead of lost by ``loss``."""
    mark: Percent = 0.0
    """Share of packets that are marked: "congestion experienced" in the IP header, FECN on
    InfiniBand.
    """
    ce_threshold: Time | None = None
    """Packets that have waited longer for transmission are marked; for links with a rate."""
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_PACKETS)] = DEFAULT_LIMIT
    """Maximum number of packets in transit and waiting; more are lost. RDMA senders pause at
    half.
    """

    @model_validator(mode="after")
    def _fits(self) -> PlannedLink:
        """Return the link. Raises ValueError for properties that contradict or lack each other."""
        if self.jitter > self.delay:
            raise ValueError("jitter needs a delay of at least the same time")
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay: only delayed packets can be overtaken")
        if self.gap > 1 and not self.reorder:
            raise ValueError("gap needs reorder")
        if self.ce_threshold is not None and self.rate is None:
            raise ValueError("ce_threshold needs a rate: without a rate no packet waits")
        if self.ecn and not self.loss:
            raise ValueError("ecn needs loss: it marks packets instead of losing them")
        if self.loss and self.gemodel is not None:
            raise ValueError("loss and gemodel exclude each other")
        return self

    @property
    def functions(self) -> list[int] | None:
        """Indices of the functions that the entry applies to; None for all."""
        return listed(self.function)

    def applies_to(self, function: int) -> bool:
        """Return whether the entry applies to the function with this index."""
        return includes(self.function, function)

    @property
    def is_clear(self) -> bool:
        """Whether the entry has no effect on packets."""
        return not self.properties()

    def properties(self) -> dict[str, object]:
        """Return the properties that are not at their defaults, by their keys in a plan.

        ``function``, ``direction`` and ``after`` are left out.
        """
        table = self.to_table()
        return {key: table[key] for key in table if key not in ("function", "direction", "after")}

    def to_table(self) -> dict[str, object]:
        """Return the entry as in a plan, without the keys that have their defaults."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
