"""What passes an Ethernet vPort one way: frames counted by kind, by size and by priority.

Sources: IEEE 802.3 5.2, RFC 2819, RFC 2863; mlx5_ifc.h: query_vport_counter_out,
eth_2819_cntrs_grp_data_layout.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Final

from emu.device.port.counts import Traffic
from emu.device.port.eth.qos import Qos

MAC_BYTES: Final = 6
BROADCAST: Final = b"\xff" * MAC_BYTES
FCS_BYTES: Final = 4
"""The frame check sequence, which counters of the physical port include and frames here lack."""

SIZE_LIMITS: Final = (64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, 10239)
"""Upper ends of the frame sizes that RFC 2819 counts (eth_2819_cntrs_grp_data_layout)."""

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
"""Fields of :class:`Direction`, by what query_vport_counter_out calls them."""


def _without(all_: Traffic, some: Traffic) -> Traffic:
    return Traffic(all_.packets - some.packets, all_.octets - some.octets)


def _with(one: Traffic, other: Traffic) -> Traffic:
    return Traffic(one.packets + other.packets, one.octets + other.octets)


def _sizes() -> list[int]:
    return [0] * (len(SIZE_LIMITS) + 1)


def priority_of(data: bytes) -> int:
    """The priority in the VLAN tag of a frame, 0 without one (IEEE 802.1Q)."""
    has_tag = data[_TAG_AT:_TCI_AT] == _C_TAG and len(data) > _TCI_AT
    return data[_TCI_AT] >> _PRIORITY_SHIFT if has_tag else 0


def dscp_of(data: bytes) -> int:
    """The DSCP of an IP packet's frame, with a VLAN tag or without; 0 of any other frame."""
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
    """What has passed one way since power-on."""

    unicast: Traffic = field(default_factory=Traffic)
    multicast: Traffic = field(default_factory=Traffic)
    broadcast: Traffic = field(default_factory=Traffic)
    rdma_unicast: Traffic = field(default_factory=Traffic)
    rdma_multicast: Traffic = field(default_factory=Traffic)
    """What RoCE has sent or received, or would have in frames for messages that needed none."""
    sizes: list[int] = field(default_factory=_sizes)
    """Frames by size with frame check sequence; the last entry is for the longest."""
    priorities: dict[int, Traffic] = field(default_factory=dict)
    """Frames whose priority is not 0, by it."""
    qos: Qos = field(default_factory=Qos)
    """The port's: whether it trusts DSCP or VLAN tags."""
    discards: int = 0
    """Frames without an error that were dropped at the port, because of its link."""
    errors: int = 0
    """Frames dropped because something is wrong with them; includes the next two."""
    too_long: int = 0
    fcs_errors: int = 0
    """Frames with a wrong check sequence, those included that were received all the same."""

    def add(self, data: bytes, packets: int = 1, octets: int = 0) -> None:
        """Count a frame, or a super-frame that stands for ``packets`` of ``octets`` in all."""
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
        """Count by priority what is counted by kind already."""
        self.sort(priority_of(data), dscp_of(data), packets, octets)

    def sort(self, tag: int, dscp: int, packets: int, octets: int) -> None:
        """The same of packets with this priority in their tag, 0 without one, and this DSCP.

        Priority 0 is not counted: it has what is left of all.
        """
        table = self.qos.trusted
        if priority := tag if table is None else table[dscp]:
            traffic = self.priorities.setdefault(priority, Traffic())
            traffic.packets += packets
            traffic.octets += octets

    def add_to(self, kind: Traffic, packets: int, octets: int) -> None:
        """Count packets of a kind, of ``octets`` in all; their sizes count as their mean."""
        kind.packets += packets
        kind.octets += octets
        self.sizes[bisect_left(SIZE_LIMITS, octets // packets + FCS_BYTES)] += packets

    def without(self, looped: Direction) -> Direction:
        """What has passed the physical port: all but ``looped``, which never came there."""
        rest = replace(self, sizes=[a - b for a, b in zip(self.sizes, looped.sizes)])
        for name in KINDS.values():
            setattr(rest, name, _without(getattr(self, name), getattr(looped, name)))
        rest.priorities = {
            priority: _without(traffic, looped.priorities.get(priority, Traffic()))
            for priority, traffic in self.priorities.items()
        }
        return rest

    def __add__(self, other: Direction) -> Direction:
        """What has passed both."""
        both = replace(
            self, sizes=[a + b for a, b in zip(self.sizes, other.sizes)],
            discards=self.discards + other.discards, errors=self.errors + other.errors,
            too_long=self.too_long + other.too_long,
        )  # fmt: skip
        for name in KINDS.values():
            setattr(both, name, _with(getattr(self, name), getattr(other, name)))
        both.priorities = {
            priority: _with(
                self.priorities.get(priority, Traffic()), other.priorities.get(priority, Traffic())
            )
            for priority in {*self.priorities, *other.priorities}
        }
        return both

    @property
    def packets(self) -> int:
        """All frames."""
        return sum(traffic.packets for traffic in self._all())

    def _all(self) -> tuple[Traffic, ...]:
        return (
            self.unicast, self.multicast, self.broadcast, self.rdma_unicast, self.rdma_multicast,
        )  # fmt: skip

    @property
    def octets(self) -> int:
        """All octets, without frame check sequences."""
        return sum(traffic.octets for traffic in self._all())
