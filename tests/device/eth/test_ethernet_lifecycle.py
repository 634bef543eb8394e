"""Ethernet functions that are reset, torn down or fail while packets are on their way."""

import pytest

from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.containment import RESTART_NS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.two_nodes import GUID
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.hca import NicInterface, TeardownProfile

FRAME = bytes.fromhex("ffffffffffff0200000000aa") + b"\x08\x06" + bytes(range(46))
NIC_INTERFACE, SHUT_DOWN = 0x14, NicInterface.DISABLED << 8
"""The register by which a driver stops a function at once (core/fw.c: fast teardown)."""


@pytest.fixture
def model():
    return MODELS["connectx6dx"]


class Interface:
    """A function with a send queue, and a receive queue to which all frames go."""

    def __init__(self, model, number, clock, switch):
        self.port = FunctionPort(f"port {number}", switch)
        memory = Memory()
        self.function = Function(
            model, HcaOptions(guid=GUID + number), TABLE, memory, IrqList(), clock, None,
            eth_wire=self.port,
        )  # fmt: skip
        self.bring_up()

    def bring_up(self):
        """A driver's probe and the queues of one channel."""
        bar = FunctionBar(self.function)
        interrupts = self.function.interrupts
        self.node = node = Node(
            self.function, Driver(bar, self.function.memory, interrupts).probe()
        )
        self.td = alloc_td(node.driver)
        self.sq = SendQueue(node, tisn=create_tis(node.driver, self.td))
        self.rq = ReceiveQueue(node)
        self.buffers = Buffers(self.rq)
        self.lead(create_direct_tir(node.driver, self.td, self.rq.rqn))

    def lead(self, tirn):
        flows = Flows(self.node.driver)
        table = flows.table(0, log_size=0)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
        flows.set_root(table)

    def send(self, frame=FRAME):
        region = self.node.region(len(frame))
        region.write(frame)
        self.sq.send((len(frame), region.key, region.va))
        self.node.settle()

    def received(self):
        self.node.settle()
        return [data for _, data in self.buffers.drain()]


@pytest.fixture
def ends(model, clock):
    switch = SegmentSwitch(clock)
    return [Interface(model, number, clock, switch) for number in (1, 2)]


def works(left, right):
    left.send()
    return right.received() == [FRAME]


def test_frames_pass(ends):
    assert works(*ends)
    assert works(*ends[::-1])


def test_reset_with_queues_in_use(ends):
    """Nothing of before the reset is touched any more; the next driver finds the wire as it was."""
    left, right = ends
    left.send()
    before = right.function.memory.contents()
    right.function.reset()
    left.send()
    right.function.run()
    assert right.function.memory.contents() == before
    assert right.function.hca.nic_vport.received.packets == 1
    right.bring_up()
    assert works(left, right)
    assert works(right, left)


@pytest.mark.parametrize("profile", [TeardownProfile.GRACEFUL_CLOSE, TeardownProfile.FORCE_CLOSE])
def test_teardown_with_queues_left_behind(ends, caplog, profile):
    left, right = ends
    right.node.driver.must(Op.TEARDOWN_HCA, profile=profile)
    left.send()
    assert not any(len(table) for table in right.function.hca.tables)
    right.function.reset()
    right.bring_up()
    assert works(left, right)


def test_shutdown_by_the_register(ends):
    left, right = ends
    right.node.driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.PREPARE_FAST_TEARDOWN)
    right.node.driver.write32(NIC_INTERFACE, SHUT_DOWN)
    left.send()
    assert not any(len(table) for table in right.function.hca.tables)


class Mistaken:
    """An injector of faults that has one of its own."""

    is_gone = wants_packets = False

    def show(self, point, frame):
        raise ZeroDivisionError("a mistake")

    def forget_objects(self):
        """All of them are stopped."""


def test_mistake_of_ours_stops_the_receiver_only(ends, caplog, clock):
    """Its link goes down, frames to it are lost, the sender goes on, and it starts anew."""
    left, right = ends

    right.function.hca.probes.faults = Mistaken()
    left.send()
    assert right.function.hca.health.has_failed
    assert not right.function.hca.nic_vport.is_up
    assert not left.function.hca.health.has_failed
    assert sum(bool(record.exc_info) for record in caplog.records) == 1
    caplog.clear()
    left.send()
    assert len(left.sq.cq.drain()) == 2
    clock.advance(RESTART_NS)
    assert right.function.hca.nic_vport.is_up
    right.bring_up()
    assert works(left, right)


def test_cable(ends):
    """A port without a link neither sends nor receives, and what it was sent is counted."""
    left, right = ends
    right.function.hca.eth.set_admin(up=False)
    left.send()
    assert right.received() == []
    right.send()
    assert left.received() == []
    assert right.function.hca.nic_vport.sent.packets == 0
    right.function.hca.eth.set_admin(up=True)
    assert works(left, right)
