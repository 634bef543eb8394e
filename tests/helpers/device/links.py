"""Two functions with links between their ports and what is behind these."""

from __future__ import annotations

from types import SimpleNamespace

from emu.device.faults.link import PlannedLink
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.roce import RoceNode, functions_on
from emu.driver.nodes.two_nodes import brought_up, two_nodes
from emu.driver.verbs.channels import Channel
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.service.links import Cabling
from layouts.enums.qp import QpType

MS = 1_000_000
SIZE = 64 << 10
TEXT = bytes(range(251)) * (SIZE // 251 + 1)
TEXT = TEXT[:SIZE]


class World(SimpleNamespace):
    """Two nodes, and the session that holds their links."""

    def set(self, **link):
        self.session.set_link(PlannedLink.model_validate(link))

    def counts(self, function=0, direction="tx"):
        (found,) = (
            link["counts"]
            for link in self.session.links()
            if (link["function"], link["direction"]) == (function, direction)
        )
        return found

    def run(self, ms, step=MS // 10):
        for _ in range(ms * MS // step):
            self.clock.advance(step)
            self.nodes[0].settle()

    def until(self, holds, most_ms=60_000, step=MS // 10):
        """How many milliseconds pass until something holds."""
        begin = self.clock.ns
        while not holds():
            assert self.clock.ns - begin < most_ms * MS, "it never happens"
            self.clock.advance(step)
            self.nodes[0].settle()
        return (self.clock.ns - begin) / MS

    def region(self, node, data=b""):
        region = node.region(SIZE)
        region.write(data)
        return region

    def channel(self, service=QpType.RC):
        return Channel(service, *self.nodes, ack_timeout=14, mtu=3)


def infiniband(model, clock, wire):
    nodes = two_nodes(model, clock, wire)
    return nodes, Cabling(clock, wire), None


def roce(_model, clock, wire):
    switch = SegmentSwitch(clock)
    ports = [FunctionPort(f"function {number}", switch) for number in range(2)]
    nodes = brought_up(RoceNode, functions_on(ports, clock), DueTimers(clock))
    return nodes, Cabling(clock, wire, ports), ports
