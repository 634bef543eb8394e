"""An adapter: what its functions share, and which functions it has.

A function has a vhca id, by which the firmware knows it, and the number of its vPort, which is also
the ``function_id`` by which the manager's commands name it. The manager is the physical function:
it has vPort 0. A function that is served by itself, a virtual one as well, is the manager of an
adapter of its own. A board with two ports has two adapters (``emu.device.adapter.board``).

Source: PRM "Vport commands", "ENABLE_HCA"; mlx5_ifc.h: cmd_hca_cap.vhca_id,
vport_group_manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Generic

from emu.device.adapter.board import Board
from emu.device.adapter.lag import MASTER_PORT, ForwardedTraffic
from emu.device.adapter.switch import Switch
from emu.device.port.base import Port
from emu.device.port.eth.headers import UPLINK
from emu.device.port.eth.physical.speed import LinkModes
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import Direction
from emu.device.port.eth.vport import NicVport
from emu.device.ports import NodeT
from layouts.enums import PortType

if TYPE_CHECKING:
    from emu.device.models import Model

MANAGER: Final = 0
"""The number of the manager's vPort."""

MAX_VHCAS: Final = 1 << 10
"""Most functions of an adapter."""


class Vhca(Generic[NodeT]):
    """A function's place in its adapter, which it keeps over resets."""

    __slots__ = ("adapter", "may_begin", "nic_vport", "node", "number", "vport_number")

    def __init__(self, adapter: Adapter[NodeT], number: int, vport_number: int) -> None:
        self.adapter = adapter
        self.number = number
        """The vhca id."""
        self.vport_number = vport_number
        self.may_begin = True
        """Whether its manager lets its driver begin; of a virtual function (core/sriov.c)."""
        self.node: NodeT | None = None
        """The function's state since its last reset; None before it has power."""
        self.nic_vport: NicVport | None = None
        """Its vPort since then, if that is an Ethernet one."""

    @property
    def is_manager(self) -> bool:
        """Whether it may name the other functions of the adapter and their vPorts."""
        return self.vport_number == MANAGER

    def other(self, vport_number: int) -> NodeT | None:
        """The function of another vPort of the adapter, if it has power; only for the manager."""
        vhca = self.adapter.by_vport(vport_number) if self.is_manager else None
        return None if vhca is None or vhca is self else vhca.node

    def sees(self, vport_number: int) -> bool:
        """Whether the adapter has a vPort of this number that the function may name."""
        return self.is_manager and self.adapter.has_vport(vport_number)

    def start_ethernet(self, guid: int, mac: bytes, node_description: bytes) -> NicVport:
        """The vPort of the function, which starts now.

        The address of one that the manager manages stays over its resets: it may have chosen it.
        """
        port = self.adapter.start_port()
        if self.is_manager:
            self.adapter.forwarded = ForwardedTraffic()
            for one in self.adapter.vhcas.values():
                one.may_begin = True
        if self.nic_vport is not None and not self.is_manager:
            mac = self.nic_vport.permanent_address
        self.nic_vport = NicVport(port, guid, mac, node_description)
        return self.nic_vport


class Adapter(Generic[NodeT]):
    """One adapter, with one physical port."""

    def __init__(
        self, model: Model, guid: int, switch: Switch[NodeT], board: Board[NodeT] | None = None
    ) -> None:
        """``model`` is its manager's, ``guid`` the system image GUID of a board of its own.

        ``board`` is the one that it is the next port of instead; ValueError when that has no room.
        """
        self.model = model
        self.switch = switch
        """What is between its vPorts and the physical port, if that is an Ethernet port."""
        self.board: Board[NodeT] = board if board is not None else Board(guid)
        self.guid = self.board.guid
        """The system image GUID."""
        self.real_time = self.board.real_time
        """The board's clock of the time of day."""
        self.ports: list[Port] = []
        """Its physical port, none before a function has power."""
        self._eth: EthPort | None = None
        self.forwarded = ForwardedTraffic()
        """What has passed this port for the LAG's master; of the master, what has passed others."""
        self.number = self.board.add(self)
        """The number of its port on the board, from 1 on."""
        self.manager: Vhca[NodeT] = Vhca(self, self.number - 1, MANAGER)
        self.vhcas = {self.manager.number: self.manager}
        """The functions, by vhca id, which no other function of the board has."""
        self._by_vport = {MANAGER: self.manager}

    @property
    def serial(self) -> str:
        """The board's serial number, as its vital product data have it."""
        return self.model.identity.with_guid(self.guid).serial_number

    @property
    def firmware(self) -> str:
        """The version of the firmware, which all functions run."""
        return self.model.firmware

    def add(self, vport_number: int) -> Vhca[NodeT]:
        """A place for one more function, with a vPort of this number.

        Raises ValueError for a number that is in use, for too many functions, and with an
        InfiniBand port, which belongs to one function.
        """
        if self.model.port_type is not PortType.ETH:
            raise ValueError("an InfiniBand port belongs to one function")
        if self.by_vport(vport_number) is not None:
            raise ValueError(f"vPort {vport_number} is another function's")
        free = (number for number in range(MAX_VHCAS) if not self.board.is_taken(number))
        number = next(free, None)
        if number is None:
            raise ValueError("no more functions")
        vhca = Vhca(self, number, vport_number)
        self.vhcas[number] = self._by_vport[vport_number] = vhca
        self.board.changes += 1
        return vhca

    def remove(self, vhca: Vhca[NodeT]) -> None:
        """The function is no more. The caller has stopped it; the manager stays."""
        assert vhca is not self.manager
        self.switch.detach(vhca)
        del self.vhcas[vhca.number], self._by_vport[vhca.vport_number]
        vhca.node = vhca.nic_vport = None
        self.board.changes += 1

    def by_vport(self, vport_number: int) -> Vhca[NodeT] | None:
        """The function with the vPort of a number, if there is one."""
        return self._by_vport.get(vport_number)

    def has_vport(self, vport_number: int) -> bool:
        """Whether there is a vPort of a number: a function's, or the one that is the cable."""
        return vport_number == UPLINK or vport_number in self._by_vport

    def nodes(self) -> Iterator[NodeT]:
        """The functions that have power."""
        return (vhca.node for vhca in self.vhcas.values() if vhca.node is not None)

    def passed(self) -> tuple[Direction, Direction]:
        """What has left and entered by the physical port."""
        sent, received = self.switch.passed()
        if self.board.most_ports == 1:
            return sent, received
        if self.number == MASTER_PORT:
            return sent.without(self.forwarded.sent), received.without(self.forwarded.received)
        return sent + self.forwarded.sent, received + self.forwarded.received

    def start_port(self) -> EthPort:
        """The Ethernet port for a function that starts.

        It starts anew with the only function. The others' link goes on while one of several starts.
        """
        if self._eth is None or len(self.vhcas) == 1:
            modes = LinkModes.of(self.model.eth_speed, is_extended=self.model.eth_is_extended)
            self._eth = EthPort(modes)
            self.ports = [self._eth]
        return self._eth
