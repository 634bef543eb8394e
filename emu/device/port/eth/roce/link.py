"""RoCE as the transport services see it: the ``Link`` of an Ethernet function.

An address is where a queue pair's path leads, as a number: the index of the source GID, the peer's
MAC address and its GID. Source GID, version, source MAC address and VLAN come from the GID table
when a frame is made, as the table may change while a queue pair lives.

Sources: IBTA annexes A16 and A17; mlx5_ifc.h: ads; device.h: mlx5_av; hw/qp.c: mlx5_set_path.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from emu.device.errors import CmdError
from emu.device.objects.queues.qp import GlobalRoute, Marks
from emu.device.port.congestion import Congestion
from emu.device.port.counts import MAX_VIOLATIONS
from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.eth.roce.datagram import RoceDestination, RoceOrigin, area_of, tci_of
from emu.device.port.eth.roce.framing import Framer, Headers, header_bytes
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
from layouts.enums import Status
from layouts.eth_enums import RoceVersion
from layouts.rings.wqe import av
from layouts.wire.bth import BECN, PacketKind, Service

if TYPE_CHECKING:
    from layouts.objects.qp import Ads

CQE_GRH: Final = 1 << 28
CQE_L3_SHIFT: Final = 24
_DSCP_SHIFT: Final = 2
_V2: Final = RoceVersion.VERSION_2
_UNMARKED: Final = Marks(0, 0, 0)
_PRIORITY_SHIFT: Final = 13
_NO_PRIORITY: Final = 0x1FFF
_CNP: Final = OPS[Service.CNP, PacketKind.CNP, True, True, None]

_MAX_OVERHEAD: Final = (
    Headers(NO_MAC, NO_MAC, NO_GID, NO_GID, tci=0).size + MAX_HEADER_BYTES + FCS_BYTES
)
"""Headers around a payload: VLAN tag and IPv6, and the longest of the transport."""
_AV: Final = av.packer(
    "key", "dqp_dct", "stat_rate_sl", "rlid", "rmac", "tclass", "hop_limit", "grh_gid_fl", "rgid"
)


class RoceLink:
    """Implements ``emu.device.port.base.Link`` for an Ethernet vPort."""

    lid = 0

    def __init__(self, vport: NicVport, gids: GidTable) -> None:
        self._port = vport.port
        self._vport = vport
        self.gids = gids
        self.congestion = Congestion(vport.port.speed)
        self.recovery = LossRecovery()
        self._sent, self._received = vport.sent, vport.received
        self.dropped: Counter[str] = Counter()
        """Frames for the port's own GIDs that are no packets, or that no queue pair has taken, by
        what is wrong with them."""

    @property
    def is_up(self) -> bool:
        """Whether frames can pass and the driver has enabled RoCE on its virtual port."""
        port, vport = self._port, self._vport
        # As vport.is_up, without the call: each message asks three times.
        return vport.roce_en and vport.admin_up and port.admin_up and port.has_cable

    # -- connections

    def check_source(self, index: int) -> None:
        """A source GID that exists."""
        if self.gids[index].is_empty:
            raise CmdError(Status.BAD_PARAM_ERR, "no source GID at this index", f"{index}")

    def check_path(self, path: Ads) -> None:
        """A source GID that exists, and a peer's GID and MAC address.

        A path with ``fl`` leads back to the function, and needs no address (mlx5_vnet.c:
        alloc_inout).
        """
        if path.fl:
            return
        self.check_source(int(path.src_addr_index))
        if path.rgid_rip == NO_GID or not (path.rmac_47_32 or path.rmac_31_0):
            raise CmdError(Status.BAD_PARAM_ERR, "path without the peer's GID or MAC address")

    def destination(self, path: Ads) -> int:
        """The address that a path leads to."""
        mac = int(path.rmac_47_32) << 32 | int(path.rmac_31_0)
        gid = int.from_bytes(path.rgid_rip, "big")
        return int(path.src_addr_index) << INDEX_SHIFT | mac << GID_BITS | gid

    @property
    def attributes(self) -> object:
        """The GID table and the interface's MTU."""
        return self.gids.changes, self._vport.oper_mtu

    @property
    def most_payload(self) -> int:
        """What a frame of the MTU has room for behind the longest headers."""
        return self._vport.oper_mtu - _MAX_OVERHEAD

    def global_route(self, path: Ads) -> None:
        """The GIDs are in the address."""

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Ethernet and network headers, and a VLAN tag if the source GID has one."""
        source = self.gids[address >> INDEX_SHIFT]
        return header_bytes(source.version, source.gid, has_tag=source.vlan is not None)

    def marks(self, path: Ads) -> Marks:
        """How a path's packets are marked. A global route header has no DSCP."""
        source = self.gids[int(path.src_addr_index)]
        priority = int(path.eth_prio)
        dscp = int(path.tclass) >> _DSCP_SHIFT if source.version == _V2 else 0
        made = Marks(priority, priority if source.vlan is not None else 0, dscp)
        return _UNMARKED if made == _UNMARKED else made

    def route(self, path: Ads) -> RoceRoute:
        """The headers of packets along a path (a view of ads)."""
        return RoceRoute(self.gids, self.congestion, path, self.destination(path))

    def notification(self, path: Ads, qpn: int) -> bytes:
        """The frame of a CNP to the queue pair at the end of a path; empty without a source GID."""
        route, np = self.route(path), self.congestion.np
        headers = route.headers()
        if headers is None:
            return b""
        tci = headers.tci
        if tci is not None and not np.cnp_prio_mode:
            tci = tci & _NO_PRIORITY | np.cnp_802p_prio << _PRIORITY_SHIFT
        headers = replace(headers, tclass=np.cnp_dscp << _DSCP_SHIFT, tci=tci)
        return Framer(headers, route.pkey).frame(Packet(_CNP, qpn | BECN, 0))

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """The packet in a frame, and where its base transport header begins."""
        at = network_header(frame)
        if not at:
            raise BadPacketError("not a frame of RoCE")
        return parse(frame, at), transport_header(frame, at)

    def seal(self, frame: bytearray) -> None:
        """Compute the invariant CRC anew."""
        seal(frame, network_header(frame))

    def about(self, address: int) -> str:
        """GID and MAC address."""
        _, mac, gid = parts_of(address)
        return f"{text(gid)} at {mac.hex(':')}"

    def violated_pkey(self) -> None:
        """There is no such counter: the table has one entry (mlx5_ifc.h: nic_vport_context)."""

    def violated_qkey(self) -> None:
        """Count; the counter stays at its end."""
        vport = self._vport
        vport.qkey_violations = min(vport.qkey_violations + 1, MAX_VIOLATIONS)

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """A connection's packets go from its peer's GID to its own (IBTA A17.4.5.1).

        And by the version of RoCE that its own GID is for: the other one leads to nobody.
        """
        index, _, gid = parts_of(peer)
        header, own = packet.grh, self.gids[index]
        if header is None or header.sgid != gid:
            return "not from its peer's GID"
        if header.dgid != own.gid:
            return "not to the queue pair's own GID"
        if header.is_ip != (own.version == _V2):
            return "not of the queue pair's version of RoCE"
        return ""

    # -- datagrams

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """Frames to other addresses do not come here, and those from none are not sent."""
        return ""

    def vector(self, raw: bytes) -> RoceDestination:
        """An address vector. The UDP source port is where InfiniBand's LID would be."""
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
        """As a path with the same source GID, MAC address and GID has."""
        assert isinstance(to, RoceDestination)
        return address_of(to.sgid_index, to.mac, to.gid or NO_GID)

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> RoceOrigin:
        """The GID that the address vector chooses, with its MAC address, VLAN and version."""
        source = self.gids[to.sgid_index]
        tci = tci_of(source.vlan, to.sl)
        return RoceOrigin(0, qpn, pkey, qkey, source.gid, source.mac, tci, source.version)

    def has_sent(self, origin: Origin) -> bool:
        """Whether a datagram comes from a GID of this port."""
        return self.gids.has_gid(origin.gid)

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """The GRH or the IP header in its place, and what the completion says about it."""
        assert isinstance(origin, RoceOrigin)
        area, l3_type = area_of(datagram, origin)
        return area, CQE_GRH | l3_type << CQE_L3_SHIFT, origin.tci

    # -- tables and counters

    def gid(self, index: int) -> bytes:
        """Entry of the GID table; zeros where it is empty."""
        return self.gids[index].gid

    def pkey(self, index: int) -> int:
        """Entry of the P_Key table, which has one."""
        return PKEY if not index else 0

    def count_sent(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count sent packets; octets run from the Ethernet header to the invariant CRC."""
        way = self._sent
        way.add_to(way.rdma_multicast if multicast else way.rdma_unicast, packets, octets)
        if marks is not None and (marks is not _UNMARKED or way.qos.trusted is not None):
            way.sort(marks.sent, marks.dscp, packets, octets)

    def count_received(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Count received packets; octets as above."""
        way = self._received
        way.add_to(way.rdma_multicast if multicast else way.rdma_unicast, packets, octets)
        if marks is not None and (marks is not _UNMARKED or way.qos.trusted is not None):
            way.sort(marks.received, marks.dscp, packets, octets)

    def count_exchange(
        self, sent: int, sent_octets: int, received: int, received_octets: int, marks: Marks | None
    ) -> None:
        """Count what a message inside the process has in both directions; octets as above."""
        if sent:
            self.count_sent(sent, sent_octets, marks)
        if received:
            self.count_received(received, received_octets, marks)

    def count_loop(
        self, packets: int, octets: int, back: int, back_octets: int, marks: Marks | None
    ) -> None:
        """Count what a message between queue pairs of this port has; octets as above."""
        self.count_exchange(packets, octets, back, back_octets, marks)
        self.count_exchange(back, back_octets, packets, octets, marks)
        self.count_looped(packets, octets, marks)
        if back:
            self.count_looped(back, back_octets, marks)

    def count_looped(
        self, packets: int, octets: int, marks: Marks | None = None, *, multicast: bool = False
    ) -> None:
        """Of what counts as received, these packets have come from this port."""
        vport = self._vport
        way = vport.looped_in
        way.add_to(way.rdma_multicast if multicast else way.rdma_unicast, packets, octets)
        if marks is not None and (marks is not _UNMARKED or way.qos.trusted is not None):
            way.sort(marks.received, marks.dscp, packets, octets)
        if multicast:
            return
        way = vport.looped_out
        way.add_to(way.rdma_unicast, packets, octets)
        if marks is not None and (marks is not _UNMARKED or way.qos.trusted is not None):
            way.sort(marks.sent, marks.dscp, packets, octets)
