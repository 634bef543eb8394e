"""Hostile use of a board whose two ports share one FDB: packets of one port for all vPorts."""

from __future__ import annotations

from collections.abc import Iterator

from rig import MappedMemory

from attacks.rounds import receive_all
from attacks.watch import Watch, WatchedBar, WatchedLoop, pattern
from emu.device.adapter.adapter import Adapter
from emu.device.adapter.board import Board
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.lag.arrive import arrive
from emu.device.function.function import Function
from emu.device.models import LINKS, MODELS
from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.tap_wire import TapWire
from firmware_cmds import TABLE
from layouts.enums import Op, PortType
from layouts.eth_enums import FlowTableType

GUID = 0x100
VPORTS = 15
"""Number of vPorts of each switch, beside its manager's."""
LARGE_BYTES = 60000
FRAMES = 8


class Shared:
    """Bond in switchdev mode: the first port's FDB forwards received packets to all vPorts."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.loop = watch, WatchedLoop(watch)
        board: Board[Hca] = Board(GUID, MAX_PORTS)
        self.adapters = [
            Adapter(
                with_port(MODELS["connectx6dx"], number), GUID,
                EmbeddedSwitch(TapWire(), arrive), board,
            )
            for number in range(1, MAX_PORTS + 1)
        ]  # fmt: skip
        self.managers = [self._node(adapter, 0) for adapter in self.adapters]
        self.others = [
            self._node(adapter, 1 + number)
            for adapter in self.adapters
            for number in range(VPORTS)
        ]  # fmt: skip
        for node in self.others:
            receive_all(node, 1, 0)
        self._share()

    def _node(self, adapter: Adapter[Hca], vport: int) -> Node:
        memory = MappedMemory(16 << 20)
        vhca = adapter.add(vport) if vport else adapter.manager
        model = LINKS["connectx6dx-vf"][PortType.ETH] if vport else adapter.model
        function = Function(
            model, HcaOptions(guid=GUID + len(self.watch.functions)), TABLE, memory, IrqList(),
            self.loop, None, vhca=vhca,
        )  # fmt: skip
        self.watch.knows(function)
        bar = WatchedBar(self.watch.unwatched(), [function])
        driver = Driver(bar, memory, function.interrupts)
        return Node(function, driver.probe(is_vf=bool(vport)))

    def _share(self) -> None:
        first, second = (node.driver for node in self.managers)
        fdb = Flows(first, FlowTableType.FDB)
        table = fdb.table(0)
        ways = [
            to_vport(1 + number, vhca=adapter.manager.number)
            for adapter in self.adapters
            for number in range(VPORTS)
        ]  # fmt: skip
        self.lead(fdb, table, ways)
        fdb.set_root(table)
        ports = {"tx_remap_affinity_1": 1, "tx_remap_affinity_2": 2, "fdb_selection_mode": 1}
        first.must(Op.CREATE_LAG, ctx=ports)
        second.must(
            Op.SET_FLOW_TABLE_ROOT, table_type=FlowTableType.FDB, table_id=table,
            table_eswitch_owner_vhca_id_valid=1,
            table_eswitch_owner_vhca_id=self.adapters[0].manager.number,
        )  # fmt: skip

    def lead(self, fdb: Flows, table: int, ways: list[bytes]) -> None:
        """Let the table forward every packet to all of ``ways``."""
        fdb.entry(table, 0, fdb.group(table, 0, 0), *ways)

    def take(self, frame: Frame) -> None:
        """Deliver a frame by the second cable."""
        self.watch.round(lambda: self.adapters[1].switch.receive(frame))

    def check(self, least: int) -> None:
        """Raise RuntimeError unless ``least`` packets have arrived at each vPort."""
        found = min(node.hca.nic_vport.received.packets for node in self.others)
        if found < least:
            raise RuntimeError(f"{found} packets have arrived, not {least}")


@pattern(f"super-frames of {MAX_SEGMENTS} packets by a bond's second port, to all of 30 vPorts")
def to_all(watch: Watch) -> Iterator[None]:
    board = Shared(watch)
    mss = -(-LARGE_BYTES // MAX_SEGMENTS)
    large = Frame(EthPacket(payload=bytes(LARGE_BYTES)).frame(), mss)
    yield
    for _ in range(FRAMES):
        board.take(large)
        board.loop.run()
    board.check(MAX_SEGMENTS // 2)


@pattern("small frames by a bond's second port, to all of 30 vPorts")
def small_ones(watch: Watch) -> Iterator[None]:
    board = Shared(watch)
    frame = Frame(EthPacket().frame())
    yield
    for _ in range(64 * FRAMES):
        board.take(frame)
    board.loop.run()
    board.check(64 * FRAMES // 2)
