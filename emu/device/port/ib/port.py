"""The function's InfiniBand port: identity, state and tables (IBTA 14.2.5 PortInfo and friends)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emu.device.errors import CmdError
from emu.device.objects.queues.qp import GlobalRoute
from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.datagram import GRH_BYTES, Datagram, Destination, Origin
from emu.device.port.ib.counts import IbCounts
from emu.device.port.ib.framing import Route, grh_of, parse
from emu.device.port.ib.managed import ManagedPort
from emu.device.port.packet import GlobalHeader, Packet
from emu.device.port.recovery import LossRecovery
from layouts.enums import CapMask1, PhysState, PortState, Status
from layouts.rings.wqe import av
from layouts.wire.bth import lrh

if TYPE_CHECKING:
    from layouts.objects.qp import Ads

LINK_LOCAL_PREFIX: Final = 0xFE80_0000_0000_0000
DEFAULT_PKEY: Final = 0xFFFF
GID_TABLE_ENTRIES: Final = 8
PKEY_TABLE_ENTRIES: Final = 128
_PREFIX_BYTES: Final = 8
_MULTICAST_GID: Final = 0xFF
SM_LID: Final = 0xBFFF
"""LID of the fabric's subnet manager: the last unicast LID, so functions have the others."""
BASE_GUID: Final = 0x0002_C903_00E5_0000
"""First function's GUID; the next ones follow in steps of 16, as on a real board."""

AV_GRH: Final = 1 << 30
"""Address vector: the packet gets a global route header."""

_AV: Final = av.packer(
    "key", "dqp_dct", "stat_rate_sl", "fl_mlid", "rlid", "tclass", "hop_limit", "grh_gid_fl", "rgid"
)
_NO_GRH: Final = bytes(GRH_BYTES)
CQE_GRH: Final = 1 << 28
CQE_SL_SHIFT: Final = 24

_RECOVERY: Final = LossRecovery()

# What the Linux stack turns on for itself; a driver may set these and no others. A plain number:
# the complement of a flag lacks the bits that the enumeration does not name.
SETTABLE_CAPS: Final = int(
    CapMask1.SM
    | CapMask1.CM_SUP
    | CapMask1.SNMP_TUNNEL_SUP
    | CapMask1.DEVICE_MGMT_SUP
    | CapMask1.VENDOR_CLASS_SUP
    | CapMask1.CLIENT_REG_SUP
)


@dataclass(slots=True)
class IbPort(IbCounts):
    """Port 1: an ``emu.device.port.base.Port``, and the function's ``Link`` as well.

    ``guid`` is port and node GUID; the fabric assigns the LID and other numbers.
    """

    guid: int
    width_oper: int
    """Active link width in PTYS encoding: 1, 2, 4, 8, 16 for 1X, 2X, 4X, 8X, 12X."""
    proto_oper: int
    """Active link speed in PTYS encoding, one bit: 32 EDR, 64 HDR, 128 NDR."""
    proto_admin: int = 0
    """The speeds that the driver allows, the same way; 0: all that the adapter has."""
    device_id: int = 0
    """The PCI device ID of its function, which NodeInfo carries."""
    mtu: int = 4096
    state: PortState = PortState.ACTIVE
    admin_up: bool = True
    """What the driver wants (PAOS)."""
    has_cable: bool = True
    """Whether the cable is plugged in."""
    is_up: bool = True
    """Whether packets pass: the physical link is there, and a manager of the subnet, if there is
    one that sets up the port, has made it active. Each message asks."""
    managed: ManagedPort | None = None
    """What such a manager has set; None where the fabric itself sets up its ports."""
    lid: int = 1
    sm_lid: int = SM_LID
    gid_prefix: int = LINK_LOCAL_PREFIX
    subnet_timeout: int = 18
    cap_mask1: int = CapMask1.SYS_IMAGE_GUID_SUP | CapMask1.AUTO_MIGR_SUP
    pkeys: tuple[int, ...] = (DEFAULT_PKEY,)
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)

    @property
    def congestion(self) -> None:
        """Congestion control needs a manager in the subnet that switches it on (IBTA annex A10)."""
        return

    @property
    def recovery(self) -> LossRecovery:
        """The same for every port: its rules cannot be set."""
        return _RECOVERY

    @property
    def phys_state(self) -> PhysState:
        """The state of the physical link."""
        if not self.admin_up or (self.managed is not None and self.managed.is_disabled):
            return PhysState.DISABLED
        return PhysState.LINK_UP if self.has_cable else PhysState.POLLING

    @property
    def has_link(self) -> bool:
        """Whether the physical link is there, on which subnet management packets pass."""
        return self.phys_state is PhysState.LINK_UP

    def set_link(self, *, up: bool) -> None:
        """SubnetPort the cable in, or pull it."""
        self.has_cable = up
        self._follow()

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port as the driver asks."""
        self.admin_up = up
        self._follow()

    def _follow(self) -> None:
        """With a link the subnet manager sets up the port."""
        had_link, has_link = self.state is not PortState.DOWN, self.has_link
        if had_link and not has_link:
            self.link_downed += 1
        if self.managed is None:
            self.is_up = has_link
            self.state = PortState.ACTIVE if has_link else PortState.DOWN
        else:
            self.managed.connect(has_link=has_link)
            self.settle(self.managed)

    def settle(self, managed: ManagedPort) -> None:
        """Be what a manager of the subnet has set, from now on."""
        info = managed.info
        self.managed = managed
        self.lid, self.sm_lid, self.gid_prefix = info.lid, info.sm_lid, info.gid_prefix
        self.subnet_timeout = info.subnet_timeout
        self.pkey_violations, self.qkey_violations = info.pkey_violations, info.qkey_violations
        self.state = PortState(info.port_state)
        self.is_up = self.state is PortState.ACTIVE
        if self.pkeys != managed.pkeys:
            self.pkeys = managed.pkeys

    @property
    def address(self) -> str:
        """The LID."""
        return f"LID {self.lid}"

    @property
    def link_state(self) -> str:
        """The port's logical state."""
        return self.state.name

    def check_source(self, index: int) -> None:
        """An entry of the table."""
        if index >= GID_TABLE_ENTRIES:
            raise CmdError(Status.BAD_PARAM_ERR, "no source GID at this index", f"{index}")

    def check_path(self, path: Ads) -> None:
        """A source GID that exists, if the path has a global route."""
        if path.grh and path.src_addr_index:  # see :meth:`gid`
            raise CmdError(
                Status.BAD_PARAM_ERR, "no source GID at this index", f"{path.src_addr_index}"
            )

    def destination(self, path: Ads) -> int:
        """The LID that a path leads to."""
        return int(path.rlid)

    @property
    def attributes(self) -> object:
        """The P_Keys; GIDs and MTU stay as they are."""
        return self.pkeys

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Local and global route header."""
        return lrh.size + GRH_BYTES if is_global else lrh.size

    @property
    def most_payload(self) -> int:
        """The MTU, which headers do not count for (IBTA 7.7.8)."""
        return self.mtu

    def global_route(self, path: Ads) -> GlobalRoute | None:
        """The GIDs of a path that has a global route header."""
        return GlobalRoute(self.gid(path.src_addr_index), path.rgid_rip) if path.grh else None

    def marks(self, path: Ads) -> None:
        """There are no counters by service level."""

    def route(self, path: Ads) -> Route:
        """The headers of packets along a path (a view of ads)."""
        grh = None
        if path.grh:
            sgid = self.gid(path.src_addr_index)
            grh = GlobalHeader(sgid, path.rgid_rip, path.tclass, path.flow_label, path.hop_limit)
        return Route(path.rlid, self.lid, path.sl, self.pkey(path.pkey_index), grh)

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """The packet in a frame, and where its base transport header begins."""
        packet = parse(memoryview(frame))
        return packet, lrh.size if packet.grh is None else lrh.size + GRH_BYTES

    def seal(self, frame: bytearray) -> None:
        """Nothing to do: nobody checks the invariant CRC."""

    def about(self, address: int) -> int:
        """A LID."""
        return address

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """A connection's packets come by its path (IBTA 9.6.1.5).

        They are from its peer's LID. They have a global route header when the path has, and then
        its GIDs; when it has not, they have none (hw/hfi1/ruc.c: hfi1_ruc_check_hdr).
        """
        if packet.slid != peer:
            return "not from its peer's LID"
        header = packet.grh
        if header is None or route is None:
            is_alike = header is None and route is None
            return "" if is_alike else "one of packet and path has a GRH"
        if header.dgid != route.own:
            return "not to the queue pair's own GID"
        return "" if header.sgid == route.peer else "not from its peer's GID"

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """The destination is the port's GID, the source one that an answer can go to (9.6.1.2).

        Of a multicast GID only those hear who are attached to it (IBTA 10.5.1).
        """
        if not any(sgid[_PREFIX_BYTES:]):
            return "from an empty GID"
        is_ours = dgid[0] == _MULTICAST_GID or dgid == self.gid(0)
        return "" if is_ours else "not to the port's GID"

    def vector(self, raw: bytes) -> Destination:
        """An address vector, which has a GID when its GRH bit is set."""
        key, dqp, rate_sl, fl_mlid, rlid, tclass, hop_limit, grh, rgid = _AV.unpack(raw)
        return Destination(
            qpn=dqp & 0xFFFFFF,
            qkey=key >> 32,
            lid=rlid,
            sl=rate_sl & 0xF,
            path_bits=fl_mlid & 0x7F,
            gid=rgid if grh & AV_GRH else None,
            sgid_index=grh >> 20 & 0xFF,
            tclass=tclass,
            flow_label=grh & 0xFFFFF,
            hop_limit=hop_limit,
        )

    def address_to(self, to: Destination) -> int:
        """The LID."""
        return to.lid

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> Origin:
        """The port's LID, and the GID that the address vector chooses."""
        return Origin(self.lid, qpn, pkey, qkey, self.gid(to.sgid_index))

    def has_sent(self, origin: Origin) -> bool:
        """Whether a datagram comes from this port."""
        return origin.lid == self.lid

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """The GRH, if there is one, and its bit and the SL for the completion."""
        to = datagram.to
        if to.gid is None:
            return _NO_GRH, to.sl << CQE_SL_SHIFT, None
        return grh_of(datagram, origin), CQE_GRH | to.sl << CQE_SL_SHIFT, None

    def gid(self, index: int) -> bytes:
        """Entry of the GID table: the subnet's prefix, and our GUID at 0, none elsewhere.

        Linux takes the prefix from whichever entry it reads last (cache.c:
        config_non_roce_gid_cache), so the unused ones need it as well.
        """
        guid = self.guid if index == 0 else 0
        return self.gid_prefix.to_bytes(8, "big") + guid.to_bytes(8, "big")

    def pkey(self, index: int) -> int:
        """Entry of the P_Key table, 0 where it is empty."""
        return self.pkeys[index] if index < len(self.pkeys) else 0
