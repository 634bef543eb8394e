"""One frame for many functions: their work shares the rounds of the loop, and keeps its order."""

import pytest

from emu.device.faults.link import PlannedLink
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import add_to_field, context_fields, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.ib.local import LocalFabric
from emu.server.net.link.direction import LinkDirection
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.modify_header import ModifyField
from layouts.enums.wqe import Opcode

GROUP = bytes.fromhex("01005e000001")
MSS, PACKETS = 100, 400
CHANGES = 30
MAX_CHANGES = 1024
"""How many changes a packet may have before it is lost."""
A_ROUND = POLL_BUDGET + 4 * PACKETS + MAX_CHANGES
"""The last frame of a round is sent whole, and cut by one of its receivers."""


class Segment:
    """A sender, and receivers that take every frame."""

    def __init__(self, receivers, changes=0):
        self.clock = HandClock()
        switch = SegmentSwitch(self.clock)
        self.ports = [FunctionPort(f"function {at}", switch) for at in range(receivers + 1)]
        functions = [self._function(at, port) for at, port in enumerate(self.ports)]
        self.nodes = []
        for function in functions:
            bar = FunctionBar(function)
            driver = Driver(bar, function.memory, function.interrupts)
            self.nodes.append(Node(function, driver.probe()))
        self.sender, *self.receivers = self.nodes
        driver = self.sender.driver
        self.sq = SendQueue(self.sender, tisn=create_tis(driver, alloc_td(driver)))
        self.buffers = [self._take_all(node, changes) for node in self.receivers]
        self.longest = 0

    def _function(self, at, port):
        return Function(
            MODELS["connectx6dx"], HcaOptions(guid=0x100 + at), TABLE, Memory(8 << 20), IrqList(),
            self.clock, LocalFabric(self.clock), eth_wire=port,
        )  # fmt: skip

    def _take_all(self, node, changes):
        flows = Flows(node.driver)
        rq = ReceiveQueue(node, log_size=10, cq=node.completion_queue(11))
        tir = to_tir(create_direct_tir(node.driver, alloc_td(node.driver), rq.rqn))
        modify = 0
        if changes:
            fields = context_fields(*[add_to_field(ModifyField.OUT_IP_TTL, 1)] * changes)
            modify = node.driver.must(Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields).modify_header_id
        table = flows.table(1)
        flows.entry(table, 0, flows.group(table, 0, 0), tir, modify=modify)
        flows.set_root(table)
        return Buffers(rq, 256, count=1024)

    def send(self, payload, ring=True):
        header = GROUP + EthPacket(payload=b"").frame()[6:54]
        region = self.sender.region(len(payload))
        region.write(payload)
        self.sq.send(region.sge(), opcode=Opcode.LSO, mss=MSS, headers=header, ring=ring)

    def round(self):
        """A round of the loop; whether there is more to do."""
        self.clock.budget.begin()
        busy = [node.function.poll() for node in self.nodes]
        self.longest = max(self.longest, self.clock.budget.steps)
        return any(busy)

    def settle(self):
        for number in range(10_000):
            if not self.round():
                return number
        raise AssertionError("it never ends")

    def drained(self):
        """Payloads that each receiver has got, one after the other."""
        return [
            b"".join(data[54:] for _, data in buffers.drain()) for buffers in self.buffers
        ]  # fmt: skip


def text(number):
    return bytes((number + at // MSS) & 0xFF for at in range(MSS * PACKETS))


@pytest.mark.hostile
@pytest.mark.parametrize("changes", [0, CHANGES])
def test_a_large_send_for_eight_functions(changes):
    segment = Segment(8, changes)
    segment.send(text(1), ring=False)
    segment.send(text(2))
    rounds = segment.settle()
    assert rounds > 8
    assert segment.longest <= A_ROUND
    assert segment.drained() == [text(1) + text(2)] * 8
    assert not any(node.hca.nic_vport.received.discards for node in segment.receivers)


@pytest.mark.hostile
def test_a_frame_does_not_overtake_a_large_one():
    segment = Segment(2, CHANGES)
    segment.send(text(1), ring=False)
    segment.sq.send(GROUP + EthPacket(payload=bytes(100)).frame()[6:])
    segment.settle()
    assert segment.drained() == [text(1) + bytes(100)] * 2


@pytest.mark.hostile
def test_links_that_duplicate_and_corrupt():
    segment = Segment(8)
    link = PlannedLink.model_validate({"duplicate": 100, "corrupt": 50, "limit": 100_000})
    for port, node in zip(segment.ports, segment.nodes):
        ledger = node.hca.ledger
        port.tx_link = LinkDirection("tx", segment.clock, lambda ledger=ledger: ledger, link)
        port.rx_link = LinkDirection("rx", segment.clock, lambda ledger=ledger: ledger, link)
    segment.send(text(1))
    segment.settle()
    while segment.clock.waiting() or segment.round():
        segment.clock.advance(0)
        segment.longest = max(segment.longest, segment.clock.budget.steps)
    assert segment.longest <= A_ROUND
    assert segment.ports[0].tx_link.counts["packets"] == 2 * PACKETS
    for port in segment.ports[1:]:
        assert port.rx_link.counts["packets"] == 4 * PACKETS


@pytest.mark.hostile
def test_a_teardown_ends_what_waits():
    segment = Segment(2, CHANGES)
    segment.send(text(1))
    segment.round()
    node = next(one for one in segment.receivers if len(one.hca.backlogs.rx))
    hca = node.hca
    assert hca.ledger.accounts["arrivals"]
    node.function.reset()
    assert not len(hca.backlogs.rx)
    assert "arrivals" not in hca.ledger.accounts
    before = hca.nic_vport.received.packets
    segment.settle()
    assert hca.nic_vport.received.packets == before
