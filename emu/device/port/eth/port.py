"""The function's Ethernet port and its virtual port: link, addresses, MTU, counters.

A function without an embedded switch has one virtual port (vPort), which is plugged straight into
the physical one. The driver configures the vPort by NIC vPort context commands and the physical
port by registers (PAOS, PMTU, PTYS).

Sources: PRM "NIC vPort Context", "Port registers"; mlx5_ifc.h: nic_vport_context, paos_reg,
pmtu_reg; IEEE 802.3 5.2, RFC 2819, RFC 2863 (counters).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.counts import Traffic
from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.qos import Qos

MAC_BYTES = 6
BROADCAST = b"\xff" * MAC_BYTES
FCS_BYTES = 4
"""The frame check sequence, which counters of the physical port include and frames here lack."""

MAX_MTU = 9978
"""Hardware MTU: the longest frame with Ethernet header, a VLAN tag and frame check sequence."""
DEFAULT_MTU = 1522

SIZE_LIMITS = (64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, 10239)
"""Upper ends of the frame sizes that RFC 2819 counts (eth_2819_cntrs_grp_data_layout)."""

_C_TAG = b"\x81\x00"
_TAG_AT, _TCI_AT = slice(12, 14), 14
_PRIORITY_SHIFT = 5
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_DSCP_SHIFT, _IPV6_DSCP_SHIFT, _DSCP_MASK = 2, 6, 0x3F

_FIELDS = {
    "eth_unicast": "unicast",
    "eth_multicast": "multicast",
    "eth_broadcast": "broadcast",
    "ib_unicast": "rdma_unicast",
    "ib_multicast": "rdma_multicast",
}
"""Fields of :class:`Direction`, by what query_vport_counter_out calls them."""


def _without(all_: Traffic, some: Traffic) -> Traffic:
    return Traffic(all_.packets - some.packets, all_.octets - some.octets)


def _sizes() -> list[int]:
    return [0] * (len(SIZE_LIMITS) + 1)


def priority_of(data: bytes) -> int:
    """The priority in the VLAN tag of a frame, 0 without one (IEEE 802.1Q)."""
    has_tag = data[_TAG_AT] == _C_TAG and len(data) > _TCI_AT
    return data[_TCI_AT] >> _PRIORITY_SHIFT if has_tag else 0


def dscp_of(data: bytes) -> int:
    """The DSCP of an IP packet's frame, with a VLAN tag or without; 0 of any other frame."""
    at = _TCI_AT
    if data[_TAG_AT] == _C_TAG:
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
    """What has passed the virtual port one way since power-on."""

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
    dscp_to_priority: bytearray | None = None
    """The priority of each DSCP while the port trusts that; None while it trusts VLAN tags."""
    discards: int = 0
    """Frames without an error that were dropped at the port, because of its link."""
    errors: int = 0
    """Frames dropped because something is wrong with them; includes ``too_long``."""
    too_long: int = 0

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
        if self.dscp_to_priority is not None or data[_TAG_AT] == _C_TAG:
            self.sort_frame(data, packets, octets)

    def sort_frame(self, data: bytes, packets: int, octets: int) -> None:
        """Count by priority what is counted by kind already."""
        self.sort(priority_of(data), dscp_of(data), packets, octets)

    def sort(self, tag: int, dscp: int, packets: int, octets: int) -> None:
        """The same of packets with this priority in their tag, 0 without one, and this DSCP.

        Priority 0 is not counted: it has what is left of all.
        """
        table = self.dscp_to_priority
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
        for name in _FIELDS.values():
            setattr(rest, name, _without(getattr(self, name), getattr(looped, name)))
        rest.priorities = {
            priority: _without(traffic, looped.priorities.get(priority, Traffic()))
            for priority, traffic in self.priorities.items()
        }
        return rest

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


@dataclass(slots=True)
class Vport:
    """The NIC vPort context: what the driver has asked for (mlx5_ifc.h: nic_vport_context)."""

    admin_up: bool = True
    """What MODIFY_VPORT_STATE has asked for."""
    mtu: int = 0
    """Hardware MTU; 0 until the driver sets one."""
    promisc_uc: bool = False
    promisc_mc: bool = False
    promisc_all: bool = False
    uc_list: tuple[bytes, ...] = ()
    """Unicast MAC addresses that the driver wants."""
    own: frozenset[bytes] = frozenset()
    """The same, to look an address up."""
    mc_list: tuple[bytes, ...] = ()
    vlan_list: tuple[int, ...] = ()
    roce_en: bool = False
    qkey_violations: int = 0
    steering_discards: int = 0
    """Received packets that no flow table entry led anywhere."""
    wqe_too_small: int = 0
    """Received packets that were longer than the request at their receive queue."""


@dataclass(slots=True)
class EthPort:
    """Port 1 of an Ethernet function. ``guid`` is port and node GUID."""

    guid: int
    permanent_address: bytes
    """MAC address of the vPort, 6 bytes. What is received is decided by flow tables."""
    speed: int = 100_000
    """Mb/s of the link."""
    max_mtu: int = MAX_MTU
    admin_mtu: int = DEFAULT_MTU
    """Hardware MTU of the physical port, as the driver has set it (PMTU)."""
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)
    admin_up: bool = True
    """What the driver wants (PAOS)."""
    has_cable: bool = True
    """Whether something is plugged in."""
    an_disabled: bool = False
    """The driver wants the speed without autonegotiation."""
    flow: FlowControl = field(default_factory=FlowControl)
    """Pause frames (PFCC)."""
    qos: Qos = field(default_factory=Qos)
    """Priorities and traffic classes."""
    fec_admin: int = 0
    """The error correction that the driver has chosen (``port.eth.fec``); 0 lets the port."""
    vport: Vport = field(default_factory=Vport)
    sent: Direction = field(default_factory=Direction)
    received: Direction = field(default_factory=Direction)
    looped_out: Direction = field(default_factory=Direction)
    """What of ``sent`` has come back to the function and left it nowhere else."""
    looped_in: Direction = field(default_factory=Direction)
    """What of ``received`` the function has sent itself."""
    cleared: dict[str, Traffic] = field(default_factory=dict)
    """The traffic at the time when the driver last cleared the vPort's counters."""
    ppcnt_base: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    """The counters of a PPCNT group when the driver last cleared it, by group and priority."""
    link_downed: int = 0
    """How often the link has failed: phys_layer_cntrs.link_down_events."""

    @property
    def is_up(self) -> bool:
        """Whether frames can pass."""
        return self.admin_up and self.has_cable and self.vport.admin_up

    def set_link(self, *, up: bool) -> None:
        """Plug the cable in, or pull it."""
        was_up = self.is_up
        self.has_cable = up
        self._count_down(was_up)

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port as the driver asks."""
        was_up = self.is_up
        self.admin_up = up
        self._count_down(was_up)

    @property
    def trusts_dscp(self) -> bool:
        """Whether frames have their priorities by DSCP, not by VLAN tag."""
        return self.received.dscp_to_priority is not None

    def trust(self, *, dscp: bool) -> None:
        """Take frames' priorities from their DSCP, or from their VLAN tags."""
        table = self.qos.dscp_to_priority if dscp else None
        for way in (self.sent, self.received, self.looped_out, self.looped_in):
            way.dscp_to_priority = table

    def _count_down(self, was_up: bool) -> None:
        if was_up and not self.is_up:
            self.link_downed += 1

    @property
    def address(self) -> str:
        """The vPort's MAC address."""
        return self.permanent_address.hex(":")

    @property
    def link_state(self) -> str:
        """Whether frames can pass, and if not, why."""
        if not self.has_cable:
            return "NO CABLE"
        return "UP" if self.admin_up else "DISABLED"

    def totals(self) -> tuple[Direction, Direction]:
        """All frames sent and received, without frame check sequences."""
        return self.sent, self.received

    def counters(self) -> dict[str, Traffic]:
        """A copy of the traffic since power-on, by the names in query_vport_counter_out."""
        ways = {"transmitted": self.sent, "received": self.received}
        return {
            f"{way}_{name}": replace(getattr(direction, field_name))
            for way, direction in ways.items()
            for name, field_name in _FIELDS.items()
        } | {"local_loopback": Traffic(self.looped_in.packets, self.looped_in.octets)}

    @property
    def mtu(self) -> int:
        """Hardware MTU in force: the longest frame with its frame check sequence."""
        mtu = self.vport.mtu or self.max_mtu
        return mtu if mtu < self.admin_mtu else self.admin_mtu


def mac_of(guid: int) -> bytes:
    """The MAC address that belongs to a GUID: its vendor and its serial number, 3 bytes each.

    As on a real board. The group bit of a GUID that the user has chosen is cleared.
    """
    octets = guid.to_bytes(8, "big")
    return bytes((octets[0] & 0xFE,)) + octets[1:3] + octets[5:]
