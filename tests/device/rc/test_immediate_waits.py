"""A WRITE with immediate data that finds no receive request: what is written, and what comes again.

Only the last packet has the immediate data and needs the request (IBTA 9.4.3, 9.7.4): what the
others carry is in place by then, as with rxe. The NAK has the last one's PSN, so that it is sent
again alone.
"""

import pytest
from helpers.device.ibta import RNR_NAK_NS

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.dynamic import Initiator, Target
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType

RC, UC, XRC = QpType.RC, QpType.UC, QpType.XRC
MTU, SIZE, TIMER, IMM = 1024, 8192, 1, 0x1234
EARLY = SIZE - MTU
"""Bytes that the packets before the last one carry."""


@pytest.fixture
def channel(ends, service):
    return Channel(service, *ends, mtu=3, min_rnr_nak=TIMER, ack_timeout=10)


@pytest.fixture
def source(channel):
    region = channel.left.region(1 << 16)
    region.write(b"1" * SIZE)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(1 << 16)


@pytest.fixture
def wait(channel, clock):
    def advance(ns=RNR_NAK_NS[TIMER]):
        clock.advance(ns)
        for _ in range(6):  # what a packet causes comes in rounds of its own
            channel.settle()
            clock.advance(0)

    return advance


def write(channel, source, target, length=SIZE):
    channel.write((target.key, target.va), source.sge(0, length), imm=IMM)
    channel.settle()


@pytest.mark.parametrize("service", [RC, XRC])
def test_all_but_the_last_packet_is_in_place(channel, source, target):
    write(channel, source, target)
    assert channel.sent() == []
    assert target.read(0, SIZE) == b"1" * EARLY + bytes(MTU)


@pytest.mark.parametrize("service", [RC, XRC])
def test_last_packet_alone_is_sent_again(channel, source, target, wait):
    """Its bytes are those of then. What a program has changed at the receiver meanwhile stays."""
    write(channel, source, target)
    source.write(b"2" * SIZE)
    target.write(b"3" * 8)
    channel.post_recv()
    wait()
    assert len(channel.sent()) == 1
    (done,) = channel.received()
    assert (done.opcode, done.immediate) == (CqeOpcode.RESP_WR_IMM, IMM)
    assert done.byte_cnt == SIZE
    assert target.read(0, SIZE) == b"3" * 8 + b"1" * (EARLY - 8) + b"2" * MTU


@pytest.mark.parametrize("service", [RC])
def test_packets_of_a_wire(channel, source, target, wait):
    """Eight packets, the last one three times: as many as are counted in any way."""

    def counted():
        sent, received = channel.left.hca.ib.totals()[0], channel.right.hca.ib.totals()[1]
        return sent.packets, received.packets

    before = counted()
    is_alone = channel.left is channel.right
    write(channel, source, target)
    wait()
    channel.post_recv()
    wait()
    assert len(channel.sent()) == 1
    answers = 3 * is_alone  # two NAKs and an ACK
    assert counted() == (before[0] + 10 + answers, before[1] + 10 + answers)


@pytest.mark.parametrize("service", [RC, XRC])
def test_only_packet_writes_nothing(channel, source, target, wait):
    """The request is looked for before its data are written (rxe_resp.c: check_resource)."""
    write(channel, source, target, MTU)
    assert target.read(0, MTU) == bytes(MTU)
    channel.post_recv()
    wait()
    assert len(channel.sent()) == 1
    assert target.read(0, MTU) == b"1" * MTU


@pytest.mark.parametrize("service", [RC, XRC])
def test_no_retry_left(ends, service, clock):
    channel = Channel(service, *ends, mtu=3, min_rnr_nak=TIMER, rnr_retry=0)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(b"1" * SIZE)
    write(channel, source, target)
    assert channel.failure() == CqeSyndrome.RNR_RETRY_EXC_ERR
    assert channel.sender.state is QpState.ERR
    assert target.read(0, SIZE) == b"1" * EARLY + bytes(MTU)


@pytest.mark.parametrize("service", [UC])
def test_unreliable(channel, source, target, wait):
    """The last packet is dropped, and the sender does not hear of it."""
    write(channel, source, target)
    assert len(channel.sent()) == 1
    assert target.read(0, SIZE) == b"1" * EARLY + bytes(MTU)
    channel.post_recv()
    source.write(b"2" * SIZE)
    write(channel, source, target)
    (done,) = channel.received()
    assert done.immediate == IMM
    assert target.read(0, SIZE) == b"2" * SIZE


@pytest.mark.parametrize("service", [RC])
def test_receiver_reset_meanwhile(channel, source, target, clock, wait):
    """A receiver that has not begun the message gets all of it, or nothing of it."""
    write(channel, source, target)
    channel.receiver.to_reset()
    target.write(bytes(SIZE))
    wait()
    assert channel.sent() == channel.received() == []
    assert target.read(0, SIZE) == bytes(SIZE)


@pytest.mark.parametrize("service", [RC, XRC])
def test_sender_stopped_meanwhile(channel, source, target, wait):
    write(channel, source, target)
    channel.sender.to_error()
    channel.post_recv()
    wait()
    assert channel.received() == []
    assert channel.failure() == CqeSyndrome.WR_FLUSH_ERR


@pytest.mark.parametrize("service", [RC, XRC])
def test_what_comes_after_it_waits(channel, source, target, wait):
    write(channel, source, target)
    channel.write((target.key, target.va + SIZE), source.sge(0, 8))
    wait()
    assert target.read(SIZE, 8) == bytes(8)
    channel.post_recv()
    wait()
    assert len(channel.sent()) == 2
    assert target.read(SIZE, 8) == b"1" * 8


@pytest.mark.parametrize("service", [RC])
def test_long_message_in_shares(channel, wait):
    """One that takes several turns; its last packet is no whole one."""
    size = (6 << 20) + 100
    source, target = channel.left.region(size), channel.right.region(size)
    source.write(b"1" * size)
    write(channel, source, target, size)
    wait()
    assert channel.sent() == []
    assert target.read(0, size) == b"1" * (6 << 20) + bytes(100)
    source.write(b"2" * size)
    channel.post_recv()
    wait()
    assert len(channel.sent()) == 1
    assert target.read(0, size) == b"1" * (6 << 20) + b"2" * 100


def test_dynamically_connected(pair, clock):
    left, right = pair
    target = Target(right, mtu=3, min_rnr_nak=TIMER)
    initiator = Initiator(left, target)
    source, memory = left.region(SIZE), right.region(SIZE)
    source.write(b"1" * SIZE)
    initiator.write((memory.key, memory.va), source.sge(0, SIZE), imm=IMM)
    left.settle()
    assert memory.read(0, SIZE) == b"1" * EARLY + bytes(MTU)
    source.write(b"2" * SIZE)
    target.srq.post()
    clock.advance(RNR_NAK_NS[TIMER])
    left.settle()
    assert memory.read(0, SIZE) == b"1" * EARLY + b"2" * MTU
