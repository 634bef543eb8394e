"""The virtual port (vPort) of an Ethernet function: its addresses, its state and its counters.

The function's driver configures the vPort by NIC vPort context commands. The vPort connects the
function's queues to the physical port (``emu.device.port.eth.port``), whose link it follows.

Source: PRM "NIC vPort Context"; mlx5_ifc.h: nic_vport_context, query_vport_counter_out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Final

from emu.device.objects.eth.nodnic import Nodnic
from emu.device.objects.queues.direct_path import UncountedPaths
from emu.device.port.base import NODE_DESCRIPTION_BYTES
from emu.device.port.counts import Traffic
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import KINDS, Direction
from layouts.enums.vport import VportAdminState

_AUTO: Final = VportAdminState.AUTO
_UP: Final = VportAdminState.UP


class VportChange(IntFlag):
    """Changes of a vPort's context that raise an event for its manager (event_on_*)."""

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
    """MAC address, 6 bytes. Flow tables decide which frames are received."""
    node_description: bytes = bytes(NODE_DESCRIPTION_BYTES)
    admin_up: bool = True
    """State set by MODIFY_VPORT_STATE."""
    switch_state: VportAdminState = VportAdminState.AUTO
    """State set by the manager of its switch; AUTO: that of the physical port."""
    node_guid: int = 0
    """The node GUID set by the manager; 0: ``guid``."""
    armed: int = 0
    """The changes (VportChange) whose next occurrence raises an event for the switch's manager."""
    unreported: int = 0
    """The changes since the last such event."""
    mtu: int = 0
    """Hardware MTU set by the driver; 0 before."""
    promisc_uc: bool = False
    promisc_mc: bool = False
    promisc_all: bool = False
    uc_list: tuple[bytes, ...] = ()
    """Unicast MAC addresses of the driver's list."""
    own: frozenset[bytes] = frozenset()
    """The same addresses as a set, for look-ups."""
    mc_list: tuple[bytes, ...] = ()
    vlan_list: tuple[int, ...] = ()
    roce_en: bool = False
    disable_uc_local_lb: bool = False
    """Whether the function's unicast frames from its send queues are not looped back."""
    disable_mc_local_lb: bool = False
    """Whether multicast frames are not looped back. Both flags concern Ethernet queues only; RoCE's
    packets are looped back (Linux c85023e153e3)."""
    qkey_violations: int = 0
    steering_discards: int = 0
    """Number of received packets without a destination in the flow tables."""
    received_while_down: int = 0
    """Number of frames to the vPort that were dropped because it was down."""
    sent_while_down: int = 0
    """Number of packets of the vPort that were dropped because it was down."""
    nodnic: Nodnic | None = None
    """The NIC by which boot firmware uses the vPort; only a manager's vPort has one."""
    wqe_too_small: int = 0
    """Number of received packets longer than the receive WQE."""
    cleared: dict[str, Traffic] = field(default_factory=dict)
    """The traffic when the driver last cleared the counters."""
    sent: Direction = field(init=False)
    received: Direction = field(init=False)
    looped_out: Direction = field(init=False)
    """Frames in ``sent`` that were only looped back to the function."""
    looped_in: Direction = field(init=False)
    """Frames in ``received`` that the function itself has sent."""
    uncounted: UncountedPaths = field(init=False, default_factory=UncountedPaths)
    """Paths of RoCE with messages or packets that are in none of these yet."""

    def plug(self, port: EthPort) -> None:
        """Move the vPort to another physical port; its counters continue."""
        self.uncounted.count()
        self.port = port
        for direction in (self.sent, self.received, self.looped_out, self.looped_in):
            direction.qos = port.qos

    def inherit(self, before: NicVport) -> None:
        """Take over what the switch's manager has set; a reset of the function leaves it."""
        self.permanent_address, self.node_guid = before.permanent_address, before.node_guid
        self.switch_state = before.switch_state
        self.armed, self.unreported = before.armed, before.unreported

    def forget_driver(self) -> None:
        """Drop the lists and modes of a driver that has stopped."""
        self.uc_list = self.mc_list = ()
        self.vlan_list, self.own = (), frozenset()
        self.promisc_uc = self.promisc_mc = self.promisc_all = False

    def forget_manager(self) -> None:
        """Drop the settings made by the manager, which has been reset; the MAC address stays."""
        self.switch_state, self.armed, self.unreported, self.node_guid = _AUTO, 0, 0, 0

    def __post_init__(self) -> None:
        qos = self.port.qos
        self.sent, self.received = Direction(qos=qos), Direction(qos=qos)
        self.looped_out, self.looped_in = Direction(qos=qos), Direction(qos=qos)

    @property
    def is_up(self) -> bool:
        """Whether frames can be sent and received.

        The switch's manager may force UP or DOWN; otherwise the state follows the physical port.
        Always False while the driver itself has set the vPort down.
        """
        state = self.switch_state
        if state is not _AUTO:
            return state is _UP and self.admin_up
        port = self.port
        return port.admin_up and port.has_cable and self.admin_up

    @property
    def oper_mtu(self) -> int:
        """Effective hardware MTU, of vPort and port the lower: the longest frame with its FCS."""
        port = self.port
        mtu = self.mtu or port.max_mtu
        return mtu if mtu < port.admin_mtu else port.admin_mtu

    @property
    def address(self) -> str:
        """The MAC address."""
        return self.permanent_address.hex(":")

    def totals(self) -> tuple[Direction, Direction]:
        """Return the directions with all frames sent and received: live counters, not copies.

        Octets are without frame check sequences.
        """
        self.uncounted.count()
        return self.sent, self.received

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the totals without looped-back frames."""
        self.uncounted.count()
        return self.sent.without(self.looped_out), self.received.without(self.looped_in)

    def counters(self) -> dict[str, Traffic]:
        """Return a copy of the traffic since power-on, by names in query_vport_counter_out.

        ``local_loopback`` is the received part that the function itself has sent.
        """
        self.uncounted.count()
        directions = {"transmitted": self.sent, "received": self.received}
        return {
            f"{prefix}_{name}": replace(getattr(direction, kind))
            for prefix, direction in directions.items()
            for name, kind in KINDS.items()
        } | {"local_loopback": Traffic(self.looped_in.packets, self.looped_in.octets)}


def mac_of(guid: int) -> bytes:
    """Return the MAC address of a GUID: vendor and serial number, 3 bytes each.

    Real boards use the same rule. The group bit of a user's GUID is cleared.
    """
    octets = guid.to_bytes(8, "big")
    return bytes((octets[0] & 0xFE,)) + octets[1:3] + octets[5:]
