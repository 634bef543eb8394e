"""Counters of an InfiniBand port: packets, drops, wrong keys (IBTA 14.2.5.6, 16.1.3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from emu.device.objects.queues.direct_path import Marks, Uncounted, UncountedPaths
from emu.device.port.counts import MAX_VIOLATIONS, Traffic

_CASTS: Final = ("unicast", "multicast")


def _no_traffic() -> tuple[Traffic, Traffic]:
    return Traffic(), Traffic()


def _sum(casts: tuple[Traffic, ...]) -> Traffic:
    return Traffic(sum(cast.packets for cast in casts), sum(cast.octets for cast in casts))


@dataclass(slots=True, kw_only=True)
class IbCounts:
    """The counters of a port, and the bases of its readers."""

    dropped: Counter[str] = field(default_factory=Counter)
    """Number of packets that no queue pair accepted, by error."""
    pkey_violations: int = 0
    """Packets with a P_Key that does not match (PortInfo.P_KeyViolations)."""
    qkey_violations: int = 0
    """Datagrams with a wrong Q_Key (PortInfo.Q_KeyViolations)."""
    transmitted: tuple[Traffic, Traffic] = field(default_factory=_no_traffic)
    """Unicast and multicast packets sent."""
    received: tuple[Traffic, Traffic] = field(default_factory=_no_traffic)
    """Unicast and multicast packets received."""
    looped: tuple[Traffic, Traffic] = field(default_factory=_no_traffic)
    """Received packets that this port itself has sent without use of the physical port."""
    uncounted: UncountedPaths = field(default_factory=UncountedPaths)
    """Paths of the port's queue pairs, and to them, with messages or packets to be counted."""
    cleared: dict[str, Traffic] = field(default_factory=dict)
    """The traffic when the driver last cleared its counters, by name."""
    pma_base: dict[tuple[int, str], int] = field(default_factory=dict)
    """The base of performance management counters, by attribute and field."""
    link_downed: int = 0
    """Number of link failures (IBTA 16.1.3.5, LinkDownedCounter)."""
    errors: Counter[str] = field(default_factory=Counter)
    """Errors at the port, by the names of PortCounters (``link_errors``)."""
    ppcnt_base: Counter[str] = field(default_factory=Counter)
    """The values of ``failures`` when the driver last cleared them."""

    def count_sent(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count sent packets. Octets run from the first header to the invariant CRC.

        PortXmitData counts the same octets in words (IBTA 16.1.3.5); the driver divides by four
        (hw/mad.c:pma_cnt_ext_assign).
        """
        traffic = self.transmitted[multicast]
        traffic.packets += packets
        traffic.octets += octets

    def count_received(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets; octets as in count_sent."""
        traffic = self.received[multicast]
        traffic.packets += packets
        traffic.octets += octets

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """Count unicast packets of a message inside the process, sent and received ones.

        Octets as in count_sent.
        """
        transmitted, taken = self.transmitted[False], self.received[False]
        transmitted.packets += sent
        transmitted.octets += sent_octets
        taken.packets += received
        taken.octets += received_octets

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """Count a message between queue pairs of this port; octets as in count_sent.

        ``packets`` and the responses (``back``) both count as sent, received and looped back.
        """
        packets, octets = packets + back, octets + back_octets
        for traffic in (self.transmitted[False], self.received[False], self.looped[False]):
            traffic.packets += packets
            traffic.octets += octets

    def count_later(self, path: Uncounted) -> None:
        """Count the path's messages or packets before this port's counters are read."""
        self.uncounted.add(path)

    def count_looped(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets that this port itself has sent, besides count_received."""
        traffic = self.looped[multicast]
        traffic.packets += packets
        traffic.octets += octets

    def counters(self) -> dict[str, Traffic]:
        """Return a copy of the traffic since power-on, by names in query_vport_counter_out.

        ``local_loopback`` is the received part that the port itself has sent.
        """
        self.uncounted.count()
        directions = {"transmitted": self.transmitted, "received": self.received}
        return {
            f"{prefix}_ib_{cast}": replace(traffic)
            for prefix, casts in directions.items()
            for cast, traffic in zip(_CASTS, casts)
        } | {"local_loopback": _sum(self.looped)}

    def failures(self) -> Counter[str]:
        """Return a copy of the error and link failure counts, by names in PortCounters."""
        return Counter({**self.errors, "link_downed_counter": self.link_downed})

    def totals(self) -> tuple[Traffic, Traffic]:
        """Return all packets sent and received."""
        self.uncounted.count()
        return _sum(self.transmitted), _sum(self.received)

    def violated_pkey(self) -> None:
        """Count a wrong P_Key, up to the counter's maximum (IBTA 14.2.5.6)."""
        self.pkey_violations = min(self.pkey_violations + 1, MAX_VIOLATIONS)

    def violated_qkey(self) -> None:
        """Count a wrong Q_Key, up to the counter's maximum."""
        self.qkey_violations = min(self.qkey_violations + 1, MAX_VIOLATIONS)
