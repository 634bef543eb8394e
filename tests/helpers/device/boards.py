"""A board with two ports, each with a function and its driver."""

from __future__ import annotations

from emu.device.adapter.board import Board
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.models.board_ports import with_port
from emu.device.state.hca import HcaOptions
from emu.driver.nodes.two_nodes import GUID
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE

BOARD_GUID = GUID + 0x100


def functions_of_board(wires, clock, model=MODELS["connectx6dx"]):
    """The functions of a board whose ports are plugged into these wires."""
    board = Board(BOARD_GUID)
    return [
        Function(
            with_port(model, number), HcaOptions(guid=BOARD_GUID + number), TABLE, Memory(),
            IrqList(), clock, None, eth_wire=wire, board=board,
        )
        for number, wire in enumerate(wires, 1)
    ]  # fmt: skip
