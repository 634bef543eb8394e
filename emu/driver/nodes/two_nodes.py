"""Two functions, each with a guest and a driver of its own."""

from __future__ import annotations

from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE

GUID = 0x0002_C903_00AB_CD01


def two_nodes(model, clock, wire, *carriers, make_memory=Memory):
    """The functions on a wire; ``carriers`` run when the functions do."""
    functions = []
    for number in (1, 2):
        options = HcaOptions(guid=GUID + number, lid=number)
        memory = make_memory()
        functions.append(Function(model, options, TABLE, memory, IrqList(), clock, wire))
    return brought_up(Node, functions, *carriers)


def brought_up(make_node, functions, *carriers):
    """Nodes of functions; all of them and the ``carriers`` run when one does."""
    nodes = []
    for function in functions:
        others = [other for other in functions if other is not function]
        bar = FunctionBar(function, *others, *carriers)
        driver = Driver(bar, function.hca.memory, function.hca.interrupts)
        nodes.append(make_node(function, driver.probe()))
    return nodes
