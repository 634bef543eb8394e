"""A board with two ports, each with a function and its driver, and LAGs of them."""

from __future__ import annotations

from functools import partial

from emu.device.adapter.board import Board
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.state.hca import HcaOptions
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.roce import PORT_MTU, RoceNode, functions_on
from emu.driver.nodes.two_nodes import GUID, brought_up
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from firmware_cmds import TABLE
from layouts.enums.cmd import Op

BOARD_GUID = GUID + 0x40
LAG_TX_AFF = 1 << 15
"""Of opt_param_mask."""


def functions_of_board(wires, clock, model=MODELS["connectx6dx"], guid=BOARD_GUID):
    """The functions of a board whose ports are plugged into these wires."""
    board = Board(guid, MAX_PORTS)
    return [
        Function(
            with_port(model, number), HcaOptions(guid=guid + number), TABLE, Memory(),
            IrqList(), clock, None, eth_wire=wire, board=board,
        )
        for number, wire in enumerate(wires, 1)
    ]  # fmt: skip


class SecondPort(Node):
    """The second port's function as a LAG's driver leaves it: RoCE is on, without any GID."""

    def __init__(self, function, driver):
        super().__init__(function, driver)
        enable_roce(driver)
        self.hca.eth.admin_mtu = PORT_MTU


def enable_roce(driver):
    driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"roce_en": 1}, nic_vport_context={"roce_en": 1}
    )


def remap(first, second):
    """A map of a LAG, as fields of a context."""
    return {"tx_remap_affinity_1": first, "tx_remap_affinity_2": second}


class Bonded:
    """``master`` and ``second`` are the functions of a board, ``peer`` is on the same segment."""

    def __init__(self, clock, segments=None, guid=BOARD_GUID, model=MODELS["connectx6dx"]):
        """``segments`` are those of the first port, the second port, and the peer."""
        self.segments = segments or [SegmentSwitch(clock)] * 3
        self.ports = [FunctionPort(f"port {n}", one) for n, one in enumerate(self.segments)]
        self.functions = functions_of_board(self.ports[:2], clock, model, guid)
        self.functions += functions_on(self.ports[2:], clock)
        self.master, self.second, self.peer = brought_up(
            partial(_node, self.functions[1]), self.functions, DueTimers(clock)
        )
        self.board = self.functions[0].adapter.board

    def make_lag(self, first=1, second=2):
        """As the driver of an interface that bonds both makes it."""
        must = self.master.driver.must
        must(Op.CREATE_LAG, ctx=remap(first, second))
        must(Op.CREATE_VPORT_LAG)

    def modify_lag(self, first, second):
        self.master.driver.must(Op.MODIFY_LAG, field_select=1, ctx=remap(first, second))

    def give_affinity(self, qp, port):
        """Let a queue pair of the master in RTS have an affinity."""
        self.master.driver.must(
            Op.RTS2RTS_QP, qpn=qp.qpn, opt_param_mask=LAG_TX_AFF,
            qpc={"lag_tx_port_affinity": port},
        )  # fmt: skip

    def passed(self):
        """What RoCE has sent and received by each port: a pair of packets for each."""
        ways = [function.adapter.port_traffic() for function in self.functions[:2]]
        return [
            tuple(way.rdma_unicast.packets for way in (sent, received)) for sent, received in ways
        ]


def _node(second, function, driver):
    return (SecondPort if function is second else RoceNode)(function, driver)
