"""Rate limits of send queues: a rate of its own, and those of scheduling elements above it.

A limit lets a request through while what has been sent before fits its rate, give or take what
timers are late by (``SLACK_NS``). Scheduling elements make a tree: a queue belongs to a leaf, a
queue group. What an element with a limit has to give is shared by those below it that want to send,
in proportion to their ``bw_share`` (deficit weighted round robin, DWRR).

Source: PRM "SET_PP_RATE_LIMIT", "Scheduling element"; core/rl.c, core/qos.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

if TYPE_CHECKING:
    from layouts.objects.scheduling import SchedulingContext

SLACK_NS: Final = 1_000_000
"""How far a limit may be ahead: queues are not awake for every packet."""
SHARE_SLACK: Final = 1 << 16
"""Bytes by which the served of an element may differ, as a large send is not cut."""
MOST_DEPTH: Final = 10
"""Elements above each other; the kernel's HTB has up to eight."""
MBPS: Final = 1_000_000

_NS_PER_BIT_AT_1_BPS: Final = 1_000_000_000


class RateLimit(NamedTuple):
    """An entry of the table of packet pacing."""

    kbps: int
    burst_bytes: int
    """What may leave at once."""


class Limit:
    """A rate in bits per second, and how far it is used up."""

    __slots__ = ("_bps", "_free_ns", "_slack_ns")

    def __init__(self, bps: int, burst_bytes: int = 0) -> None:
        """``burst_bytes`` may leave at once, if they are more than SLACK_NS allows."""
        self._bps = bps
        self._slack_ns = max(SLACK_NS, self._time(burst_bytes))
        self._free_ns = 0

    def _time(self, octets: int) -> int:
        return octets * 8 * _NS_PER_BIT_AT_1_BPS // self._bps

    def delay(self, now_ns: int) -> int:
        """In how many nanoseconds the next request may leave; 0 for now."""
        return max(self._free_ns - self._slack_ns - now_ns, 0)

    def charge(self, octets: int, now_ns: int) -> None:
        """So much has left."""
        self._free_ns = max(self._free_ns, now_ns) + self._time(octets)


class SchedulingElement(Object):
    """A node of the tree: a TSAR, which has others below it, or a queue group."""

    __slots__ = ("_wanting", "ctx", "limit", "parent", "served")
    kind = "scheduling_element"
    numbering = Numbering(lambda made: 1 << made.caps.qos.log_max_qos_nic_queue_group + 1)
    BASE_BYTES = 1024

    def __init__(self, ctx: SchedulingContext, parent: SchedulingElement | None) -> None:
        super().__init__()
        self.ctx = ctx
        self.parent = parent
        self.served = 0
        """Bytes by its share, of which those that its neighbours got while it did not want any."""
        self._wanting: dict[SchedulingElement, None] = {}
        """Which of those below it want to send, but have to wait."""
        self.limit: Limit | None = None
        self.decode()

    def decode(self) -> None:
        """Take over a changed context."""
        self.limit = Limit(self.ctx.max_average_bw * MBPS) if self.ctx.max_average_bw else None

    def up(self) -> Iterator[SchedulingElement]:
        """The element and those above it."""
        element: SchedulingElement | None = self
        while element is not None:
            yield element
            element = element.parent

    def is_ahead(self) -> bool:
        """Whether a neighbour that waits has got less by its share, so that it goes first."""
        parent = self.parent
        if parent is None or parent.limit is None:
            return False
        others = [one.served for one in parent._wanting if one is not self]
        return bool(others) and self.served > min(others) + SHARE_SLACK

    def want(self) -> None:
        """It has to wait."""
        if self.parent is not None and self not in self.parent._wanting:
            others = [one.served for one in self.parent._wanting]
            self.served = max(self.served, min(others, default=self.served))
            self.parent._wanting[self] = None

    def rest(self) -> None:
        """It has nothing to send."""
        if self.parent is not None:
            self.parent._wanting.pop(self, None)

    def serve(self, octets: int, now_ns: int) -> None:
        """So much of it has been sent."""
        self.served += octets * 100 // (self.ctx.bw_share or 1)
        if self.limit is not None:
            self.limit.charge(octets, now_ns)

    def holds(self) -> tuple[Object, ...]:
        return () if self.parent is None else (self.parent,)


class Pacing:
    """What a send queue has to keep to."""

    __slots__ = ("_limits", "group")

    def __init__(self, limits: tuple[Limit, ...], group: SchedulingElement | None) -> None:
        """``limits`` of the queue itself and of its traffic class; its group, if it has one."""
        self._limits = limits
        self.group = group

    def delay(self, now_ns: int) -> int:
        """In how many nanoseconds the next request may leave; 0 for now."""
        found = max((limit.delay(now_ns) for limit in self._limits), default=0)
        if self.group is None:
            return found
        chain = tuple(self.group.up())
        for element in chain:
            if element.limit is not None:
                found = max(found, element.limit.delay(now_ns))
        if not found and any(element.is_ahead() for element in chain):
            found = SLACK_NS
        for element in chain:
            if found:
                element.want()
            else:
                element.rest()
        return found

    def charge(self, octets: int, now_ns: int) -> None:
        """So much has left."""
        for limit in self._limits:
            limit.charge(octets, now_ns)
        if self.group is not None:
            for element in self.group.up():
                element.serve(octets, now_ns)

    def rest(self) -> None:
        """The queue has nothing to send."""
        if self.group is not None:
            for element in self.group.up():
                element.rest()
