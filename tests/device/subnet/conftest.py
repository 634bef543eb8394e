"""Two functions at different leaves of a subnet from a file, and its manager."""

import pytest
from helpers.net.small_manager import SmallManager
from helpers.net.two_leaves import FILE

from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.two_nodes import GUID, brought_up
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.topology import parse
from firmware_cmds import TABLE


@pytest.fixture
def subnet(clock):
    return SubnetFabric(clock, parse(FILE), [GUID, GUID + 1])


@pytest.fixture
def nodes(subnet, model, clock):
    functions = []
    for guid, plug in subnet.plugs.items():
        options = HcaOptions(guid=guid)
        functions.append(Function(model, options, TABLE, Memory(), IrqList(), clock, plug))
    return brought_up(Node, functions, DueTimers(clock))


@pytest.fixture
def manager(nodes):
    return SmallManager(nodes[0])
