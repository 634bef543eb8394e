"""An adapter: its functions, and the state that they share.

A function has a vhca id, by which the firmware knows it, and a vPort number, which is also the
``function_id`` in the manager's commands. The manager is the physical function, with vPort 0. Its
virtual functions (VF) have the vPorts from 1 on, its sub-functions those from 0x8000 on. A
function that is served alone, including a virtual one, is the manager of its own adapter. A board
with two ports has two adapters (``emu.device.adapter.board``).

Source: PRM "Vport commands", "ENABLE_HCA"; mlx5_ifc.h: cmd_hca_cap.vhca_id, vport_group_manager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic, Protocol

from emu.device.adapter.board import Board
from emu.device.adapter.lag import MASTER_PORT, ForwardedTraffic
from emu.device.models.sub_functions import FIRST_NUMBER
from emu.device.objects.eth.nodnic import Nodnic
from emu.device.port.base import Port
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import UPLINK
from emu.device.port.eth.physical.speed import LinkModes
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import Direction
from emu.device.port.eth.vport import NicVport
from emu.device.port.eth.wire import EthWire
from emu.device.port.ib.vport import HcaVport
from emu.device.ports import NodeT

if TYPE_CHECKING:
    from emu.device.models import Model

MANAGER: Final = 0
"""Number of the manager's vPort."""

MAX_VHCAS: Final = 1 << 10
"""Maximum number of functions on a board."""


class Vhca(Generic[NodeT]):
    """A function's identity in its adapter, kept over resets."""

    __slots__ = (
        "adapter", "granted", "hca_vport", "may_begin", "nic_vport", "node", "number", "restart",
        "vf_enabled", "vport_number",
    )  # fmt: skip

    def __init__(self, adapter: Adapter[NodeT], number: int, vport_number: int) -> None:
        self.adapter = adapter
        self.number = number
        """The vhca id."""
        self.vport_number = vport_number
        self.may_begin = not self.is_virtual
        """Whether the driver may start: of a virtual function, whether its manager has enabled it
        (core/sriov.c: mlx5_device_enable_sriov).
        """
        self.vf_enabled = False
        """Whether VF Enable of its physical function has put a virtual function on the bus."""
        self.restart: Callable[[], None] | None = None
        """Restarts a virtual function that its manager disables; None before power-on."""
        self.granted: dict[int, bytes] = {}
        """Capability pages that its manager has set, by group, the latest last; they survive its
        resets."""
        self.hca_vport = HcaVport()
        """Settings of a virtual function's InfiniBand vPort by its physical function."""
        self.node: NodeT | None = None
        """State of the function since its last reset; None before power-on."""
        self.nic_vport: NicVport | None = None
        """Ethernet vPort of the function since its last reset; None on InfiniBand."""

    @property
    def is_manager(self) -> bool:
        """Whether the function may name other functions of the adapter and their vPorts."""
        return self.vport_number == MANAGER

    @property
    def is_virtual(self) -> bool:
        """Whether the function is a virtual function of the adapter's manager."""
        return MANAGER < self.vport_number < FIRST_NUMBER

    def other(self, vport_number: int) -> NodeT | None:
        """Return the function of another vPort of the adapter if it has power, else None.

        None also unless this function is the manager, and for its own number.
        """
        vhca = self.adapter.by_vport(vport_number) if self.is_manager else None
        return None if vhca is None or vhca is self else vhca.node

    def sees(self, vport_number: int) -> bool:
        """Return whether the adapter has a vPort of this number that the function may name."""
        return self.is_manager and self.adapter.has_vport(vport_number)

    def forget_manager(self) -> None:
        """Drop the settings made by the manager, which has been reset; the MAC address stays."""
        self.granted.clear()
        self.hca_vport.clear()
        if self.nic_vport is not None:
            self.nic_vport.forget_manager()

    def start_ethernet(self, guid: int, mac: bytes, node_description: bytes) -> NicVport:
        """Create the function's vPort anew, with counters at 0, and return it.

        A manager also restarts the physical port, unless another function is enabled, and resets
        ``forwarded``. Settings of another function's vPort by the manager survive that function's
        resets; the MAC address also survives the manager's.
        """
        adapter, before = self.adapter, self.nic_vport
        others = [vhca for vhca in adapter.vhcas.values() if vhca is not self]
        port = adapter.start_port(is_new=not any(vhca.may_begin for vhca in others))
        vport = self.nic_vport = NicVport(port, guid, mac, node_description)
        if self.is_manager:
            vport.nodnic = Nodnic(guid)
            adapter.forwarded = ForwardedTraffic()
            for other in others:
                if other.nic_vport is not None:
                    other.nic_vport.plug(port)
        else:
            port.request_mtu(self.vport_number, 0)
            if before is not None:
                vport.inherit(before)
        return vport


class Switch(Protocol[NodeT]):
    """A switch, as functions and the cable see it."""

    uplink: EthWire[NodeT]
    """Wire of the physical port."""

    def segment_of(self, vhca: Vhca[NodeT], /) -> EthWire[NodeT]:
        """Return the wire of a function behind the switch: its nodes in this process, and the
        congestion of its paths. The switch forwards frames transmitted there.
        """

    def attach(self, vhca: Vhca[NodeT], /) -> None:
        """Attach a function with an Ethernet vPort that has power; after a reset, replace its
        state.
        """

    def detach(self, vhca: Vhca[NodeT], /) -> None:
        """Detach a function that is removed."""

    def vport_changed(self, node: NodeT, /) -> None:
        """Record that a function's vPort went up or down, or has other addresses."""

    def tables_changed(self) -> None:
        """Record that the manager's tables have started or stopped to route frames."""

    def is_decided(self, source: NodeT, /) -> bool:
        """Return whether tables route all frames of a function, including frames to itself.

        True only for the manager of an embedded switch whose FDB has a root table.
        """

    def forward(self, source: NodeT, frame: Frame, /) -> None:
        """Carry a frame of a function's vPort, which may be lost. Never blocks, never raises."""

    def receive(self, frame: Frame, /) -> None:
        """Process a frame received from the cable."""

    def give(self, number: int, frame: Frame, /) -> None:
        """Deliver a frame that has passed tables of a switch of the board to a vPort."""

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the traffic sent and received by the physical port, without looped-back frames."""


class Adapter(Generic[NodeT]):
    """One adapter, with one physical port."""

    def __init__(
        self, model: Model, guid: int, switch: Switch[NodeT], board: Board[NodeT] | None = None
    ) -> None:
        """Create the adapter of ``model``, its manager's; ``guid`` is the system image GUID.

        With ``board``, the adapter is that board's next port and takes its GUID. Raises ValueError
        when the board has no free port.
        """
        self.model = model
        self.switch = switch
        """Switch between the vPorts and the physical port, for an Ethernet port."""
        self.board: Board[NodeT] = board if board is not None else Board(guid)
        self.guid = self.board.guid
        """The system image GUID."""
        self.real_time = self.board.real_time
        """The board's clock of the time of day."""
        self.ports: list[Port] = []
        """The physical port; empty until a function has power."""
        self._eth: EthPort | None = None
        self.forwarded = ForwardedTraffic()
        """Traffic of the LAG's master through this port; of the master itself, through other ports.
        """
        self.number = self.board.add(self)
        """Number of the port on the board, from 1 on."""
        self.manager: Vhca[NodeT] = Vhca(self, self.number - 1, MANAGER)
        self.vhcas = {self.manager.number: self.manager}
        """The functions by vhca id, which is unique on the board."""
        self._by_vport = {MANAGER: self.manager}

    @property
    def serial(self) -> str:
        """Serial number of the board, from its vital product data."""
        return self.model.identity.with_guid(self.guid).serial_number

    @property
    def firmware(self) -> str:
        """Firmware version of all functions."""
        return self.model.firmware

    def add(self, vport_number: int) -> Vhca[NodeT]:
        """Add a function with a vPort of this number, and return its Vhca, without power so far.

        The vhca id is the lowest free one of the board. On InfiniBand each function has an end port
        of its own behind the physical port. Raises ValueError for a number that is in use, and for
        too many functions.
        """
        if self.by_vport(vport_number) is not None:
            raise ValueError(f"vPort {vport_number} belongs to another function")
        free = (number for number in range(MAX_VHCAS) if not self.board.is_taken(number))
        number = next(free, None)
        if number is None:
            raise ValueError(f"the board already has {MAX_VHCAS} functions")
        vhca = Vhca(self, number, vport_number)
        self.vhcas[number] = self._by_vport[vport_number] = vhca
        self.board.changes += 1
        return vhca

    def remove(self, vhca: Vhca[NodeT]) -> None:
        """Remove a function that the caller has stopped, and detach it from the switch.

        The manager cannot be removed (an assertion).
        """
        assert vhca is not self.manager
        self.switch.detach(vhca)
        del self.vhcas[vhca.number], self._by_vport[vhca.vport_number]
        vhca.node = vhca.nic_vport = None
        self.board.changes += 1

    def by_vport(self, vport_number: int) -> Vhca[NodeT] | None:
        """Return the function with the vPort of this number, or None."""
        return self._by_vport.get(vport_number)

    def has_vport(self, vport_number: int) -> bool:
        """Return whether a vPort of this number exists: a function's, or the uplink."""
        return vport_number == UPLINK or vport_number in self._by_vport

    def nodes(self) -> Iterator[NodeT]:
        """Return the functions that have power."""
        return (vhca.node for vhca in self.vhcas.values() if vhca.node is not None)

    def virtual_functions(self) -> list[Vhca[NodeT]]:
        """Return the manager's virtual functions, on the bus or not, in no order."""
        return [vhca for vhca in self.vhcas.values() if vhca.is_virtual]

    def disarm(self) -> None:
        """Let no vPort raise an event at the manager, until it arms the event again."""
        for vhca in self.vhcas.values():
            if vhca.nic_vport is not None:
                vhca.nic_vport.armed = 0

    def count_paths(self) -> None:
        """Count RoCE's messages inside the process, with the priorities that they have now."""
        for vhca in self.vhcas.values():
            if vhca.nic_vport is not None:
                vhca.nic_vport.uncounted.count()

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the physical port's traffic, sent and received, without what was only looped back.

        On a board with two ports, RoCE traffic of the LAG's master counts at the port that carried
        it.
        """
        sent, received = self.switch.port_traffic()
        if self.board.max_ports == 1:
            return sent, received
        if self.number == MASTER_PORT:
            return sent.without(self.forwarded.sent), received.without(self.forwarded.received)
        return sent + self.forwarded.sent, received + self.forwarded.received

    def start_port(self, *, is_new: bool) -> EthPort:
        """Return the Ethernet port for a function that starts.

        With ``is_new`` the port has default settings and counters at 0. Otherwise other functions
        use it, and its link stays up.
        """
        if self._eth is None or is_new:
            modes = LinkModes.of(self.model.eth_speed, is_extended=self.model.eth_is_extended)
            self._eth = EthPort(modes, count_paths=self.count_paths)
            self.ports = [self._eth]
        return self._eth
