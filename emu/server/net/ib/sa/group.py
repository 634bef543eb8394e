"""A multicast group: the parameters that its members share, and its members.

Source: IBTA volume 1, 15.2.5.17.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.device.port import partitions
from emu.device.port.ib.endport import EndPort
from emu.server.net.ib.sa.quantities import QUANTITIES, SHORTEST_LIFE
from emu.server.net.ib.sa.query import CapacityUser, Query, SaError
from layouts.wire.sa import JoinState, SaStatus, Selector, mcmember_rec

LINK_LOCAL = 2
SCOPES = range(1, 15)
_IPOIB_SIGNATURE = 0x401B
_RESERVED_FLAGS = 0xE0
LISTENS = JoinState.FULL_MEMBER | JoinState.NON_MEMBER
"""Members that receive forwarded packets; others only send (IBTA 15.2.5.17.1)."""
FULL = JoinState.FULL_MEMBER | JoinState.SENDONLY_FULL_MEMBER
"""Members that create a group and keep it alive."""


@dataclass(slots=True)
class GroupMember:
    """A port's membership."""

    join_state: int
    proxy_join: int
    """Whether another port joined on the port's behalf."""


@dataclass(slots=True, kw_only=True)
class MulticastGroup:
    """A multicast group; all fields but the last three are named after its MCMemberRecord."""

    mgid: bytes
    mlid: int
    qkey: int
    pkey: int
    mtu: int
    rate: int
    packet_life_time: int = SHORTEST_LIFE
    sl: int = 0
    flow_label: int = 0
    hop_limit: int = 0
    traffic_class: int = 0
    members: dict[bytes, GroupMember] = field(default_factory=dict)
    is_permanent: bool = False
    creator: CapacityUser | None = None
    """The port whose join created the group; None for a partition's own group."""

    @property
    def is_alive(self) -> bool:
        """Whether the group continues to exist."""
        return self.is_permanent or any(one.join_state & FULL for one in self.members.values())

    def record(
        self, port_gid: bytes = bytes(16), join_state: int = 0, proxy_join: int = 0
    ) -> mcmember_rec:
        """Return the group's record, for a member with this GID or, by default, for none."""
        return mcmember_rec.new(
            mgid=self.mgid, port_gid=port_gid, qkey=self.qkey, mlid=self.mlid,
            mtu_selector=Selector.EQ, mtu=self.mtu, traffic_class=self.traffic_class,
            pkey=self.pkey, rate_selector=Selector.EQ, rate=self.rate,
            packet_life_time_selector=Selector.EQ, packet_life_time=self.packet_life_time,
            sl=self.sl, flow_label=self.flow_label, hop_limit=self.hop_limit,
            scope=self.mgid[1] & 0xF, join_state=join_state, proxy_join=proxy_join,
        )  # fmt: skip

    def fits(self, query: Query[mcmember_rec]) -> bool:
        """Return whether MTU, rate and life time match a query; unselected fields match."""
        return all(quantity.fits(query, getattr(self, quantity.name)) for quantity in QUANTITIES)

    def is_open_to(self, port: EndPort) -> bool:
        """Return whether a port may use the group's partition: a side is a full member."""
        return any(partitions.match(pkey, self.pkey) for pkey in port.pkeys)


def ipoib_broadcast(pkey: int) -> bytes:
    """Return the 16-byte IPoIB broadcast GID of a P_Key, with link-local scope (RFC 4391)."""
    return (
        bytes((0xFF, 0x10 | LINK_LOCAL))
        + _IPOIB_SIGNATURE.to_bytes(2, "big")
        + pkey.to_bytes(2, "big")
        + bytes(6)
        + b"\xff" * 4
    )


def checked(mgid: bytes) -> bytes:
    """Return a multicast GID if its flags and scope are valid (IBTA 4.1.1).

    Raises SaError with REQ_INVALID otherwise.
    """
    if mgid[0] != 0xFF or mgid[1] & _RESERVED_FLAGS or mgid[1] & 0xF not in SCOPES:
        raise SaError(SaStatus.REQ_INVALID, f"MGID {mgid.hex()}")
    return mgid
