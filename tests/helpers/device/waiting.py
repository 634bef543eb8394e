"""Two functions and all that lies between them, for tests of what ends with one of them.

``@case`` puts a function on the list that gets a :class:`World` and works until something waits.
``helpers.device.waiting_messages``, ``helpers.device.waiting_frames`` and
``helpers.device.waiting_others`` have them.
"""

from __future__ import annotations

from types import SimpleNamespace

from emu.device.faults.injector import Injector
from emu.device.faults.link import PlannedLink
from emu.device.faults.parser import load
from emu.device.function.tracer import ContainedTracer
from emu.device.trace.recorder import EventList, Recorder
from emu.driver.keys.paging import Pager
from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.roce import RoceNode, functions_on, on_a_cable
from emu.driver.nodes.two_nodes import brought_up, two_nodes
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.ib.local import LocalFabric
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from emu.server.service.links import Cabling

CASES = {}


def case(make):
    """A state in which something waits: ``make(world)`` builds it."""
    CASES[make.__name__] = make
    return make


class World(SimpleNamespace):
    """Two functions, what lies between them, and the clock."""

    @property
    def left(self):
        return self.nodes[0]

    @property
    def right(self):
        return self.nodes[1]

    @property
    def roots(self):
        """All that goes on when one of the functions stops."""
        functions = [node.function for node in self.nodes]
        return [self.clock, *self.others, *functions]

    def trace(self):
        """Record a trace of all that happens from now on."""
        traced = EventList()
        for node in self.nodes:
            tracer = ContainedTracer(Recorder(traced, self.clock))
            node.function.tracer = node.hca.probes.tracer = tracer
        self.others.append(traced)

    def local(self):
        """One process: whole messages."""
        self.wire = LocalFabric(self.clock)
        self.nodes = two_nodes(self.model, self.clock, self.wire)
        self.others: list = [self.wire]
        return self

    def packets(self):
        """Packets that the test's wire carries."""
        self.wire = PacketWire()
        self.nodes = two_nodes(self.model, self.clock, self.wire, self.wire)
        self.others = [self.wire]
        return self

    def cable(self):
        """RoCE, as frames."""
        self.nodes = on_a_cable(self.clock)
        self.others = [node.hca.eth_wire for node in self.nodes]
        return self

    def segment(self):
        """RoCE in one process, with links."""
        switch = SegmentSwitch(self.clock)
        ports = [FunctionPort(f"function {number}", switch) for number in range(2)]
        self.nodes = brought_up(RoceNode, functions_on(ports, self.clock), DueTimers(self.clock))
        self.cabling = Cabling(self.clock, None, ports)
        self.others = [switch, *ports]
        return self

    def linked(self, **link):
        """A link at the left function's port."""
        if not hasattr(self, "cabling"):
            self.cabling = Cabling(self.clock, self.wire)
        self.others.append(self.cabling)
        functions = [node.function for node in self.nodes]
        self.session = FaultSession(functions, FaultOptions(), self.cabling)
        self.session.set_link(PlannedLink.model_validate({"function": 0} | link))
        self.others.append(self.session)

    def close(self):
        """Take links away."""
        if hasattr(self, "session"):
            self.session.close()

    def rule(self, text, number=0):
        """A fault rule at one of the functions."""
        function = self.nodes[number].function
        injector = Injector(function, number)
        function.use_faults(injector)
        injector.load(load(f"[[rule]]\n{text}"))
        self.others.append(injector)

    def pagers(self, **options):
        return [Pager(node, **options) for node in self.nodes]

    def settle(self):
        self.left.settle()


def write(channel, source, target, length=None, **options):
    """An RDMA WRITE of all of ``source``, or of its beginning."""
    channel.write((target.key, target.va), source.sge(0, length or source.size), **options)


def in_a_round_that_is_over(world, most=-1):
    """A turn of the left function; what costs more than ``limit`` steps has to wait."""
    world.clock.budget.number += 1
    world.clock.budget.steps = 0
    world.clock.budget.limit = most
    world.left.function.poll()
    assert any(len(node.hca.backlogs.rx) for node in world.nodes)
