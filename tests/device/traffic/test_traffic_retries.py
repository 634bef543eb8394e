"""Receivers that are not ready and peers that do not answer, by a clock moved by hand."""

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType

RC, UC, UD, XRC_QP = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
INFINITE = 7
TIMEOUT = ACK_TIMEOUT_UNIT_NS << 10
TIMER = 9


@pytest.fixture
def steps():
    """Fields of the modify commands that a test wants."""
    return {}


@pytest.fixture
def channel(ends, steps):
    return Channel(RC, *ends, **{"ack_timeout": 10, "min_rnr_nak": TIMER} | steps)


@pytest.fixture
def target(channel):
    return channel.right.region(4096)


@pytest.fixture
def wait(channel, clock):
    def advance(ns):
        clock.advance(ns)
        for _ in range(4):  # what a packet causes comes in rounds of its own
            channel.settle()
            clock.advance(0)

    return advance


def test_packets_to_a_peer_that_does_not_receive_are_sent(channel, wait):
    """Nobody tells the sender: its port counts each attempt. The peer has failed by itself."""
    channel.post_recv(channel.right.region(64).sge())
    channel.send(b"first")
    channel.settle()
    assert channel.received()
    channel.receiver.send((64, 0xBAD00, 0))
    channel.settle()
    assert channel.receiver.state is QpState.ERR
    before = channel.left.hca.ib.totals()[0].packets
    channel.send(b"lost")
    channel.settle()
    assert channel.left.hca.ib.totals()[0].packets == before + 1
    wait(4 * TIMEOUT)
    assert channel.left.hca.ib.totals()[0].packets > before + 1


# Receiver not ready (IBTA 9.7.5.2.8).


def test_message_waits_for_its_receive_request(channel, target, wait):
    channel.send(b"late")
    channel.settle()
    assert channel.sent() == []
    channel.post_recv(target.sge())
    wait(RNR_NAK_NS[TIMER] - 1)
    assert channel.sent() == channel.received() == []
    wait(1)
    assert len(channel.sent()) == len(channel.received()) == 1
    assert target.read(0, 4) == b"late"


@pytest.mark.parametrize("timer", [0, 1, 14, 31])
def test_receiver_names_the_time(ends, clock, timer):
    channel = Channel(RC, *ends, min_rnr_nak=timer)
    channel.send(b"late")
    channel.settle()
    channel.post_recv(channel.right.region(64).sge())
    clock.advance(RNR_NAK_NS[timer] - 1)
    channel.settle()
    assert channel.sent() == []
    clock.advance(1)
    channel.settle()
    assert len(channel.sent()) == 1


@pytest.mark.parametrize("count", [0, 1, 6])
def test_patience_with_the_receiver_ends(ends, clock, count):
    """The first attempt and ``count`` more."""
    channel = Channel(RC, *ends, min_rnr_nak=TIMER, rnr_retry=count)
    channel.send(b"never")
    channel.settle()
    for _ in range(count):
        assert channel.sender.cq.poll() is None
        clock.advance(RNR_NAK_NS[TIMER])
        channel.settle()
    assert channel.failure() == CqeSyndrome.RNR_RETRY_EXC_ERR
    assert channel.sender.state == QpState.ERR
    assert channel.receiver.state == QpState.RTS
    assert clock.waiting() == 1  # the look for receive requests to flush


@pytest.mark.parametrize("steps", [{"rnr_retry": INFINITE}])
def test_patience_without_end(channel, target, wait):
    channel.send(b"late")
    channel.settle()
    for _ in range(1000):
        wait(RNR_NAK_NS[TIMER])
    assert channel.sender.state == QpState.RTS
    channel.post_recv(target.sge())
    wait(RNR_NAK_NS[TIMER])
    assert len(channel.sent()) == 1


@pytest.mark.parametrize("steps", [{"rnr_retry": 2}])
def test_patience_starts_again_with_each_message(channel, target, wait):
    for _ in range(4):
        channel.send(b"x")
        channel.settle()
        wait(RNR_NAK_NS[TIMER])
        channel.post_recv(target.sge())
        wait(RNR_NAK_NS[TIMER])
        assert len(channel.sent()) == 1


def test_later_messages_wait_in_order(channel, target, wait):
    for number in range(3):
        channel.send(bytes([number]) * 4)
    channel.settle()
    for number in range(3):
        channel.post_recv(target.sge(100 * number, 4))
    wait(RNR_NAK_NS[TIMER])
    assert [target.read(100 * number, 1) for number in range(3)] == [b"\0", b"\1", b"\2"]
    assert len(channel.sent()) == 3


def test_write_with_immediate_waits_too(channel, target, wait):
    channel.write((target.key, target.va), b"data", imm=1)
    channel.settle()
    assert channel.sent() == []
    channel.post_recv()
    wait(RNR_NAK_NS[TIMER])
    assert len(channel.sent()) == len(channel.received()) == 1
    assert target.read(0, 4) == b"data"


def test_write_does_not_wait_for_anything(channel, target):
    channel.write((target.key, target.va), b"data")
    channel.settle()
    assert len(channel.sent()) == 1


def test_doorbell_during_the_wait_does_not_shorten_it(channel, target, wait):
    channel.send(b"one")
    channel.settle()
    channel.post_recv(target.sge())
    channel.post_recv(target.sge())
    channel.send(b"two")
    channel.settle()
    assert channel.sent() == []
    wait(RNR_NAK_NS[TIMER])
    assert len(channel.sent()) == 2


def test_xrc_waits_for_the_shared_queue(ends, clock):
    channel = Channel(XRC_QP, *ends, min_rnr_nak=TIMER)
    target = channel.right.region(64)
    channel.send(b"late")
    channel.settle()
    channel.post_recv(target.sge())
    clock.advance(RNR_NAK_NS[TIMER])
    channel.settle()
    assert len(channel.sent()) == len(channel.received()) == 1


@pytest.mark.parametrize("service", [UC, UD])
def test_unreliable_message_without_a_request_is_lost(ends, clock, service):
    channel = Channel(service, *ends)
    channel.send(b"lost")
    channel.settle()
    assert len(channel.sent()) == 1
    channel.post_recv(channel.right.region(64).sge())
    clock.advance(1 << 32)
    channel.settle()
    assert channel.received() == []
    channel.send(b"next")
    channel.settle()
    assert len(channel.received()) == 1


@pytest.mark.parametrize("length", [65, 3000, 1 << 20])
def test_unreliable_message_that_is_too_long_is_lost(ends, length):
    """The queue pair goes on, and the next message gets the request (IBTA 9.9.3, class D)."""
    channel = Channel(UC, *ends)
    room = channel.right.region(64)
    for _ in range(2):
        channel.post_recv(room.sge())
    channel.send(channel.left.region(length).sge())
    channel.settle()
    assert len(channel.sent()) == 1
    assert channel.received() == []
    assert channel.right.events() == []
    channel.send(b"next")
    channel.settle()
    (done,) = channel.received()
    assert (done.wqe_counter, done.byte_cnt) == (0, 4)
    assert room.read(0, 4) == b"next"


def test_request_of_a_message_that_was_too_long_is_flushed(ends):
    channel = Channel(UC, *ends)
    for _ in range(2):
        channel.post_recv(channel.right.region(64).sge())
    channel.send(bytes(65))
    channel.settle()
    channel.receiver.to_error()
    channel.settle()
    found = [(done.wqe_counter, done.syndrome) for done in channel.recv_cq.drain()]
    assert found == [(0, CqeSyndrome.WR_FLUSH_ERR), (1, CqeSyndrome.WR_FLUSH_ERR)]


def test_shared_request_of_an_unreliable_message_that_is_too_long_fails(ends):
    """Class E: other queue pairs may have its queue's next ones, so the request does not stay."""
    left, right = ends
    srq = right.shared_queue()
    sender, receiver = left.queue_pair(UC), right.queue_pair(UC, srq=srq)
    connect(sender, receiver)
    srq.post(right.region(64).sge())
    sender.send(bytes(65))
    right.settle()
    assert [done.syndrome for done in receiver.cq.drain()] == [CqeSyndrome.LOCAL_LENGTH_ERR]
    assert receiver.state is QpState.ERR


# No answer (IBTA 9.7.6.1.3).


SILENT = ["reset", "init", "error", "destroyed", "connected elsewhere"]


def silence(channel, how):
    qp = channel.receiver
    if how == "reset":
        qp.to_reset()
    elif how == "init":
        qp.to_reset()
        qp.init()
    elif how == "error":
        qp.to_error()
    elif how == "destroyed":
        qp.destroy()
    else:
        qp.to_reset()
        qp.init().to_rtr(channel.left.lid, 0x777).to_rts()


@pytest.mark.parametrize("how", SILENT)
@pytest.mark.parametrize("count", [0, 3])
def test_patience_with_silence_ends(ends, clock, how, count):
    channel = Channel(RC, *ends, ack_timeout=10, retry_count=count)
    silence(channel, how)
    channel.recv_cq.drain()
    channel.send(b"anybody?")
    channel.settle()
    for _ in range(count):
        clock.advance(TIMEOUT)
        channel.settle()
        assert channel.sender.cq.poll() is None
    # Each attempt may take up to four times the timeout (9.7.6.1.3).
    for _ in range(count + 1):
        clock.advance(4 * TIMEOUT)
        channel.settle()
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert channel.sender.state == QpState.ERR


def test_silence_after_traffic(ends, clock):
    """A responder in error says nothing, also where it would have had a sequence error to tell."""
    channel = Channel(RC, *ends, ack_timeout=10, retry_count=1)
    channel.post_recv()
    channel.send()
    channel.settle()
    channel.receiver.to_error()
    channel.send(b"anybody?")
    channel.settle()
    assert [done.syndrome for done in channel.sent()] == [0]
    assert channel.sender.state == QpState.RTS
    for _ in range(3):
        clock.advance(4 * TIMEOUT)
        channel.settle()
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR


@pytest.mark.parametrize("steps", [{"retry_count": 7}])
def test_peer_that_answers_in_the_end(channel, target, wait):
    """A receiver that comes to RTR late gets the message, once."""
    qp = channel.receiver
    qp.to_reset()
    channel.send(b"hello")
    channel.settle()
    wait(TIMEOUT)
    assert channel.sender.cq.poll() is None
    qp.init().to_rtr(channel.left.lid, channel.sender.qpn, 0x10)
    channel.post_recv(target.sge())
    wait(4 * TIMEOUT)
    assert len(channel.sent()) == len(channel.received()) == 1


@pytest.mark.parametrize("steps", [{"ack_timeout": 0}])
def test_without_a_timeout_it_waits_for_ever(channel, target, clock):
    """Code 0 is "infinite" (IBTA 11.6.2, local ACK timeout)."""
    channel.receiver.to_reset()
    channel.send(b"hello")
    channel.settle()
    clock.advance(1 << 40)
    channel.settle()
    assert channel.sender.cq.poll() is None
    assert channel.sender.state == QpState.RTS


@pytest.mark.parametrize("service", [UC, UD])
def test_unreliable_message_into_the_void(ends, service):
    channel = Channel(service, *ends)
    channel.receiver.to_reset()
    channel.send(b"hello")
    channel.settle()
    assert len(channel.sent()) == 1
    assert channel.sender.state == QpState.RTS


def test_new_attempt_does_not_repeat_what_arrived(channel, target, wait):
    """Two messages arrived and were answered before the peer fell silent: they stay single."""
    for number in range(2):
        channel.post_recv(target.sge(100 * number, 4))
        channel.send(bytes([number]) * 4)
    channel.settle()
    assert len(channel.sent()) == 2
    channel.receiver.to_error()
    channel.recv_cq.drain()
    channel.send(b"lost")
    channel.settle()
    for _ in range(8):
        wait(4 * TIMEOUT)
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert target.read(0, 4) + target.read(100, 4) == b"\0" * 4 + b"\1" * 4


def test_destroyed_sender_forgets_its_timer(channel, clock):
    channel.receiver.to_reset()
    channel.send(b"hello")
    channel.settle()
    clock.advance(0)
    assert clock.waiting()
    channel.sender.destroy()
    assert clock.waiting() == 0


@pytest.mark.parametrize("op", ["reset", "error"])
def test_sender_that_changes_its_state_stops_trying(channel, clock, op):
    channel.receiver.to_reset()
    channel.send(b"hello")
    channel.settle()
    getattr(channel.sender, f"to_{op}")()
    clock.advance(100 * TIMEOUT)
    channel.settle()
    found = channel.sender.cq.drain()
    wanted = [CqeSyndrome.WR_FLUSH_ERR] if op == "error" else []
    assert [completion.syndrome for completion in found] == wanted


# PSNs (IBTA 9.7.3.4).


def test_gap_is_refused_until_patience_ends(ends, clock):
    channel = Channel(RC, *ends, retry_count=2, ack_timeout=10)
    target = channel.right.region(64)
    channel.left.hca.qps.get(channel.sender.qpn).psn += 1
    channel.post_recv(target.sge())
    channel.send(b"gap")
    channel.settle()
    clock.advance(4 * (2 + 1) * TIMEOUT)
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert not any(target.read())


def test_duplicate_is_acknowledged_and_not_done_again(channel, target, wait):
    channel.post_recv(target.sge(0, 8))
    channel.send(b"first")
    channel.settle()
    channel.left.hca.qps.get(channel.sender.qpn).psn -= 1
    channel.send(b"again")
    channel.settle()
    wait(0)
    assert len(channel.sent()) == 2
    assert len(channel.received()) == 1
    assert target.read(0, 5) == b"first"
