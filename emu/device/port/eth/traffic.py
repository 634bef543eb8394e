"""Traffic of an Ethernet vPort in one direction: frames by kind, by size and by priority.

Sources: IEEE 802.3 5.2, RFC 2819, RFC 2863; mlx5_ifc.h: query_vport_counter_out,
eth_2819_cntrs_grp_data_layout.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from emu.device.port.counts import Traffic
from emu.device.port.eth.qos import Qos

MAC_BYTES: Final = 6
BROADCAST: Final = b"\xff" * MAC_BYTES
GROUP_BIT: Final = 1
"""In a MAC address's first byte: set for multicast and broadcast."""
FCS_BYTES: Final = 4
"""Frame check sequence: included in counters of the physical port, absent from frames here."""

SIZE_LIMITS: Final = (64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, 10239)
"""Upper limits of the frame sizes that RFC 2819 counts (eth_2819_cntrs_grp_data_layout)."""

_C_TAG: Final = b"\x81\x00"
_TAG_AT: Final = 12
_TCI_AT: Final = 14
_PRIORITY_SHIFT: Final = 5
_IPV4: Final = b"\x08\x00"
_IPV6: Final = b"\x86\xdd"
_DSCP_SHIFT: Final = 2
_IPV6_DSCP_SHIFT: Final = 6
_DSCP_MASK: Final = 0x3F

KINDS: Final = {
    "eth_unicast": "unicast",
    "eth_multicast": "multicast",
    "eth_broadcast": "broadcast",
    "ib_unicast": "rdma_unicast",
    "ib_multicast": "rdma_multicast",
}
"""Fields of :class:`Direction`, by name in query_vport_counter_out."""

_NUMBERS: Final = ("discards", "errors", "too_long", "fcs_errors")
"""Fields of :class:`Direction` that are numbers of frames."""


def _sizes() -> list[int]:
    return [0] * (len(SIZE_LIMITS) + 1)


def frame_priority(qos: Qos, data: bytes) -> int:
    """Return the priority of a frame, by its DSCP or its customer tag: the one that is trusted."""
    return priority_of(data) if qos.trusted is None else qos.trusted[dscp_of(data)]


def priority_of(data: bytes) -> int:
    """Return the priority in the customer tag of a frame, 0 without one (IEEE 802.1Q)."""
    has_tag = data[_TAG_AT:_TCI_AT] == _C_TAG and len(data) > _TCI_AT
    return data[_TCI_AT] >> _PRIORITY_SHIFT if has_tag else 0


def dscp_of(data: bytes) -> int:
    """Return the DSCP of an IP packet's frame, with or without VLAN tag; 0 for other frames.

    Behind two tags or a service tag, the result is 0.
    """
    at = _TCI_AT
    if data[_TAG_AT:_TCI_AT] == _C_TAG:
        at += 4
    kind = data[at - 2 : at]
    if len(data) < at + 2:
        return 0
    if kind == _IPV4:
        return data[at + 1] >> _DSCP_SHIFT
    if kind == _IPV6:
        return int.from_bytes(data[at : at + 2], "big") >> _IPV6_DSCP_SHIFT & _DSCP_MASK
    return 0


@dataclass(slots=True)
class Direction:
    """Traffic of one direction since power-on."""

    unicast: Traffic = field(default_factory=Traffic)
    multicast: Traffic = field(default_factory=Traffic)
    broadcast: Traffic = field(default_factory=Traffic)
    rdma_unicast: Traffic = field(default_factory=Traffic)
    rdma_multicast: Traffic = field(default_factory=Traffic)
    """RoCE packets sent or received, including those of messages on the direct path."""
    sizes: list[int] = field(default_factory=_sizes)
    """Frames by size with frame check sequence; the last entry counts the longest."""
    priorities: dict[int, Traffic] = field(default_factory=dict)
    """Frames by priority, except priority 0."""
    qos: Qos = field(default_factory=Qos)
    """The port's settings, for its trust in DSCP or VLAN tags."""
    discards: int = 0
    """Number of error-free frames dropped: with the link down, for lack of space, unchangeable."""
    errors: int = 0
    """Number of frames dropped because of errors; includes the next two."""
    too_long: int = 0
    fcs_errors: int = 0
    """Number of frames with a wrong check sequence, including those received nevertheless."""

    def add(self, data: bytes, packets: int = 1, octets: int = 0) -> None:
        """Count a frame, or a super-frame for ``packets`` frames of ``octets`` bytes in total.

        Counts by kind (from the destination MAC address), by size, and by priority if a tag or DSCP
        gives one.
        """
        octets = octets or len(data)
        if not data[0] & 1:
            kind = self.unicast
        elif data[:MAC_BYTES] == BROADCAST:
            kind = self.broadcast
        else:
            kind = self.multicast
        self.add_to(kind, packets, octets)
        if self.qos.trusted is not None or data[_TAG_AT:_TCI_AT] == _C_TAG:
            self.sort_frame(data, packets, octets)

    def sort_frame(self, data: bytes, packets: int, octets: int) -> None:
        """Count by priority a frame that is already counted by kind."""
        if priority := frame_priority(self.qos, data):
            self._count(priority, packets, octets)

    def sort(self, tag: int, dscp: int, packets: int, octets: int) -> None:
        """Count packets by priority, from their tag's priority (0 without one) or their DSCP.

        The DSCP counts only while the port trusts it. Priority 0 is not counted, as it is the
        remainder of the total.
        """
        table = self.qos.trusted
        if priority := tag if table is None else table[dscp]:
            self._count(priority, packets, octets)

    def _count(self, priority: int, packets: int, octets: int) -> None:
        traffic = self.priorities.setdefault(priority, Traffic())
        traffic.packets += packets
        traffic.octets += octets

    def add_to(self, kind: Traffic, packets: int, octets: int) -> None:
        """Count packets of a kind with ``octets`` in total; all count with their mean size.

        ``kind`` is a field of this object. ``packets`` must not be 0.
        """
        kind.packets += packets
        kind.octets += octets
        self.sizes[bisect_left(SIZE_LIMITS, octets // packets + FCS_BYTES)] += packets

    def without(self, part: Direction) -> Direction:
        """Return the traffic of ``self`` except ``part``; neither operand changes.

        A number is 0 where ``part`` has more: looped frames may be lost before they are received.
        """
        return self._combined(part, lambda mine, its: max(mine - its, 0))

    def __add__(self, other: Direction) -> Direction:
        """Return the sum of both directions."""
        return self._combined(other, operator.add)

    def _combined(self, other: Direction, rule: Callable[[int, int], int]) -> Direction:
        """Return the traffic whose numbers follow from those of both by ``rule``."""

        def traffic(one: Traffic, two: Traffic) -> Traffic:
            return Traffic(rule(one.packets, two.packets), rule(one.octets, two.octets))

        both = replace(self, sizes=[rule(a, b) for a, b in zip(self.sizes, other.sizes)])
        for name in _NUMBERS:
            setattr(both, name, rule(getattr(self, name), getattr(other, name)))
        for name in KINDS.values():
            setattr(both, name, traffic(getattr(self, name), getattr(other, name)))
        mine, others, none = self.priorities, other.priorities, Traffic()
        both.priorities = {
            priority: traffic(mine.get(priority, none), others.get(priority, none))
            for priority in {*mine, *others}
        }
        return both

    @property
    def packets(self) -> int:
        """Number of all frames."""
        return sum(traffic.packets for traffic in self._all())

    def _all(self) -> tuple[Traffic, ...]:
        return (
            self.unicast, self.multicast, self.broadcast, self.rdma_unicast, self.rdma_multicast,
        )  # fmt: skip

    @property
    def octets(self) -> int:
        """Number of all octets, without frame check sequences."""
        return sum(traffic.octets for traffic in self._all())
