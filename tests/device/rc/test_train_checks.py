"""Trains that are taken apart, or never made: each packet has to be looked at by itself."""

import pytest
from helpers.device.forging import response, train

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.ib.framing import frames_of, parse_train
from emu.device.rounds.budget import RX_BUDGET
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PacketKind

MTU, COUNT = 1024, 8
FIRST = 0x10
"""The first PSN of a sender."""
SIZE = 40 * MTU
DATA = PacketKind.READ_RESPONSE


@pytest.fixture
def channel(packet_pair, packet_wire):
    packet_wire.takes_trains = True
    return Channel(QpType.RC, *packet_pair, mtu=3)


@pytest.fixture
def source(channel):
    return channel.left.region(SIZE)


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE)


@pytest.fixture
def lost(channel, packet_wire):
    """Runs the sender, and loses all that it sends."""

    def lose():
        channel.left.function.run()
        packet_wire.frames.clear()

    return lose


def psn(qp):
    """The next PSN that is expected from the peer."""
    return qp.node.hca.qps.get(qp.qpn).epsn


# Data of READs.


def data(channel, count, mtu=MTU):
    """A train that answers the sender's oldest request."""
    return train(channel, FIRST, count, DATA, mtu, make=response)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("op", "count", "mtu", "placed"),
    [("write", 3, MTU, 0), ("read", 3, 512, 0), ("read", 3, 2048, 0), ("read", COUNT, MTU, 7)],
    ids=["of a WRITE", "short", "long", "without an end"],
)
def test_data_in_a_train_that_fail_the_request(
    channel, packet_wire, source, target, lost, op, count, mtu, placed
):
    getattr(channel, op)((target.key, target.va), source.sge(0, COUNT * MTU))
    lost()
    packet_wire.arrive(data(channel, count, mtu))
    assert channel.sender.cq.drain()[0].syndrome == CqeSyndrome.BAD_RESP_ERR
    assert source.read() == b"\1" * placed * MTU + bytes(SIZE - placed * MTU)


def test_data_beyond_the_budget_of_a_round_are_asked_for_again(
    channel, packet_wire, source, target, lost
):
    target.write(b"\2" * SIZE)
    channel.read((target.key, target.va), source.sge(0, COUNT * MTU))
    lost()
    channel.left.hca.budget.steps = RX_BUDGET + 1
    packet_wire.arrive(data(channel, 3))
    assert not any(source.read())
    channel.settle()
    assert len(channel.sent()) == 1
    assert source.read(0, COUNT * MTU) == b"\2" * COUNT * MTU


# Headers.


@pytest.fixture
def begun(channel, packet_wire, source, target):
    """A channel whose receiver has the first packet of a WRITE; the PSN of the next one."""
    channel.write((target.key, target.va), source.sge())
    channel.left.function.run()
    packet_wire.deliver()
    packet_wire.frames.clear()
    return psn(channel.receiver)


@pytest.mark.hostile
@pytest.mark.parametrize("why", ["wrong P_Key", "no such queue pair", "not in a receiving state"])
def test_train_with_wrong_headers_is_dropped_packet_by_packet(
    channel, packet_wire, target, begun, why
):
    hca = channel.right.hca
    frame = train(channel, begun, COUNT)
    if why == "no such queue pair":
        frame = bytearray(frame)
        frame[13:16] = b"\0\xff\xff"  # destination queue pair
    elif why == "wrong P_Key":
        hca.ib.pkeys = (0x8001,)
    else:
        channel.right.driver.must(Op._2ERR_QP, qpn=channel.receiver.qpn)
    packet_wire.arrive(bytes(frame))
    assert hca.link.dropped[why] == COUNT
    assert not any(target.read())


def test_train_while_the_link_is_down(channel, packet_wire, target, begun):
    frame, counted = train(channel, begun, COUNT), channel.right.hca.ib.counters
    before = counted()["received_ib_unicast"]
    set_link(channel.right.hca, up=False)
    packet_wire.arrive(frame)
    assert counted()["received_ib_unicast"] == before
    assert not any(target.read())


def test_train_before_any_other_packet(channel, packet_wire, target):
    """The receiver has no connection of packets yet, and makes one; the train is after a gap."""
    other = channel.right.queue_pair()
    other.init().to_rtr(channel.left.lid, channel.sender.qpn, mtu=3)
    channel.receiver = other

    def has_connection():
        return channel.right.hca.qps.get(other.qpn).connection is not None

    assert not has_connection()
    packet_wire.arrive(train(channel, psn(other) + 1, COUNT))
    assert other.state is QpState.RTR
    assert has_connection()


def test_packets_of_a_train_are_shown_to_a_fault_plan(channel, packet_wire, target, begun):
    injector = Injector(channel.right.function, sink=lambda fired: None)
    channel.right.function.use_faults(injector)
    injector.load(load('[[rule]]\npoint="pkt.rx"\naction="drop"\nindex=3'))
    packet_wire.arrive(train(channel, begun, COUNT))
    assert target.read(MTU, 2 * MTU) == b"\1" * 2 * MTU
    assert not any(target.read(3 * MTU))


def test_train_costs_the_round_less_than_its_packets(channel, packet_wire, begun):
    budget, frame = channel.right.hca.budget, memoryview(train(channel, begun, COUNT))
    budget.steps = 0
    packet_wire.arrive(bytes(frame))
    at_once, budget.steps = budget.steps, 0
    for alone in frames_of(parse_train(memoryview(train(channel, begun + COUNT, COUNT)))):
        packet_wire.arrive(alone)
    assert at_once < budget.steps / 2
    assert psn(channel.receiver) == begun + 2 * COUNT
