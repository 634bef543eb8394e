"""A board of two ports with a switch behind each, as a driver that bonds them leaves it."""

from __future__ import annotations

from emu.device.adapter.adapter import Adapter
from emu.device.adapter.board import Board
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.lag.arrive import arrive
from emu.device.models import MODELS
from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import match_misc
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from helpers.device.adapters import GUID, Member
from helpers.device.boards import remap
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

MANAGER, VPORT, UPLINK = 0, 5, 0xFFFF
FRAME = EthPacket(payload=b"through either port").frame()
MISC = 1 << 1
NATIVE = {"fdb_selection_mode": 1}
MODEL = MODELS["connectx6dx"]


class SharedPort:
    """A port, its switch, the function that manages it, and another one behind it."""

    def __init__(self, board, clock, number, model=MODEL):
        self.wire = TapWire()
        switch = EmbeddedSwitch(self.wire, arrive)
        self.adapter = Adapter(with_port(model, number), GUID, switch, board)
        self.manager = Member(self.adapter.manager, clock)
        self.driver = self.manager.driver
        self.id = self.adapter.manager.number
        self.fdb = Flows(self.driver, FlowTableType.FDB)

    def add(self, clock):
        self.other = Member(self.adapter.add(VPORT), clock)

    def takes(self, frame=FRAME):
        """A frame comes by the cable."""
        self.manager.hca.switch.receive(Frame(frame))

    def sent(self):
        """How many frames have left by the cable since the last look."""
        return len(self.wire.sent())

    def received(self):
        """Frames that have come to the manager's vPort, and to the other one."""
        return [member.hca.nic_vport.received.packets for member in (self.manager, self.other)]


class SharedBoard:
    """``first`` is the LAG's master, its FDB the one that both ports begin in when ``shared``."""

    def __init__(self, clock, model=MODEL):
        board = Board(GUID, MAX_PORTS)
        self.ports = [SharedPort(board, clock, number, model) for number in (1, 2)]
        self.first, self.second = self.ports
        self.board = board
        for port in self.ports:
            port.add(clock)

    def by_source(self, *ways, port=None):
        """A root whose entries match the vPort and the switch that a packet comes from.

        A way is the vhca id of the switch's manager, the vPort, and destinations.
        """
        fdb = (port or self.first).fdb
        table = fdb.table(0)
        criteria = match_misc(source_port=0xFFFF, source_eswitch_owner_vhca_id=0xFFFF)
        group = fdb.group(table, 0, 15, enable=MISC, match_criteria=criteria)
        for index, (owner, source, *to) in enumerate(ways):
            value = match_misc(source_port=source, source_eswitch_owner_vhca_id=owner)
            fdb.entry(table, index, group, *to, value=value)
        fdb.set_root(table)
        return table

    def bond(self, first=1, second=2):
        """CREATE_LAG, as of two functions in switchdev mode."""
        self.first.driver.must(Op.CREATE_LAG, ctx=remap(first, second) | NATIVE)

    def share(self, table, **fields):
        """Let the second port's packets begin in a table of the first one."""
        of_first = {
            "table_type": FlowTableType.FDB, "table_id": table,
            "table_eswitch_owner_vhca_id_valid": 1, "table_eswitch_owner_vhca_id": self.first.id,
        }  # fmt: skip
        return self.second.driver.command(Op.SET_FLOW_TABLE_ROOT, **of_first | fields)


def queue(member, **tis):
    """A send queue of a function; ``tis``: fields of what its frames leave through."""
    tisn = create_tis(member.driver, alloc_td(member.driver), **tis)
    return SendQueue(member.node, tisn=tisn)


def send(member, sq, frame=FRAME):
    sq.send(frame)
    member.node.settle()
