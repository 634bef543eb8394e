"""Two functions, each with a guest and a driver of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from emu.device.function.function import Function
from emu.device.models import Model
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.bar import FunctionBar, Polled
from emu.driver.command.driver import Driver
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE

GUID = 0x0002_C903_00AB_CD01
NodeT = TypeVar("NodeT", bound=Node)


def two_nodes(
    model: Model, clock: HandClock, wire: IbWire[Hca], *carriers: Polled,
    make_memory: Callable[[], Memory] = Memory,
) -> list[Node]:  # fmt: skip
    """Return two functions on a wire as nodes with loaded drivers, LIDs 1 and 2.

    ``carriers`` run whenever a function does.
    """
    functions = []
    for number in (1, 2):
        options = HcaOptions(guid=GUID + number, lid=number)
        memory = make_memory()
        functions.append(Function(model, options, TABLE, memory, IrqList(), clock, wire))
    return brought_up(Node, functions, *carriers)


def brought_up(
    make_node: Callable[[Function, Driver], NodeT], functions: Sequence[Function], *carriers: Polled
) -> list[NodeT]:
    """Return nodes of functions, after loading a driver for each, in order.

    When one function runs, all of them and the ``carriers`` run.
    """
    nodes = []
    for function in functions:
        others = [other for other in functions if other is not function]
        bar = FunctionBar(function, *others, *carriers)
        memory = function.hca.memory
        assert isinstance(memory, Memory)
        driver = Driver(bar, memory, function.hca.events.interrupts)
        nodes.append(make_node(function, driver.probe()))
    return nodes
