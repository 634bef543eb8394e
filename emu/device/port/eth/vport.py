"""The virtual port (vPort) of an Ethernet function: its addresses, its state and its counters.

It is what the function's driver configures by NIC vPort context commands, and what is between the
function's queues and the physical port (``emu.device.port.eth.port``), whose link it follows.

Source: PRM "NIC vPort Context"; mlx5_ifc.h: nic_vport_context, query_vport_counter_out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Final

from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.counts import Traffic
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import KINDS, Direction
from layouts.eth_enums import VportAdminState

_AUTO: Final = VportAdminState.AUTO
_UP: Final = VportAdminState.UP


class VportChange(IntFlag):
    """Changes of a vPort's context that its manager can be told of (event_on_*)."""

    UC_ADDRESS = 1 << 0
    MC_ADDRESS = 1 << 1
    VLAN = 1 << 2
    PROMISC = 1 << 3
    MTU = 1 << 4


@dataclass(slots=True)
class NicVport:
    """A vPort. ``guid`` is port and node GUID of its function."""

    port: EthPort
    """The physical port behind it."""
    guid: int
    permanent_address: bytes
    """MAC address, 6 bytes. What is received is decided by flow tables."""
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)
    admin_up: bool = True
    """What MODIFY_VPORT_STATE has asked for."""
    switch_state: VportAdminState = VportAdminState.AUTO
    """What the manager of its switch lets it be; AUTO: what the physical port is."""
    node_guid: int = 0
    """The node GUID that the manager has chosen; 0: ``guid``."""
    armed: int = 0
    """The changes (VportChange) of which the next one is told to the manager of the switch."""
    mtu: int = 0
    """Hardware MTU that the driver has set; 0 until it does."""
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
    disable_uc_local_lb: bool = False
    """Whether no unicast frame that the function's send queues send comes back to it."""
    disable_mc_local_lb: bool = False
    """The same of frames to groups. Both are about Ethernet queues only: RoCE's packets come back
    (Linux c85023e153e3)."""
    qkey_violations: int = 0
    steering_discards: int = 0
    """Received packets that no flow table entry led anywhere."""
    wqe_too_small: int = 0
    """Received packets that were longer than the request at their receive queue."""
    cleared: dict[str, Traffic] = field(default_factory=dict)
    """The traffic at the time when the driver last cleared the counters."""
    sent: Direction = field(init=False)
    received: Direction = field(init=False)
    looped_out: Direction = field(init=False)
    """What of ``sent`` has come back to the function and left it nowhere else."""
    looped_in: Direction = field(init=False)
    """What of ``received`` the function has sent itself."""

    def __post_init__(self) -> None:
        qos = self.port.qos
        self.sent, self.received = Direction(qos=qos), Direction(qos=qos)
        self.looped_out, self.looped_in = Direction(qos=qos), Direction(qos=qos)

    @property
    def is_up(self) -> bool:
        """Whether frames can pass."""
        state = self.switch_state
        if state is not _AUTO:
            return state is _UP and self.admin_up
        port = self.port
        return port.admin_up and port.has_cable and self.admin_up

    @property
    def oper_mtu(self) -> int:
        """Hardware MTU in force: the longest frame with its frame check sequence."""
        port = self.port
        mtu = self.mtu or port.max_mtu
        return mtu if mtu < port.admin_mtu else port.admin_mtu

    @property
    def address(self) -> str:
        """The MAC address."""
        return self.permanent_address.hex(":")

    def totals(self) -> tuple[Direction, Direction]:
        """All frames sent and received, without frame check sequences."""
        return self.sent, self.received

    def passed(self) -> tuple[Direction, Direction]:
        """The same without those that have never left the function."""
        return self.sent.without(self.looped_out), self.received.without(self.looped_in)

    def count_discard(self) -> None:
        """Count a received packet that there was no way to take."""
        self.received.discards += 1

    def count_too_small(self) -> None:
        """Count one that was longer than the request at its receive queue."""
        self.wqe_too_small += 1

    def counters(self) -> dict[str, Traffic]:
        """A copy of the traffic since power-on, by the names in query_vport_counter_out."""
        ways = {"transmitted": self.sent, "received": self.received}
        return {
            f"{way}_{name}": replace(getattr(direction, kind))
            for way, direction in ways.items()
            for name, kind in KINDS.items()
        } | {"local_loopback": Traffic(self.looped_in.packets, self.looped_in.octets)}


def mac_of(guid: int) -> bytes:
    """The MAC address that belongs to a GUID: its vendor and its serial number, 3 bytes each.

    As on a real board. The group bit of a GUID that the user has chosen is cleared.
    """
    octets = guid.to_bytes(8, "big")
    return bytes((octets[0] & 0xFE,)) + octets[1:3] + octets[5:]
