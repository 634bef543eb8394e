"""Rate limits of send queues: a rate of its own, and those of scheduling elements above it.

A limit lets a request through while what has been sent before fits its rate, give or take what
timers are late by (``SLACK_NS``). Scheduling elements make a tree: a queue belongs to a leaf, a
queue group, and its function's vPort is a leaf of the tree that the embedded switch has. What an
element with a limit has to give is shared by those below it that want to send, in proportion to
their ``bw_share`` (deficit weighted round robin, DWRR), and by a leaf's queues alike.

Source: PRM "SET_PP_RATE_LIMIT", "Scheduling element"; core/rl.c, core/qos.c, core/esw/qos.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object

if TYPE_CHECKING:
    from layouts.objects.scheduling import SchedulingContext

SLACK_NS: Final = 1_000_000
"""How far a limit may be ahead: queues are not awake for every packet."""
SHARE_SLACK: Final = 1 << 16
"""Bytes by which the served of an element may differ, as a large send is not cut."""
MAX_DEPTH: Final = 10
"""Elements above each other; the kernel's HTB has up to eight."""
MAX_ESWITCH_ELEMENTS: Final = 1 << 10
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
    return own + (MAX_ESWITCH_ELEMENTS if qos.esw_scheduling else 0)


class Claim:
    """A right to a share of what an element has to give: of another one below it, or of a queue.

    Whoever is held back by that element, or by one above it, has to get its share before those of
    its neighbours who have had more of theirs.
    """

    __slots__ = ("_queues", "above", "served")

    def __init__(self, above: SchedulingElement | None) -> None:
        self.above = above
        self.served = 0
        """Bytes by its share, of which those that its neighbours got while it did not want any."""
        self._queues = 0
        """How many queues want something by it."""

    def is_ahead(self) -> bool:
        """Whether the neighbour that has waited longest has got less by its share."""
        if self.above is None:
            return False
        first = next((one for one in self.above.wanting if one is not self), None)
        return first is not None and self.served > first.served + SHARE_SLACK

    def want(self) -> None:
        """One more queue has to wait. What others got before does not count."""
        if self.above is None:
            return
        wanting = self.above.wanting
        if not self._queues:
            first = next(iter(wanting), self)
            self.served = max(self.served, first.served)
            wanting[self] = None
        self._queues += 1

    def rest(self) -> None:
        """A queue that has had to wait has nothing to send any more, or is held back below."""
        if self.above is None:
            return
        self._queues -= 1
        if not self._queues:
            self.above.wanting.pop(self, None)

    def serve(self, octets: int, share: int = 0) -> None:
        """So much of it has been sent; it is the last of those who wait now."""
        self.served += octets * 100 // (share or 1)
        if self.above is not None and self._queues:
            wanting = self.above.wanting
            wanting[self] = wanting.pop(self, None)


class SchedulingElement(Object):
    """A node of a tree: a TSAR, which has others below it, a queue group, or a vPort."""

    __slots__ = ("claim", "ctx", "hierarchy", "limit", "parent", "wanting")
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
        self.claim = Claim(parent)
        self.wanting: dict[Claim, None] = {}
        """Which of those below it have to wait for it; who has been served last is the last."""
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

    def delay(self, now_ns: int) -> int:
        """In how many nanoseconds its own limit lets the next request through; 0 for now."""
        return 0 if self.limit is None else self.limit.delay(now_ns)

    def serve(self, octets: int, now_ns: int) -> None:
        """So much of it has been sent."""
        self.claim.serve(octets, self.ctx.bw_share)
        if self.limit is not None:
            self.limit.charge(octets, now_ns)

    def unlink(self) -> None:
        """Drop those below it, which refer back to it."""
        self.wanting.clear()

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

    __slots__ = ("_limits", "_requested", "_ways", "terms")

    def __init__(self, terms: Terms) -> None:
        rate, of_class, leaves = self.terms = terms
        own = Limit(rate.kbps * _BPS_PER_KBPS, rate.burst_bytes) if rate is not None else None
        self._limits = tuple(limit for limit in (own, of_class) if limit is not None)
        self._ways = tuple(_way(leaf) for leaf in leaves)
        """For each leaf: the claims from the queue's own up, with the elements that they are on."""
        self._requested: set[Claim] = set()
        """The claims by which the queue has had to wait since it last had nothing to send."""

    def delay(self, now_ns: int, *, wants: bool = True) -> int:
        """In how many nanoseconds the next request may leave; 0 for now.

        If there ``wants`` to be one it waits in line then, before others that had more, until it
        leaves or :meth:`rest`.
        """
        own = max((limit.delay(now_ns) for limit in self._limits), default=0)
        if not self._ways:
            return own
        longest, claims = own, set()
        for way in self._ways:
            delays = [element.delay(now_ns) for _, element in way]
            longest = max(longest, *delays)
            claims |= _held_back(way, own, delays)
        if longest:
            if wants:
                self._want(claims)
        elif any(claim.is_ahead() for way in self._ways for claim, _ in way):
            return SLACK_NS
        return longest

    def charge(self, octets: int, now_ns: int) -> None:
        """So much has left."""
        for limit in self._limits:
            limit.charge(octets, now_ns)
        for way in self._ways:
            way[0][0].serve(octets)
            for _, element in way:
                element.serve(octets, now_ns)

    def rest(self) -> None:
        """The queue has nothing to send."""
        self._want(set())

    def _want(self, claims: set[Claim]) -> None:
        """Wait by these claims, and by no others any more."""
        if claims != self._requested:
            for claim in self._requested - claims:
                claim.rest()
            for claim in claims - self._requested:
                claim.want()
            self._requested = claims


Way = tuple[tuple[Claim, SchedulingElement], ...]


def _way(leaf: SchedulingElement) -> Way:
    elements = [*leaf.up()]
    claims = [Claim(leaf), *(element.claim for element in elements)]
    return tuple(zip(claims, elements))


def _held_back(way: Way, own: int, delays: list[int]) -> set[Claim]:
    """The claims on elements that make the queue wait, they or those above them.

    Not those by which it waits for its own limit or for one below: its neighbours there need not
    wait for it.
    """
    below = accumulate(delays, max, initial=own)
    above = [*accumulate(reversed(delays), max)][::-1]
    return {claim for (claim, _), low, high in zip(way, below, above) if high and high >= low}
