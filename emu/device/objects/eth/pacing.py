"""Rate limits of send queues: their own rate, and those of scheduling elements above them.

A limit admits a WQE while the data sent before fits the rate, within the delay of timers
(``SLACK_NS``). Scheduling elements form a tree. A queue belongs to a leaf, its queue group; the
function's vPort is a leaf of the embedded switch's tree. Elements below a limited element share its
bandwidth in proportion to ``bw_share`` (deficit weighted round robin, DWRR). Queues of a leaf share
equally. A vPort may have a leaf for each traffic class instead, below an arbiter (TC_ARB).

Source: PRM "SET_PP_RATE_LIMIT", "Scheduling element"; core/rl.c, core/qos.c, core/esw/qos.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object

if TYPE_CHECKING:
    from layouts.objects.scheduling import scheduling_context

SLACK_NS: Final = 1_000_000
"""Nanoseconds that a limit may be ahead, as timers do not fire for every packet."""
SHARE_SLACK: Final = 1 << 16
"""Bytes by which served amounts may differ, as a large send is not split."""
MAX_DEPTH: Final = 10
"""Maximum depth of the tree; the kernel's HTB has up to eight levels."""
MAX_ESWITCH_ELEMENTS: Final = 1 << 10
"""Maximum number of elements in the tree of an embedded switch."""
MBPS: Final = 1_000_000
_BPS_PER_KBPS: Final = 1000

_NS_PER_BIT_AT_1_BPS: Final = 1_000_000_000


class RateLimit(NamedTuple):
    """An entry of the packet pacing table."""

    kbps: int
    burst_bytes: int
    """Bytes that may be sent at once."""


class Limit:
    """A rate in bits per second, and the time up to which it is used."""

    __slots__ = ("_bps", "_free_ns", "_slack_ns")

    def __init__(self, bps: int, burst_bytes: int = 0) -> None:
        """Limit to ``bps``; ``burst_bytes`` may be sent at once if they exceed SLACK_NS."""
        self._bps = bps
        self._slack_ns = max(SLACK_NS, self._time(burst_bytes))
        self._free_ns = 0

    def _time(self, octets: int) -> int:
        return octets * 8 * _NS_PER_BIT_AT_1_BPS // self._bps

    def delay(self, now_ns: int) -> int:
        """Return the nanoseconds until the next WQE may be sent; 0 for now. Charges nothing.

        Sending may run ahead of the rate by SLACK_NS or the burst.
        """
        return max(self._free_ns - self._slack_ns - now_ns, 0)

    def charge(self, octets: int, now_ns: int) -> None:
        """Charge ``octets`` bytes sent at ``now_ns``."""
        self._free_ns = max(self._free_ns, now_ns) + self._time(octets)


def _most_elements(made: Limits) -> int:
    """Return the maximum number of elements: the function's own tree, plus that of its switch."""
    qos = made.caps.qos
    own: int = 1 << qos.log_max_qos_nic_queue_group + 1
    return own + (MAX_ESWITCH_ELEMENTS if qos.esw_scheduling else 0)


class BandwidthClaim:
    """A claim on the bandwidth of a scheduling element, by an element below it or by a queue.

    A claimant that the element or one above it delays is served before neighbours that have
    received more bandwidth.
    """

    __slots__ = ("_queues", "above", "served")

    def __init__(self, above: SchedulingElement | None) -> None:
        self.above = above
        self.served = 0
        """Bytes served by weight, with those served to neighbours while this claim was idle."""
        self._queues = 0
        """Number of queues that wait by this claim."""

    def is_ahead(self) -> bool:
        """Return whether the first waiting neighbour has been served less than this claim.

        The margin is SHARE_SLACK. False without an element above or a waiting neighbour.
        """
        if self.above is None:
            return False
        first = next((one for one in self.above.wanting if one is not self), None)
        return first is not None and self.served > first.served + SHARE_SLACK

    def want(self) -> None:
        """Add a waiting queue to the claim; an idle claim first catches up with its neighbours.

        No effect without an element above.
        """
        if self.above is None:
            return
        wanting = self.above.wanting
        if not self._queues:
            first = next(iter(wanting), self)
            self.served = max(self.served, first.served)
            wanting[self] = None
        self._queues += 1

    def stop_waiting(self) -> None:
        """Remove a waiting queue, which is idle or is now delayed by a lower element.

        The claim waits no more with its last queue.
        """
        if self.above is None:
            return
        self._queues -= 1
        if not self._queues:
            self.above.wanting.pop(self, None)

    def serve(self, octets: int, share: int = 0) -> None:
        """Record ``octets`` bytes sent, weighted by ``share`` percent (bw_share; 0 counts as 1).

        A waiting claim moves behind its neighbours.
        """
        self.served += octets * 100 // (share or 1)
        if self.above is not None and self._queues:
            wanting = self.above.wanting
            wanting[self] = wanting.pop(self, None)


class SchedulingElement(Object):
    """A node of the tree: a TSAR with elements below it, or a leaf.

    Leaves are queue groups, vPorts and traffic classes of vPorts. A rate limiter stands outside.
    """

    __slots__ = ("bw_share", "cap", "claim", "ctx", "hierarchy", "limit", "parent", "wanting")
    kind = "scheduling element"
    numbering = Numbering(_most_elements)
    BASE_BYTES = 1024

    def __init__(
        self,
        ctx: scheduling_context,
        parent: SchedulingElement | None,
        hierarchy: int,
        cap: SchedulingElement | None = None,
    ) -> None:
        """Create an element in the tree ``hierarchy`` (scheduling_hierarchy)."""
        super().__init__()
        self.cap = cap
        """The rate limiter that the leaf shares with other leaves."""
        self.ctx = ctx
        self.hierarchy = hierarchy
        self.parent = parent
        self.claim = BandwidthClaim(parent)
        self.wanting: dict[BandwidthClaim, None] = {}
        """Claims that wait for this element, the most recently served last."""
        self.limit: Limit | None = None
        self.decode_share()
        self.decode_limit()

    def decode_share(self) -> None:
        """Apply a changed share of the element above."""
        self.bw_share = int(self.ctx.bw_share)

    def decode_limit(self) -> None:
        """Apply a changed max_average_bw: a fresh limit in Mb/s, or none for 0."""
        self.limit = Limit(self.ctx.max_average_bw * MBPS) if self.ctx.max_average_bw else None

    def up(self) -> Iterator[SchedulingElement]:
        """Yield the element and those above it, up to the root."""
        element: SchedulingElement | None = self
        while element is not None:
            yield element
            element = element.parent

    def delay(self, now_ns: int) -> int:
        """Return the nanoseconds until the element's own limit admits the next WQE; 0 for now.

        The limit of its rate limiter counts as its own.
        """
        own = 0 if self.limit is None else self.limit.delay(now_ns)
        return own if self.cap is None else max(own, self.cap.delay(now_ns))

    def serve(self, octets: int, now_ns: int) -> None:
        """Charge ``octets`` bytes sent to the element's limit and to its claim on the one above."""
        self.claim.serve(octets, self.bw_share)
        for limit in (self.limit, self.cap.limit if self.cap is not None else None):
            if limit is not None:
                limit.charge(octets, now_ns)

    def unlink(self) -> None:
        """Drop the claims, which refer back to the element."""
        self.wanting.clear()

    def holds(self) -> tuple[Object, ...]:
        return tuple(one for one in (self.parent, self.cap) if one is not None)


class Terms(NamedTuple):
    """The limits of a send queue; None or empty where it has none."""

    rate: RateLimit | None
    """Rate limit of the queue itself."""
    of_class: Limit | None
    """Limit of the traffic class, shared with other queues."""
    leaves: tuple[SchedulingElement, ...]
    """The queue group, and the vPort or its traffic class."""
    by_class: bool = False
    """Whether the vPort has a leaf for each traffic class."""


class Pacing:
    """Applies all rate limits of a send queue."""

    __slots__ = ("_limits", "_own", "_paths", "_requested", "terms")

    def __init__(self, terms: Terms, before: Pacing | None = None) -> None:
        """Apply ``terms``; an unchanged rate of the queue itself keeps the debt of ``before``."""
        rate, of_class, leaves, _ = self.terms = terms
        self._own: Limit | None = None
        if before is not None and before.terms.rate == rate:
            self._own = before._own
        elif rate is not None:
            self._own = Limit(rate.kbps * _BPS_PER_KBPS, rate.burst_bytes)
        self._limits = tuple(limit for limit in (self._own, of_class) if limit is not None)
        self._paths = tuple(_path(leaf) for leaf in leaves)
        """For each leaf: the claims from the queue up, with the elements that they claim."""
        self._requested: set[BandwidthClaim] = set()
        """Claims by which the queue has waited since it was last idle."""

    def delay(self, now_ns: int, *, wants: bool = True) -> int:
        """Return the nanoseconds until the next WQE may be sent; 0 for now. Charges nothing.

        With ``wants``, a delayed queue then waits ahead of others that were served more, until it
        sends or calls :meth:`rest`. SLACK_NS is returned where only such neighbours are to go
        first.
        """
        own = max((limit.delay(now_ns) for limit in self._limits), default=0)
        if not self._paths:
            return own
        longest, claims = own, set()
        for path in self._paths:
            delays = [element.delay(now_ns) for _, element in path]
            longest = max(longest, *delays)
            claims |= _held_back(path, own, delays)
        if longest:
            if wants:
                self._want(claims)
        elif any(claim.is_ahead() for path in self._paths for claim, _ in path):
            return SLACK_NS
        return longest

    def charge(self, octets: int, now_ns: int) -> None:
        """Charge ``octets`` bytes sent to all limits and elements of the queue."""
        for limit in self._limits:
            limit.charge(octets, now_ns)
        for path in self._paths:
            path[0][0].serve(octets)
            for _, element in path:
                element.serve(octets, now_ns)

    def stop_waiting(self) -> None:
        """Stop waiting: the queue has no data to send."""
        self._want(set())

    def _want(self, claims: set[BandwidthClaim]) -> None:
        """Wait by exactly these claims: end waits by others, start those that are missing."""
        if claims != self._requested:
            for claim in self._requested - claims:
                claim.stop_waiting()
            for claim in claims - self._requested:
                claim.want()
            self._requested = claims


ClaimPath = tuple[tuple[BandwidthClaim, SchedulingElement], ...]


def _path(leaf: SchedulingElement) -> ClaimPath:
    elements = [*leaf.up()]
    claims = [BandwidthClaim(leaf), *(element.claim for element in elements)]
    return tuple(zip(claims, elements))


def _held_back(path: ClaimPath, own: int, delays: list[int]) -> set[BandwidthClaim]:
    """Return the claims by which a delayed queue waits; empty if nothing delays it.

    A claim counts if its element, or one above, delays the queue. Claims below the limit that
    delays the queue longest are excluded: neighbours there need not wait for it.
    """
    below = accumulate(delays, max, initial=own)
    above = [*accumulate(reversed(delays), max)][::-1]
    return {claim for (claim, _), low, high in zip(path, below, above) if high and high >= low}
