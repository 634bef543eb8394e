"""The ``Link`` of an Ethernet function: RoCE for the transport services.

An address is the destination of a path as a number: the index of the source GID, the peer's MAC
address and its GID. Each frame takes source GID, version, source MAC address and VLAN from the GID
table, which may change during a queue pair's lifetime.

Sources: IBTA annexes A16 and A17; mlx5_ifc.h: ads; device.h: mlx5_av; hw/qp.c: mlx5_set_path.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.queues.direct_path import Marks, Uncounted
from emu.device.objects.queues.qp_context import GlobalRoute
from emu.device.port import partitions
from emu.device.port.congestion import Congestion
from emu.device.port.counts import MAX_VIOLATIONS
from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.eth.roce.datagram import RoceDestination, RoceOrigin, area_of, tci_of
from emu.device.port.eth.roce.framing import Framer, RoceHeaders, header_bytes
from emu.device.port.eth.roce.gids import NO_GID, NO_MAC, GidTable, text
from emu.device.port.eth.roce.reading import network_header, parse, seal, transport_header
from emu.device.port.eth.roce.route import (
    DEFAULT_SPORT,
    GID_BITS,
    INDEX_SHIFT,
    PKEY,
    RoceRoute,
    address_of,
    parts_of,
)
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.port.eth.vport import NicVport
from emu.device.port.packet import MAX_HEADER_BYTES, OPS, BadPacketError, Packet
from emu.device.port.recovery import LossRecovery
from layouts.enums.roce import RoceVersion
from layouts.rings.wqe import av
from layouts.wire.bth import BECN, PacketKind, Service

if TYPE_CHECKING:
    from layouts.objects.qp import ads

CQE_GRH: Final = 1 << 28
CQE_L3_SHIFT: Final = 24
_DSCP_SHIFT: Final = 2
_V2: Final = RoceVersion.VERSION_2
_UNMARKED: Final = Marks(0, 0, 0)
_PRIORITY_SHIFT: Final = 13
_NO_PRIORITY: Final = 0x1FFF
_CNP: Final = OPS[Service.CNP, PacketKind.CNP, True, True, None]

_MAX_OVERHEAD: Final = (
    RoceHeaders(NO_MAC, NO_MAC, NO_GID, NO_GID, tci=0).size + MAX_HEADER_BYTES + FCS_BYTES
)
"""Maximum bytes around a payload: VLAN tag, IPv6, and the longest transport headers."""
_AV: Final = av.packer(
    "key", "dqp_dct", "stat_rate_sl", "rlid", "rmac", "tclass", "hop_limit", "grh_gid_fl", "rgid"
)


class RoceLink:
    """Implements ``emu.device.port.link.Link`` for an Ethernet vPort."""

    has_link = False

    def __init__(self, vport: NicVport, gids: GidTable) -> None:
        self.lid = 0
        self._port = vport.port
        self._vport = vport
        self.gids = gids
        self.congestion = Congestion(vport.port.speed)
        self.recovery = LossRecovery()
        self._sent, self._received = vport.sent, vport.received
        self.dropped: Counter[str] = Counter()
        """Number of frames for the port's GIDs that are malformed or that no queue pair accepted,
        by error."""

    @property
    def is_up(self) -> bool:
        """Whether frames can be sent and received and the driver has enabled RoCE on its vPort."""
        return self._vport.roce_en and self._vport.is_up

    # -- connections

    def check_source(self, index: int) -> None:
        """Refuse an empty source GID with BAD_PARAM_ERR."""
        if self.gids[index].is_empty:
            raise BadParamError("no source GID at this index", f"{index}")

    def check_path(self, path: ads) -> None:
        """Refuse with BAD_PARAM_ERR a path without source GID, or the peer's GID or MAC address.

        A path with ``fl`` leads back to the function and needs no address (mlx5_vnet.c:
        alloc_inout).
        """
        if path.fl:
            return
        self.check_source(int(path.src_addr_index))
        if path.rgid_rip == NO_GID or not (path.rmac_47_32 or path.rmac_31_0):
            raise BadParamError("path without the peer's GID or MAC address")

    def destination(self, path: ads) -> int:
        """Return the destination address of a path, as a number; no field is checked."""
        mac = int(path.rmac_47_32) << 32 | int(path.rmac_31_0)
        gid = int.from_bytes(path.rgid_rip, "big")
        return int(path.src_addr_index) << INDEX_SHIFT | mac << GID_BITS | gid

    @property
    def attributes(self) -> object:
        """``is_up``, the GID table, and the MTUs of which the interface's is the lowest."""
        return self.is_up, self.gids.changes, self._vport.mtu, self._port.admin_mtu

    @property
    def max_payload(self) -> int:
        """Payload bytes of a frame of the MTU with the longest headers."""
        return self._vport.oper_mtu - _MAX_OVERHEAD

    def global_route(self, path: ads) -> None:
        """Return None, as the GIDs are in the address."""

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Return the bytes of Ethernet and network headers, with a VLAN tag if the GID has one."""
        source = self.gids[address >> INDEX_SHIFT]
        return header_bytes(source.version, source.gid, has_tag=source.vlan is not None)

    def marks(self, path: ads) -> Marks:
        """Return the priority markings of a path; DSCP 0 for RoCE v1, whose GRH has none.

        The tag's priority is 0 without a VLAN.
        """
        source = self.gids[int(path.src_addr_index)]
        priority = int(path.eth_prio)
        dscp = int(path.tclass) >> _DSCP_SHIFT if source.version == _V2 else 0
        made = Marks(priority, priority if source.vlan is not None else 0, dscp)
        return _UNMARKED if made == _UNMARKED else made

    def route(self, path: ads) -> RoceRoute:
        """Return the headers of packets along a path (a view of ads)."""
        return RoceRoute(self.gids, self.congestion, path, self.destination(path))

    def notification(self, path: ads, qpn: int) -> bytes:
        """Return a CNP frame for the queue pair at the end of a path; empty without source GID.

        DSCP and, in a VLAN unless ``cnp_prio_mode`` is set, priority are those of the notification
        point. The caller counts and sends it.
        """
        route, np = self.route(path), self.congestion.np
        headers = route.headers()
        if headers is None:
            return b""
        tci = headers.tci
        if tci is not None and not np.cnp_prio_mode:
            tci = tci & _NO_PRIORITY | np.cnp_802p_prio << _PRIORITY_SHIFT
        headers = replace(headers, tclass=np.cnp_dscp << _DSCP_SHIFT, tci=tci)
        return Framer(headers, route.pkey).frame(Packet().of(_CNP, qpn | BECN, 0))

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """Return the packet in a frame, and the offset of its base transport header.

        Raises BadPacketError for a frame that is not RoCE, is malformed or has a wrong invariant
        CRC.
        """
        at = network_header(frame)
        if not at:
            raise BadPacketError("not a RoCE frame")
        return parse(frame, at), transport_header(frame, at)

    def seal(self, frame: bytearray) -> None:
        """Update the invariant CRC."""
        seal(frame, network_header(frame))

    def describe_address(self, address: int) -> str:
        """Return GID and MAC address as text."""
        _, mac, gid = parts_of(address)
        return f"{text(gid)} at {mac.hex(':')}"

    def violated_pkey(self) -> None:
        """Do nothing, as RoCE has no P_Key counter: nic_vport_context (mlx5_ifc.h) lacks one."""

    def violated_qkey(self) -> None:
        """Count a wrong Q_Key, up to the counter's maximum."""
        vport = self._vport
        vport.qkey_violations = min(vport.qkey_violations + 1, MAX_VIOLATIONS)

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """Return the reason unless a packet has its connection's GIDs and RoCE version, else "".

        Source: IBTA A17.4.5.1 (source and destination GID). A GID is valid only for its own RoCE
        version. MAC address and VLAN are not compared.
        """
        index, _, gid = parts_of(peer)
        header, own = packet.grh, self.gids[index]
        if header is None or header.sgid != gid:
            return "not from its peer's GID"
        if header.dgid != own.gid:
            return "not to the queue pair's own GID"
        if header.is_ip != (own.version == _V2):
            return "not of the queue pair's RoCE version"
        return ""

    # -- datagrams

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """Return no reason, as the steering and the sender have already filtered by address."""
        return ""

    def vector(self, raw: bytes) -> RoceDestination:
        """Return an address vector, with the RoCE version of its source GID's entry.

        The UDP source port takes the place of InfiniBand's LID; 0 means DEFAULT_SPORT.
        """
        key, dqp, rate_sl, sport, mac, tclass, hop_limit, fields, gid = _AV.unpack(raw)
        index = fields >> 20 & 0xFF
        return RoceDestination(
            qpn=dqp & 0xFFFFFF,
            qkey=key >> 32,
            lid=0,
            sl=rate_sl >> 1 & 7,
            path_bits=0,
            gid=gid,
            sgid_index=index,
            tclass=tclass,
            flow_label=fields & 0xFFFFF,
            hop_limit=hop_limit,
            mac=mac,
            sport=sport or DEFAULT_SPORT,
            version=self.gids[index].version,
        )

    def address_to(self, to: Destination) -> int:
        """Return the address of a path with the same source GID index, MAC address and GID."""
        assert isinstance(to, RoceDestination)
        return address_of(to.sgid_index, to.mac, to.gid or NO_GID)

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> RoceOrigin:
        """Return the GID that the address vector selects, with MAC address, VLAN and version.

        For an empty entry all are zeros; the caller checks that.
        """
        source = self.gids[to.sgid_index]
        tci = tci_of(source.vlan, to.sl)
        return RoceOrigin(0, qpn, pkey, qkey, source.gid, source.mac, tci, source.version)

    def has_sent(self, origin: Origin) -> bool:
        """Return whether a datagram has a source GID of this port."""
        return self.gids.has_gid(origin.gid)

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """Return the area before the payload, the GRH flag and L3 type for the CQE, and the TCI.

        The area is as in :func:`emu.device.port.eth.roce.datagram.area_of`; the TCI is None without
        a tag.
        """
        assert isinstance(origin, RoceOrigin)
        area, l3_type = area_of(datagram, origin)
        return area, CQE_GRH | l3_type << CQE_L3_SHIFT, origin.tci

    # -- tables and counters

    def gid(self, index: int) -> bytes:
        """Return a GID table entry; zeros if empty."""
        return self.gids[index].gid

    def pkey(self, index: int) -> int:
        """Return an entry of the P_Key table, which has only entry 0."""
        return PKEY if not index else 0

    def has_match(self, pkey: int) -> bool:
        """Return whether a P_Key matches entry 0: any member of the default partition does."""
        return partitions.match(PKEY, pkey)

    def count_sent(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count sent packets by kind, size and priority.

        Octets run from the Ethernet header to the invariant CRC. Without ``marks`` the packets
        count as priority 0.
        """
        direction = self._sent
        direction.add_to(
            direction.rdma_multicast if multicast else direction.rdma_unicast, packets, octets
        )
        if marks is not None and (marks is not _UNMARKED or direction.qos.trusted is not None):
            direction.sort(marks.sent, marks.dscp, packets, octets)

    def count_received(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets by kind, size and priority; octets as in count_sent."""
        direction = self._received
        direction.add_to(
            direction.rdma_multicast if multicast else direction.rdma_unicast, packets, octets
        )
        if marks is not None and (marks is not _UNMARKED or direction.qos.trusted is not None):
            direction.sort(marks.received, marks.dscp, packets, octets)

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """Count sent and received packets of a message inside the process, each unless 0.

        Octets as in count_sent. The packets count as if they had used the physical port.
        """
        if sent:
            self.count_sent(sent, sent_octets, marks)
        if received:
            self.count_received(received, received_octets, marks)

    def count_later(self, path: Uncounted) -> None:
        """Count the path's messages or packets before the vPort's counters are read."""
        self._vport.uncounted.add(path)

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """Count a message between queue pairs of this port; octets as in count_sent.

        ``packets`` and the responses (``back``) both count as sent, received and looped back.
        """
        self.count_exchange(packets, octets, back, back_octets, marks)
        self.count_exchange(back, back_octets, packets, octets, marks)
        self.count_looped(packets, octets, marks)
        if back:
            self.count_looped(back, back_octets, marks)

    def count_looped(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets that this port itself has sent, as not from the physical port.

        Unicast packets count as looped back in both directions, multicast ones only as received.
        """
        vport = self._vport
        direction = vport.looped_in
        direction.add_to(
            direction.rdma_multicast if multicast else direction.rdma_unicast, packets, octets
        )
        if marks is not None and (marks is not _UNMARKED or direction.qos.trusted is not None):
            direction.sort(marks.received, marks.dscp, packets, octets)
        if multicast:
            return
        direction = vport.looped_out
        direction.add_to(direction.rdma_unicast, packets, octets)
        if marks is not None and (marks is not _UNMARKED or direction.qos.trusted is not None):
            direction.sort(marks.sent, marks.dscp, packets, octets)
