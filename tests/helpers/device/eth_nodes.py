"""Ethernet functions with a guest of their own, for tests of random examples."""

from __future__ import annotations

from emu.device.models import LINKS
from emu.driver.nodes.roce import functions_on
from emu.driver.nodes.two_nodes import brought_up
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType


def node_alone(model: str) -> Node:
    """Return a node with a loaded driver; in a shared guest, examples' queues keep their memory."""
    link = LINKS[model][PortType.ETH]
    (node,) = brought_up(Node, functions_on([TapWire()], HandClock(), link))
    return node
