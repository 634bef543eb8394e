"""What a link does to the packets that pass it, in the words of Linux's netem queueing discipline.

A plan has ``[[link]]`` tables, and ``mlx5emu net set`` takes the same keys. A link lies between the
port of a function and what is behind it. :mod:`emu.server.net.link` carries it out.

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
MAX_RATE = 1_000_000_000_000
MAX_PACKETS = 100_000
DEFAULT_LIMIT = 1000

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+|%)")
_TIMES = {"ns": 1, "us": 1000, "usec": 1000, "ms": 1_000_000, "msec": 1_000_000, "s": _NS_PER_S}
_RATES = {
    "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9,
    "bps": 8, "kbps": 8 * 10**3, "mbps": 8 * 10**6, "gbps": 8 * 10**9,
}  # fmt: skip
"""As in tc(8), where "bps" stands for bytes per second."""


def _quantity(value: object, units: Mapping[str, int], example: str) -> int:
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 40 else None
    unit = units.get(match[2].lower()) if match is not None else None
    if match is None or unit is None:
        raise ValueError(f"a number with a unit like {example!r}; units are {', '.join(units)}")
    try:
        return int(Decimal(match[1]) * unit)
    except InvalidOperation:
        raise ValueError(f"no number like {example!r}") from None


def _time(value: object) -> int:
    return _quantity(value, _TIMES, "10ms")


def _rate(value: object) -> int:
    return _quantity(value, _RATES, "1gbit")


def _percent(value: object) -> Any:
    return value[:-1] if isinstance(value, str) and value.endswith("%") else value


def time_text(ns: int) -> str:
    """A time as a link takes it, in the largest unit that has it as a whole number."""
    return _text(ns, {"s": _NS_PER_S, "ms": 1_000_000, "us": 1000, "ns": 1})


def rate_text(bits: int) -> str:
    """A rate, likewise."""
    return _text(bits, {"gbit": 10**9, "mbit": 10**6, "kbit": 1000, "bit": 1})


def _text(value: int, units: Mapping[str, int]) -> str:
    for unit, size in units.items():
        if not value % size and (value or size == 1):
            return f"{value // size}{unit}"
    raise AssertionError("every number is a multiple of 1")


Time = Annotated[
    int, BeforeValidator(_time), Field(ge=0, le=MAX_DELAY_NS),
    PlainSerializer(time_text, return_type=str),
]  # fmt: skip
Percent = Annotated[float, BeforeValidator(_percent), Field(ge=0, le=100)]


class PlannedLink(BaseModel):
    """The properties of one link, in one direction or both.

    An entry replaces all that an earlier one for the same function and direction has set; one
    without properties leaves a link that does nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)

    function: Functions = None
    """Index in the run of the function to apply to, or a list of them; all functions by default."""
    direction: Literal["tx", "rx"] | None = None
    """``tx``: what the function sends; ``rx``: what it receives; both by default."""
    after: Annotated[int, Field(strict=True, ge=0, le=_U64)] = 0
    """It holds once the function has run this many commands."""

    delay: Time = 0
    """Time on the way, in nanoseconds."""
    jitter: Time = 0
    """The delay differs from packet to packet by as much in either direction, equally distributed.
    Packets with less delay overtake others."""
    rate: Annotated[
        int, BeforeValidator(_rate), Field(ge=1000, le=MAX_RATE),
        PlainSerializer(rate_text, return_type=str),
    ] | None = None  # fmt: skip
    """Bits per second."""
    loss: Percent = 0.0
    gemodel: Annotated[list[Percent], Field(min_length=1, max_length=4)] | None = None
    """Bursts of loss by Gilbert and Elliott: p, r, 1-h, 1-k. From packet to packet the link turns
    bad with probability p, good again with r (default: 100 - p); 1-h of the packets are lost while
    it is bad (default: all), 1-k while it is good (default: none)."""
    reorder: Percent = 0.0
    """So many packets are not delayed and overtake the others."""
    gap: Annotated[int, Field(strict=True, ge=1, le=_U64)] = 1
    """Only every ``gap``-th packet may overtake."""
    duplicate: Percent = 0.0
    corrupt: Percent = 0.0
    """One bit is inverted. A port of InfiniBand notices that and drops the packet."""
    ecn: StrictBool = False
    """Packets of ECN-capable senders are marked where others are lost by ``loss``."""
    mark: Percent = 0.0
    """So many packets are marked: "congestion experienced" in the IP header, FECN on InfiniBand."""
    ce_threshold: Time | None = None
    """Packets that have waited longer for the line are marked; for links with a rate."""
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_PACKETS)] = DEFAULT_LIMIT
    """Packets on the way and waiting; more are lost. RDMA's sender waits from half of it on."""

    @model_validator(mode="after")
    def _fits(self) -> PlannedLink:
        if self.jitter > self.delay:
            raise ValueError("jitter needs a delay that is no smaller")
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay: only delayed packets can be overtaken")
        if self.gap > 1 and not self.reorder:
            raise ValueError("gap needs reorder")
        if self.ce_threshold is not None and self.rate is None:
            raise ValueError("ce_threshold needs a rate: without one no packet waits for the line")
        if self.ecn and not self.loss:
            raise ValueError("ecn needs loss: it marks packets instead of losing them")
        if self.loss and self.gemodel is not None:
            raise ValueError("loss and gemodel exclude each other")
        return self

    @property
    def functions(self) -> list[int] | None:
        """Return the indices of the functions that the entry is for; None for all."""
        return listed(self.function)

    def applies_to(self, function: int) -> bool:
        """Return whether the entry is for the function with this index."""
        return includes(self.function, function)

    @property
    def is_clear(self) -> bool:
        """Whether it does nothing to packets."""
        return not self.properties()

    def properties(self) -> dict[str, object]:
        """What it does to packets, as in a plan."""
        table = self.to_table()
        return {key: table[key] for key in table if key not in ("function", "direction", "after")}

    def to_table(self) -> dict[str, object]:
        """The entry as in a plan, without the keys that have their defaults."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
