"""RoCE between functions of different processes: trains of packets, and where they are cut."""

import random
import time

import pytest

from emu.device.faults.link import PlannedLink
from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.nodes.roce import MODEL, RoceNode
from emu.driver.verbs.channels import Channel
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.uplinks import Uplinks
from emu.server.net.fabric.protocol import Identity
from emu.server.net.ib.sockets import SocketFabric
from emu.server.service.links import Cabling, Links
from emu.server.vfio.loop import Loop
from firmware_cmds import TABLE
from layouts.enums.qp import QpType

ETHERNET = Identity(is_ethernet=True)
SIZE = 1 << 18
MTU = 1024
TEXT = random.Random(5).randbytes(SIZE)
SECONDS = 20
STEP_NS = 5_000_000


class Process:
    """A process with one function that has RoCE."""

    def __init__(self, name, loop):
        self.loop = loop
        self.uplinks = Uplinks(Segments(loop))
        self.wire = SocketFabric(name, loop, [ETHERNET], ethernet=self.uplinks)
        (identity,) = self.wire.join()
        self.port = self.uplinks.segments.plug("function", 0)
        memory, irqs = Memory(), IrqList()
        options = HcaOptions(guid=identity.guid)
        self.function = Function(
            MODEL, options, TABLE, memory, irqs, loop, None, eth_wire=self.port
        )
        self.node = RoceNode(
            self.function, Driver(FunctionBar(self.function), memory, irqs).probe()
        )

    @property
    def fabric_ports(self):
        return [one for one in self.uplinks.segments.segment(0).ports if one.is_fabric]


class Lab:
    """Processes on one loop; the first is the hub."""

    def __init__(self, name):
        self.loop = Loop()
        self.name = name
        self.processes = [Process(name, self.loop) for _ in range(3)]

    def until(self, condition):
        end = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < end, "the condition does not become true"
            self.loop.budget.begin()
            busy = [one.function.poll() for one in self.processes]
            self.loop.step(0 if any(busy) else STEP_NS)
        return found

    def finish(self, channel, count=1):
        found = []
        self.until(lambda: found.extend(channel.sender.cq.drain()) or len(found) >= count)
        assert [one.syndrome for one in found] == [0] * count

    def close(self):
        for process in reversed(self.processes):
            process.wire.close()
        self.loop.close()


@pytest.fixture
def lab(name):
    lab = Lab(name)
    yield lab
    lab.close()


@pytest.fixture(params=[(0, 1), (1, 0), (1, 2)], ids=["from hub", "to hub", "by hub"])
def ends(request, lab):
    return tuple(lab.processes[at] for at in request.param)


@pytest.fixture
def channel(ends):
    return Channel(QpType.RC, *(end.node for end in ends), mtu=3)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE)


def run(lab, channel, source, target):
    """A WRITE, a READ back and a SEND of all."""
    channel.write((target.key, target.va), source.sge())
    lab.finish(channel)
    assert target.read() == TEXT
    source.write(bytes(SIZE))
    channel.read((target.key, target.va), source.sge())
    lab.finish(channel)
    assert source.read() == TEXT
    channel.post_recv(target.sge())
    target.write(bytes(SIZE))
    channel.send(source.sge(), imm=4)
    lab.finish(channel)
    assert [one.byte_cnt for one in channel.received()] == [SIZE]
    assert target.read() == TEXT


def carried(channel):
    """Packets that the two functions have sent and received: what is equal, whatever carries it."""
    return [
        [way.rdma_unicast.packets for way in node.hca.nic_vport.totals()]
        for node in (channel.left, channel.right)
    ]


def test_messages_go_in_trains(lab, ends, channel, source, target):
    channel.write((target.key, target.va), source.sge(0, 1))  # the segments learn who is where
    lab.finish(channel)
    before = sum(one.sent for one in ends[0].fabric_ports)
    run(lab, channel, source, target)
    # The last acknowledgements may still be under way when the messages are done.
    lab.until(lambda: carried(channel)[0] == carried(channel)[1][::-1])
    sent = carried(channel)[0][0]
    assert sent > 2 * SIZE // MTU
    frames = sum(one.sent for one in ends[0].fabric_ports) - before
    assert 0 < frames < sent / 4


@pytest.mark.parametrize("at", [0, 1], ids=["sender", "receiver"])
def test_links_take_each_packet(lab, ends, channel, source, target, at):
    cabling = Cabling(lab.loop, ends[at].wire, [ends[at].port])
    Links([ends[at].function], cabling).set(PlannedLink(delay="1us"), 0)
    run(lab, channel, source, target)
    link = ends[at].port.rx_link
    assert link.counts["packets"] > SIZE // MTU


def test_watchers_see_each_packet(lab, ends, channel, source, target):
    class Watcher:
        seen = 0

        def sent(self, _port, _frame, carry):
            carry()

        def received(self, _hca, frame, carry):
            self.seen += len(frame.data) > MTU
            carry()

    ends[1].port.watcher = Watcher()
    run(lab, channel, source, target)
    assert ends[1].port.watcher.seen >= 2 * SIZE // MTU
