"""The function's InfiniBand port: identity, state and tables (IBTA 14.2.5, PortInfo)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.queues.qp_context import GlobalRoute
from emu.device.port import partitions
from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.congestion import Congestion
from emu.device.port.datagram import GRH_BYTES, Datagram, Destination, Origin
from emu.device.port.ib.counts import IbCounts
from emu.device.port.ib.framing import IbRoute, grh_of, parse
from emu.device.port.ib.managed import ManagedPort
from emu.device.port.ib.vport import HcaVport
from emu.device.port.packet import GlobalHeader, Packet
from emu.device.port.recovery import LossRecovery
from layouts.enums.vport import CapMask1, PhysState, PortState, VportPolicy
from layouts.rings.wqe import av
from layouts.wire.bth import LRH

if TYPE_CHECKING:
    from layouts.objects.qp import ads

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
"""Address vector: the packet has a global route header."""

_AV: Final = av.packer(
    "key", "dqp_dct", "stat_rate_sl", "fl_mlid", "rlid", "tclass", "hop_limit", "grh_gid_fl", "rgid"
)
_NO_GRH: Final = bytes(GRH_BYTES)
_ONE_GRH: Final = "only one of packet and path has a GRH"
CQE_GRH: Final = 1 << 28
CQE_SL_SHIFT: Final = 24

_RECOVERY: Final = LossRecovery()

# Capabilities that the Linux stack enables for itself; a driver may set only these. The value is a
# plain number: the complement of a flag lacks the bits that the enumeration does not name.
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
    """Port 1: both an ``emu.device.port.base.Port`` and the function's ``Link``.

    ``guid`` is port and node GUID unless a physical function has set others for its virtual one;
    the fabric assigns the LID and other numbers.
    """

    guid: int
    width_oper: int
    """Active link width in PTYS encoding: 1, 2, 4, 8, 16 for 1X, 2X, 4X, 8X, 12X."""
    proto_oper: int
    """Active link speed in PTYS encoding, one bit: 32 EDR, 64 HDR, 128 NDR."""
    proto_admin: int = 0
    """Speeds that the driver allows, in PTYS encoding; 0: all that the adapter supports."""
    behind: IbPort | None = None
    """The physical port of a virtual function's end port; None for the physical port itself."""
    given: HcaVport = field(default_factory=HcaVport)
    """Settings that the physical function has made for a virtual one."""
    is_enabled: bool = True
    """Whether the function is enabled; the end port of a disabled virtual function has no link."""
    port_guid: int = 0
    node_guid: int = 0
    device_id: int = 0
    """The PCI device ID of its function, for NodeInfo."""
    mtu: int = 4096
    state: PortState = PortState.ACTIVE
    admin_up: bool = True
    """Whether the driver has enabled the port (PAOS)."""
    has_cable: bool = True
    """Whether the cable is plugged in; a virtual function's end port has one of its own, which
    faults pull."""
    is_up: bool = True
    """Whether packets can be sent and received: the physical link is up, and a subnet manager, if
    it configures the port, has activated it. Each message reads the attribute."""
    managed: ManagedPort | None = None
    """The subnet manager's settings; None where the fabric itself configures its ports."""
    lid: int = 1
    sm_lid: int = SM_LID
    gid_prefix: int = LINK_LOCAL_PREFIX
    subnet_timeout: int = 18
    cap_mask1: int = CapMask1.SYS_IMAGE_GUID_SUP | CapMask1.AUTO_MIGR_SUP
    pkey_table: tuple[int, ...] = (DEFAULT_PKEY,)
    """The P_Keys, which ``pkeys`` sets."""
    attributes: tuple[bool, tuple[int, ...]] = field(init=False)
    """``is_up`` and the P_Keys (``emu.device.port.link.Link``): GIDs and MTU do not change. Each
    message reads the attribute."""
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)
    congestion: Congestion | None = None
    """None, as no manager in the subnet enables congestion control (IBTA annex A10)."""

    def __post_init__(self) -> None:
        self.take_guids()
        if self.behind is not None:
            self._follow_behind()
        self._note_attributes()

    def take_guids(self) -> None:
        """Set port and node GUID to those given by the physical function, if any."""
        self.port_guid = self.given.port_guid or self.guid
        self.node_guid = self.given.node_guid or self.guid

    @property
    def pkeys(self) -> tuple[int, ...]:
        """The P_Key table, without empty entries at its end."""
        return self.pkey_table

    @pkeys.setter
    def pkeys(self, pkeys: tuple[int, ...]) -> None:
        self.pkey_table = pkeys
        self._note_attributes()

    def _note_attributes(self) -> None:
        self.attributes = self.is_up, self.pkey_table

    @property
    def recovery(self) -> LossRecovery:
        """Fixed settings, the same for every port."""
        return _RECOVERY

    @property
    def phys_state(self) -> PhysState:
        """Physical state: DISABLED by driver or manager, POLLING without cable, else LINK_UP.

        A virtual function's policy determines whether its end port has a link, or whether the
        physical port decides.
        """
        if not self.admin_up or (self.managed is not None and self.managed.is_disabled):
            return PhysState.DISABLED
        if self.behind is not None:
            policy = self.given.policy
            follows = policy is VportPolicy.FOLLOW and self.behind.has_link
            allows_link = follows or policy is VportPolicy.UP
            has_link = self.is_enabled and self.has_cable and allows_link
            return PhysState.LINK_UP if has_link else PhysState.POLLING
        return PhysState.LINK_UP if self.has_cable else PhysState.POLLING

    @property
    def has_link(self) -> bool:
        """Whether the physical link is up, so that subnet management packets can be exchanged."""
        return self.phys_state is PhysState.LINK_UP

    def set_link(self, *, up: bool) -> None:
        """Plug the cable in, or pull it, and update the port state (:meth:`follow_link`)."""
        self.has_cable = up
        self.follow_link()

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port for the driver, and change the port state accordingly."""
        self.admin_up = up
        self.follow_link()

    def follow_link(self) -> None:
        """Update the port state after a link change, and count a link that failed.

        ACTIVE or DOWN where the fabric configures the port; INIT or DOWN where a manager has to
        activate it. A virtual function's end port with a link also waits in INIT while the physical
        port has none, because no manager reaches it. No event is sent.
        """
        had_link, has_link = self.state is not PortState.DOWN, self.has_link
        if had_link and not has_link:
            self.link_downed += 1
        if self.behind is not None:
            self._follow_behind()
        elif self.managed is None:
            self.is_up = has_link
            self.state = PortState.ACTIVE if has_link else PortState.DOWN
        else:
            self.managed.connect(has_link=has_link)
            self.settle(self.managed)
        self._note_attributes()

    def _follow_behind(self) -> None:
        """Set the state of a virtual function's end port by its link and the physical port's."""
        assert self.behind is not None
        if not self.has_link:
            self.state = PortState.DOWN
        else:
            self.state = PortState.ACTIVE if self.behind.has_link else PortState.INIT
        self.is_up = self.state is PortState.ACTIVE

    def settle(self, managed: ManagedPort) -> None:
        """Take LIDs, GID prefix, state, P_Keys and key violations from a manager's settings.

        The port is up only in state ACTIVE.
        """
        info = managed.info
        self.managed = managed
        self.lid, self.sm_lid, self.gid_prefix = info.lid, info.sm_lid, info.gid_prefix
        self.subnet_timeout = info.subnet_timeout
        self.pkey_violations, self.qkey_violations = info.pkey_violations, info.qkey_violations
        self.state = PortState(info.port_state)
        self.is_up = self.state is PortState.ACTIVE
        self.pkeys = managed.pkeys

    @property
    def address(self) -> str:
        """The LID, as text."""
        return f"LID {self.lid}"

    @property
    def link_state(self) -> str:
        """The port's logical state."""
        return self.state.name

    def check_source(self, index: int) -> None:
        """Refuse an index beyond the GID table with BAD_PARAM_ERR."""
        if index >= GID_TABLE_ENTRIES:
            raise BadParamError("no source GID at this index", f"{index}")

    def check_path(self, path: ads) -> None:
        """Refuse with BAD_PARAM_ERR a global route whose source GID is not entry 0."""
        if path.grh and path.src_addr_index:  # see :meth:`gid`
            raise BadParamError("no source GID at this index", f"{path.src_addr_index}")

    def destination(self, path: ads) -> int:
        """Return the LID that a path leads to."""
        return int(path.rlid)

    def header_bytes(self, address: int, *, is_global: bool) -> int:
        """Return the bytes of the local route header, and of the global one if used."""
        return LRH.size + GRH_BYTES if is_global else LRH.size

    @property
    def max_payload(self) -> int:
        """The MTU, which does not include headers (IBTA 7.7.8)."""
        return self.mtu

    def global_route(self, path: ads) -> GlobalRoute | None:
        """Return the GIDs of a path that has a global route header."""
        return GlobalRoute(self.gid(path.src_addr_index), path.rgid_rip) if path.grh else None

    def marks(self, path: ads) -> None:
        """Return None, as there are no counters by service level."""

    def route(self, path: ads) -> IbRoute:
        """Return the headers of packets along a path (a view of ads), as they are now.

        Later changes of LID, GIDs and P_Keys do not affect the result.
        """
        grh = None
        if path.grh:
            sgid = self.gid(path.src_addr_index)
            grh = GlobalHeader(sgid, path.rgid_rip, path.tclass, path.flow_label, path.hop_limit)
        return IbRoute(path.rlid, self.lid, path.sl, self.pkey(path.pkey_index), grh)

    def parse(self, frame: bytes | bytearray) -> tuple[Packet, int]:
        """Return the packet in a frame, and the offset of its base transport header."""
        packet = parse(memoryview(frame))
        return packet, LRH.size if packet.grh is None else LRH.size + GRH_BYTES

    def seal(self, frame: bytearray) -> None:
        """Do nothing, as the invariant CRC is not checked."""

    def describe_address(self, address: int) -> int:
        """Return the LID."""
        return address

    def objection(self, packet: Packet, peer: int, route: GlobalRoute | None) -> str:
        """Return the reason unless a packet is from its connection's path (IBTA 9.6.1.5), else "".

        The packet must have its peer's LID. The packet must have the path's GIDs in a global route
        header, or no such header if the path has none (hw/hfi1/ruc.c: hfi1_ruc_check_hdr).
        """
        if packet.slid != peer:
            return "not from its peer's LID"
        header = packet.grh
        if header is None:
            return "" if route is None else _ONE_GRH
        if route is None:
            return _ONE_GRH
        if header.dgid != route.own:
            return "not to the queue pair's own GID"
        return "" if header.sgid == route.peer else "not from its peer's GID"

    def misrouted(self, sgid: bytes, dgid: bytes) -> str:
        """Return the reason unless the GIDs are the port's and a valid source (9.6.1.2), else "".

        Multicast GIDs are accepted, as only attached queue pairs receive their packets (IBTA
        10.5.1).
        """
        if not any(sgid[_PREFIX_BYTES:]):
            return "from an empty GID"
        is_ours = dgid[0] == _MULTICAST_GID or dgid == self.gid(0)
        return "" if is_ours else "not to the port's GID"

    def vector(self, raw: bytes) -> Destination:
        """Return an address vector, which has a GID if its GRH bit is set."""
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
        """Return the LID."""
        return to.lid

    def origin(self, to: Destination, qpn: int, pkey: int, qkey: int) -> Origin:
        """Return the port's LID, and the GID that the address vector selects."""
        return Origin(self.lid, qpn, pkey, qkey, self.gid(to.sgid_index))

    def has_sent(self, origin: Origin) -> bool:
        """Return whether a datagram was sent from this port."""
        return origin.lid == self.lid

    def describe(self, datagram: Datagram, origin: Origin) -> tuple[bytes, int, int | None]:
        """Return the GRH or zeros, the completion's GRH bit and SL, and None for the VLAN."""
        to = datagram.to
        if to.gid is None:
            return _NO_GRH, to.sl << CQE_SL_SHIFT, None
        return grh_of(datagram, origin), CQE_GRH | to.sl << CQE_SL_SHIFT, None

    def gid(self, index: int) -> bytes:
        """Return a GID table entry: the subnet's prefix, with the port's GUID in entry 0 only.

        Linux takes the prefix from the entry that it reads last (cache.c:
        config_non_roce_gid_cache), so the unused entries need it as well.
        """
        guid = self.port_guid if index == 0 else 0
        return self.gid_prefix.to_bytes(8, "big") + guid.to_bytes(8, "big")

    def pkey(self, index: int) -> int:
        """Return a P_Key table entry, 0 if empty."""
        pkeys = self.pkey_table
        return pkeys[index] if index < len(pkeys) else 0

    def has_match(self, pkey: int) -> bool:
        """Return whether a P_Key matches any entry of the table."""
        return any(partitions.match(mine, pkey) for mine in self.pkey_table)
