"""Hostile use of a board whose two ports share one FDB: packets of one port for all vPorts."""

from __future__ import annotations

from collections.abc import Iterator

from attacks.rounds import receive_all
from attacks.watch import Watch, WatchedLoop, check_arrived, pattern, probed
from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.adapter.board import Board
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.lag.arrive import arrive
from emu.device.models import LINKS, MODELS
from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.models.model import Model
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.device.state.hca import Hca
from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.verbs.node import Node
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

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
        self.managers = [self._node(each.manager, each.model) for each in self.adapters]
        vf = LINKS["connectx6dx-vf"][PortType.ETH]
        self.others = []
        for adapter in self.adapters:
            for number in range(1, 1 + VPORTS):
                vhca = adapter.add(number)
                vhca.may_begin = True
                self.others.append(self._node(vhca, vf))
        for node in self.others:
            receive_all(node, 1, 0)
        self._share()

    def _node(self, vhca: Vhca[Hca], model: Model) -> Node:
        guid = GUID + len(self.watch.functions)
        return Node(*probed(self.watch, model, guid, self.loop, ram=16 << 20, vhca=vhca))

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
        check_arrived((node.function for node in self.others), least)


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
