"""Rate limits of send queues: a rate of its own, and those of scheduling elements above it.

A limit lets a request through while what has been sent before fits its rate, give or take what
timers are late by (``SLACK_NS``). Scheduling elements make a tree: a queue belongs to a leaf, a
queue group, and its function's vPort is a leaf of the tree that the embedded switch has. What an
element with a limit has to give is shared by those below it that want to send, in proportion to
their ``bw_share`` (deficit weighted round robin, DWRR).

Source: PRM "SET_PP_RATE_LIMIT", "Scheduling element"; core/rl.c, core/qos.c, core/esw/qos.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object

if TYPE_CHECKING:
    from layouts.objects.scheduling import SchedulingContext

SLACK_NS: Final = 1_000_000
"""How far a limit may be ahead: queues are not awake for every packet."""
SHARE_SLACK: Final = 1 << 16
"""Bytes by which the served of an element may differ, as a large send is not cut."""
MOST_DEPTH: Final = 10
"""Elements above each other; the kernel's HTB has up to eight."""
MOST_OF_SWITCH: Final = 1 << 10
"""Elements in the tree of an embedded switch."""
MBPS: Final = 1_000_000
_BPS_PER_KBPS: Final = 1000

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


def _most_elements(made: Limits) -> int:
    """Of a function's own tree, and of that of the switch if it manages one."""
    qos = made.caps.qos
    own: int = 1 << qos.log_max_qos_nic_queue_group + 1
    return own + (MOST_OF_SWITCH if qos.esw_scheduling else 0)


class SchedulingElement(Object):
    """A node of a tree: a TSAR, which has others below it, a queue group, or a vPort."""

    __slots__ = ("_wanting", "ctx", "hierarchy", "limit", "parent", "served")
    kind = "scheduling_element"
    numbering = Numbering(_most_elements)
    BASE_BYTES = 1024

    def __init__(
        self, ctx: SchedulingContext, parent: SchedulingElement | None, hierarchy: int
    ) -> None:
        """``hierarchy`` is the scheduling_hierarchy: which of the trees it is in."""
        super().__init__()
        self.ctx = ctx
        self.hierarchy = hierarchy
        self.parent = parent
        self.served = 0
        """Bytes by its share, of which those that its neighbours got while it did not want any."""
        self._wanting: dict[SchedulingElement, int] = {}
        """Which of those below it have to send and have had to wait: how many of their queues."""
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
        """One more queue below it has to wait. What others got before does not count."""
        if self.parent is None:
            return
        wanting = self.parent._wanting
        if self not in wanting:
            others = [one.served for one in wanting]
            self.served = max(self.served, min(others, default=self.served))
        wanting[self] = wanting.get(self, 0) + 1

    def rest(self) -> None:
        """A queue that has had to wait has nothing to send any more."""
        if self.parent is None:
            return
        wanting = self.parent._wanting
        left = wanting.get(self, 0) - 1
        if left > 0:
            wanting[self] = left
        else:
            wanting.pop(self, None)

    def serve(self, octets: int, now_ns: int) -> None:
        """So much of it has been sent."""
        self.served += octets * 100 // (self.ctx.bw_share or 1)
        if self.limit is not None:
            self.limit.charge(octets, now_ns)

    def unlink(self) -> None:
        """Drop those below it, which refer back to it."""
        self._wanting.clear()

    def holds(self) -> tuple[Object, ...]:
        return () if self.parent is None else (self.parent,)


class Terms(NamedTuple):
    """What limits a send queue, as far as there are such limits."""

    rate: RateLimit | None
    """Of the queue itself."""
    of_class: Limit | None
    """Of its traffic class, which others use up as well."""
    leaves: tuple[SchedulingElement, ...]
    """Its queue group and its vPort."""


class Pacing:
    """What a send queue has to keep to."""

    __slots__ = ("_leaves", "_limits", "_waits", "terms")

    def __init__(self, terms: Terms) -> None:
        rate, of_class, leaves = self.terms = terms
        own = Limit(rate.kbps * _BPS_PER_KBPS, rate.burst_bytes) if rate is not None else None
        self._limits = tuple(limit for limit in (own, of_class) if limit is not None)
        self._leaves = leaves
        self._waits = False
        """Whether it has had to wait since it last had nothing to send."""

    def _elements(self) -> list[SchedulingElement]:
        return [element for leaf in self._leaves for element in leaf.up()]

    def delay(self, now_ns: int) -> int:
        """In how many nanoseconds the next request may leave; 0 for now."""
        found = max((limit.delay(now_ns) for limit in self._limits), default=0)
        if not self._leaves:
            return found
        elements = self._elements()
        for element in elements:
            if element.limit is not None:
                found = max(found, element.limit.delay(now_ns))
        if not found and any(element.is_ahead() for element in elements):
            found = SLACK_NS
        if found and not self._waits:
            self._waits = True
            for element in elements:
                element.want()
        return found

    def charge(self, octets: int, now_ns: int) -> None:
        """So much has left."""
        for limit in self._limits:
            limit.charge(octets, now_ns)
        for element in self._elements():
            element.serve(octets, now_ns)

    def rest(self) -> None:
        """The queue has nothing to send."""
        if self._waits:
            self._waits = False
            for element in self._elements():
                element.rest()
