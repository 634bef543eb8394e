"""The function's InfiniBand port: identity, state and tables (IBTA 14.2.5 PortInfo and friends)."""

from __future__ import annotations

from dataclasses import dataclass, field

from layouts.enums import CapMask1, PhysState, PortState

LINK_LOCAL_PREFIX = 0xFE80_0000_0000_0000
DEFAULT_PKEY = 0xFFFF
GID_TABLE_ENTRIES = 8
PKEY_TABLE_ENTRIES = 128
_NOTHING = (0, 0)
NODE_DESCRIPTION_BYTES = 64

# What the Linux stack turns on for itself; a driver may set these and no others.
SETTABLE_CAPS = (
    CapMask1.SM
    | CapMask1.CM_SUP
    | CapMask1.SNMP_TUNNEL_SUP
    | CapMask1.DEVICE_MGMT_SUP
    | CapMask1.VENDOR_CLASS_SUP
    | CapMask1.CLIENT_REG_SUP
)


@dataclass(slots=True)
class Port:
    """Port 1. ``guid`` is both port and node GUID; the subnet's numbers come from the fabric."""

    guid: int
    width_oper: int
    """Active link width in PTYS encoding: 1, 2, 4, 8, 16 for 1X, 2X, 4X, 8X, 12X."""
    proto_oper: int
    """Active link speed in PTYS encoding, one bit: 32 EDR, 64 HDR, 128 NDR."""
    mtu: int = 4096
    state: PortState = PortState.ACTIVE
    phys_state: PhysState = PhysState.LINK_UP
    lid: int = 1
    sm_lid: int = 1
    subnet_timeout: int = 18
    cap_mask1: int = CapMask1.SYS_IMAGE_GUID_SUP | CapMask1.AUTO_MIGR_SUP
    pkeys: list[int] = field(default_factory=lambda: [DEFAULT_PKEY])
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Packets and octets by their names in query_vport_counter_out."""

    def count_sent(self, packets: int, octets: int) -> None:
        """Add to what has left."""
        self._count("transmitted_ib_unicast", packets, octets)

    def count_received(self, packets: int, octets: int) -> None:
        """Add to what has arrived."""
        self._count("received_ib_unicast", packets, octets)

    def _count(self, name: str, packets: int, octets: int) -> None:
        before = self.counters.get(name, _NOTHING)
        self.counters[name] = before[0] + packets, before[1] + octets

    @property
    def is_up(self) -> bool:
        """True while the physical link is there."""
        return self.phys_state is PhysState.LINK_UP

    def gid(self, index: int) -> bytes:
        """Entry of the GID table: the link-local GID at 0, zero elsewhere."""
        if index:
            return bytes(16)
        return LINK_LOCAL_PREFIX.to_bytes(8, "big") + self.guid.to_bytes(8, "big")

    def pkey(self, index: int) -> int:
        """Entry of the P_Key table, 0 where it is empty."""
        return self.pkeys[index] if index < len(self.pkeys) else 0
