"""A direction of a link: the packets in flight, and their times of arrival.

A packet first waits for the wire (``rate``), and is then delayed (``delay``). The packets in flight
are bounded in number and bytes, and the function's ledger holds the bytes.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from emu.device.objects.ledger import Ledger
from emu.device.ports import Clock, Timer
from emu.device.rounds.backlog import Backlog
from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.costs import STEPS_PER_LINK_PACKET
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.server.net.link.netem import NetemRandom

if TYPE_CHECKING:
    from emu.device.faults.link import PlannedLink

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""Maximum bytes in flight in a direction."""
PACKET_BYTES = 300
"""Memory of the host for a packet in flight, besides its bytes."""
ACCOUNT = "link"
_NS_PER_S = 1_000_000_000


class LinkPacket(Protocol):
    """A packet, frame or datagram in flight, and the path behind the link."""

    @property
    def octets(self) -> int:
        """Bytes on the wire."""

    def keep(self) -> LinkPacket:
        """Return the packet with bytes of its own, which stay valid until it is forwarded."""

    def marked(self) -> LinkPacket | None:
        """Return the packet with a congestion mark; None if its sender does not support marks."""

    def corrupted(self, draw: int) -> LinkPacket | None:
        """Return the packet with one bit inverted, chosen by the 64-bit ``draw``.

        None where the receiver would drop it by its CRC.
        """

    def go_on(self) -> None:
        """Forward the packet behind the link. Never raises."""


def _logged(call: Callable[[], object]) -> None:
    """Make a call; log an exception and go on, so that only the call's packet is lost."""
    try:
        call()
    except Exception:
        log.exception("internal error: a packet of a link is lost")


class _InFlight(NamedTuple):
    due_ns: int
    order: int
    packet: LinkPacket
    octets: int
    ledger: Ledger


class LinkDirection:
    """The packets that a function sends, or those that it receives."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        ledger: Callable[[], Ledger],
        link: PlannedLink,
        seed: int = 0,
    ) -> None:
        """Create a link; ``name`` seeds random numbers, ``ledger`` returns the current ledger."""
        self._clock = clock
        self._ledger = ledger
        self.link = link
        self._netem = NetemRandom(name, seed)
        self._in_flight: list[_InFlight] = []
        self._octets = 0
        self._backlog = Backlog(clock.budget, _logged)
        """Packets that arrived after the round's budget was used up."""
        self._free_ns = 0
        """Time at which the wire is free."""
        self._timer: Timer | None = None
        self._due_ns = 0
        self._waiting: list[Callable[[], None]] = []
        self.counts: Counter[str] = Counter()

    def change(self, link: PlannedLink, seed: int) -> None:
        """Apply properties and seed from the next packet on; packets in flight keep their arrival.

        Senders that wait are woken if the new limit has space for them.
        """
        self.link, self._netem.seed = link, seed
        if link.rate is None:
            self._free_ns = 0
        self._wake()

    # -- for senders that can wait

    @property
    def is_pausing(self) -> bool:
        """Whether senders should wait: half of the limit or of MAX_BYTES is in flight."""
        return len(self._in_flight) * 2 >= self.link.limit or self._octets * 2 >= MAX_BYTES

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, as soon as the link does not pause, possibly at once."""
        if self.is_pausing:
            self._waiting.append(callback)
        else:
            callback()

    def _wake(self) -> None:
        """Call the waiting senders, unless the link still pauses."""
        if self._waiting and not self.is_pausing:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    # -- packets

    def take(self, packet: LinkPacket) -> None:
        """Take a packet: drop it, or forward it later, at its time of arrival.

        Beyond the round's budget, the packet waits in a backlog; a full backlog counts "over the
        limit".
        """
        if self._backlog.is_free:
            self._take(packet)
        elif not self._backlog.keep(packet.octets, self._take, packet.keep()):
            self.counts["over the limit"] += 1

    def take_all(self, link_packets: Iterator[LinkPacket], octets: int) -> None:
        """Take packets from an iterator, over several rounds if the budget requires.

        ``octets`` is the memory behind all of them. A full backlog drops all and counts one "over
        the limit".
        """
        if not self._backlog.do(octets, self._begin, link_packets, octets):
            self.counts["over the limit"] += 1

    def _begin(self, link_packets: Iterator[LinkPacket], octets: int) -> None:
        self._backlog.begin(self._each(link_packets), octets)

    def _each(self, link_packets: Iterator[LinkPacket]) -> Portions[None]:
        """Take the packets one by one, and yield while the round's budget is used up."""
        budget = self._clock.budget
        for packet in link_packets:
            while budget.exhausted(budget.limit):
                yield
            self._take(packet)

    def _take(self, packet: LinkPacket, *, may_double: bool = True) -> None:
        """Apply netem's decision to a packet: enqueue, mark, corrupt, duplicate or lose it.

        Each outcome is counted in ``counts``. With ``ecn``, a lost packet is marked and sent if its
        sender supports marks. A duplicate is decided anew and not doubled again.
        """
        link = self.link
        self._clock.budget.charge(STEPS_PER_LINK_PACKET)
        decision = self._netem.decide(link)
        self.counts["packets"] += 1
        arrives: LinkPacket | None = packet
        if decision.lost:
            arrives = packet.marked() if link.ecn else None
            self.counts["lost" if arrives is None else "marked"] += 1
        elif decision.corrupted:
            arrives = packet.corrupted(decision.draw)
            self.counts["corrupted"] += 1
        if arrives is not None:
            if decision.overtakes:
                self.counts["reordered"] += 1
            self._enqueue(
                arrives, 0 if decision.overtakes else decision.delay_ns, marked=decision.marked
            )
        if decision.duplicated and may_double:
            self.counts["duplicated"] += 1
            self._take(packet, may_double=False)

    def _enqueue(self, packet: LinkPacket, delay_ns: int, *, marked: bool) -> None:
        """Put a packet in flight, due after the wire's time at ``rate`` and the delay.

        Count "over the limit" and drop the packet at the limit of packets or MAX_BYTES. A wait
        above ``ce_threshold`` marks it. The function's ledger holds its bytes.
        """
        link, now = self.link, self._clock.now_ns()
        octets = packet.octets + PACKET_BYTES
        if len(self._in_flight) >= link.limit or self._octets + octets > MAX_BYTES:
            self.counts["over the limit"] += 1
            return
        leaves = now
        if link.rate is not None:
            begins = max(now, self._free_ns)
            leaves = self._free_ns = begins + packet.octets * 8 * _NS_PER_S // link.rate
            marked |= link.ce_threshold is not None and begins - now > link.ce_threshold
        if marked and (with_mark := packet.marked()) is not None:
            self.counts["marked"] += 1
            packet = with_mark
        ledger = self._ledger()
        ledger.hold(ACCOUNT, octets)
        self._octets += octets
        entry = _InFlight(leaves + delay_ns, self._netem.number, packet.keep(), octets, ledger)
        heapq.heappush(self._in_flight, entry)
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the earliest arrival, unless it is already as early."""
        due = self._in_flight[0].due_ns
        if self._timer is not None:
            if self._due_ns <= due:
                return
            self._timer.cancel()
        self._due_ns = due
        self._timer = self._clock.call_later(max(due - self._clock.now_ns(), 0), self._run)

    def _run(self) -> None:
        """Forward the packets that are due, within a poll and the budget, and wake senders.

        An exception behind the link is logged and costs only its packet.
        """
        self._timer = None
        now, budget = self._clock.now_ns(), self._clock.budget
        for _ in range(PACKETS_PER_POLL):
            if (
                not self._in_flight
                or self._in_flight[0].due_ns > now
                or budget.exhausted(TIMER_BUDGET)
            ):
                break
            entry = heapq.heappop(self._in_flight)
            self._octets -= entry.octets
            entry.ledger.give_back(ACCOUNT, entry.octets)
            _logged(entry.packet.go_on)
        if self._in_flight:
            self._set_timer()
        self._wake()

    def about(self) -> dict[str, object]:
        """Return properties, packets and bytes in flight, and counts by outcome."""
        return {
            "properties": self.link.properties(),
            "in_flight": len(self._in_flight),
            "bytes": self._octets,
            "counts": dict(sorted(self.counts.items())),
        }
