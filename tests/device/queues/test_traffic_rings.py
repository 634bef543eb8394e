"""Send and receive rings: laps, requests over the ring's end, counters and doorbells that lie."""

import random

import pytest

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.segments import SIGNALED
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL, DATA

pytestmark = pytest.mark.hostile

SEND_DB = 0x800
TEXT = random.Random(2).randbytes(4096)


def connected(node, **options):
    pair = node.queue_pair(**options), node.queue_pair(**options)
    connect(*pair)
    return pair


@pytest.fixture
def target(node):
    return node.region(4096)


def send_and_check(node, left, right, target, data):
    """One inline message, which is as many blocks long as its data need."""
    right.post_recv(target.sge())
    left.send(data)
    node.settle()
    good = left.cq.drain()
    if right.cq is not left.cq:
        good += right.cq.drain()
    assert [found.opcode for found in good].count(CqeOpcode.REQ) == 1
    assert target.read(0, len(data)) == data


@pytest.mark.parametrize("log_size", [0, 1, 2, 6])
def test_many_laps_with_requests_of_one_block(node, target, log_size):
    left, right = connected(node, log_sq_size=log_size, log_rq_size=log_size)
    for number in range(3 << log_size):
        send_and_check(node, left, right, target, bytes([number]) * 16)


@pytest.mark.parametrize("blocks", [3, 5, 7, 15])
def test_many_laps_with_requests_over_the_end(node, target, blocks):
    """A request that reaches the ring's end goes on at its start (hw/wr.h)."""
    left, right = connected(node, log_sq_size=4)
    rng = random.Random(blocks)
    straddled = False
    for _ in range(3 * 16):
        start = left.sent % 16
        straddled |= start + blocks > 16
        # A control segment and a header of four bytes; the rest of the blocks is data.
        send_and_check(node, left, right, target, rng.randbytes(blocks * 64 - 20))
        assert left.sent % 16 == (start + blocks) % 16
    assert straddled


def test_requests_of_all_lengths_in_turn(node, target):
    left, right = connected(node, log_sq_size=4)
    rng = random.Random(7)
    for _ in range(200):
        send_and_check(node, left, right, target, rng.randbytes(rng.randrange(0, 900)))


def test_ring_over_pages_that_lie_apart(node, target):
    """The receive ring comes first; the send ring starts in the middle of a page."""
    left, right = connected(node, log_sq_size=7, log_rq_size=5, log_rq_stride=2)
    assert left.sq_offset % 4096
    assert len(left.pages) > 2
    for _ in range(3 * 64):
        send_and_check(node, left, right, target, TEXT[:100])


def test_counters_wrap_at_sixteen_bits(node, target):
    left, right = connected(node, log_sq_size=4)
    for qp in (left, right):
        mine = node.hca.qps.get(qp.qpn)
        mine.sq.ci = mine.rq._consumed = 0xFFF8
        qp.sent = qp.received = 0xFFF8
        node.memory.write(qp.record, bytes.fromhex("0000fff80000fff8"))
    for _ in range(16):
        send_and_check(node, left, right, target, TEXT[:100])


def test_ring_filled_to_the_last_block(node, target):
    left, right = connected(node, log_sq_size=4)
    for budget in range(3):
        for number in range(16):
            right.post_recv(target.sge(16 * number, 16))
            left.send(bytes([budget, number]), ring=number == 15)
        node.settle()
        assert len([found for found in left.cq.drain() if found.opcode == CqeOpcode.REQ]) == 16
        right.cq.drain()
        assert target.read(16 * 15, 2) == bytes([budget, 15])


def test_only_the_last_doorbell_counts(node, target):
    """A request without a doorbell goes with the next one that rings."""
    left, right = connected(node)
    for _ in range(3):
        right.post_recv(target.sge())
    left.send(b"one", ring=False)
    left.send(b"two", ring=False)
    node.settle()
    assert left.cq.drain() == []
    left.send(b"three")
    node.settle()
    assert len(left.cq.drain()) == 3


# Counters and lengths that cannot be true.


@pytest.fixture
def bystander(node):
    """Another connection of the same function, which has to work at the end."""
    left, right = connected(node)
    region = node.region(64)
    yield
    send_and_check(node, left, right, region, b"still here")


@pytest.mark.parametrize("jump", [17, 100, 0x7FFF, 0xFFFF])
def test_producer_counter_that_jumps(node, target, bystander, jump):
    left, right = connected(node, log_sq_size=4)
    right.post_recv(target.sge())
    node.memory.write(left.record + 4, jump.to_bytes(4, "big"))
    left.ring()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, left.qpn)]
    assert left.state == QpState.ERR
    assert right.state == QpState.RTS
    assert not any(target.read())


def test_upper_half_of_the_counter_does_not_matter(node, target):
    left, right = connected(node, log_sq_size=4)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    node.memory.write(left.record + 4, (0xABCD_0001).to_bytes(4, "big"))
    left.ring()
    node.settle()
    assert [found.opcode for found in left.cq.drain()] == [CqeOpcode.REQ]


def test_receive_counter_that_jumps_means_full(node, target, bystander):
    """No request is read twice: the ring's are used once each, whatever they hold."""
    left, right = connected(node, log_rq_size=2)
    for number in range(4):
        right.post_recv(target.sge(64 * number, 64))
    node.memory.write(right.record, (0x7FFF).to_bytes(4, "big"))
    for number in range(4):
        left.send(bytes([number + 1]) * 8)
    node.settle()
    assert [target.read(64 * number, 1)[0] for number in range(4)] == [1, 2, 3, 4]


def raw(qp, opcode, ds, body=b"", *, blocks=1, qpn=None):
    """A request whose length field says ``ds``."""
    qpn = qp.qpn if qpn is None else qpn
    index = qp.sent & 0xFFFF
    wqe = (CTRL.pack(index << 8 | opcode, qpn << 8 | ds, SIGNALED, 0) + body).ljust(
        64 * blocks, b"\0"
    )
    for number in range(blocks):
        at = (qp.sent + number) % qp.sq_size * 64
        qp.put(qp.sq_offset + at, wqe[64 * number :][:64])
    qp.sent += blocks
    qp.node.memory.write(qp.record + 4, (qp.sent & 0xFFFF).to_bytes(4, "big"))
    qp.ring()
    qp.node.settle()
    return index


@pytest.mark.parametrize(("ds", "blocks"), [(0, 1), (5, 1), (63, 1), (63, 4), (9, 2)])
def test_length_that_cannot_be_true(node, target, bystander, ds, blocks):
    """None at all, or more than is posted: the request fails, and with it the queue pair."""
    left, right = connected(node, log_sq_size=4)
    right.post_recv(target.sge())
    index = raw(left, Opcode.SEND, ds, blocks=blocks)
    (failed,) = left.cq.drain()
    assert (failed.opcode, failed.syndrome) == (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR)
    assert failed.wqe_counter == index
    assert left.state == QpState.ERR
    assert not any(target.read())


@pytest.mark.parametrize("opcode", [Opcode.RDMA_WRITE, Opcode.RDMA_READ, Opcode.ATOMIC_CS])
def test_request_without_room_for_its_segments(node, target, bystander, opcode):
    left, _ = connected(node)
    raw(left, opcode, 1)
    (failed,) = left.cq.drain()
    assert failed.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR


def test_request_for_another_queue_pair(node, target, bystander):
    """The number in the request is not the ring's: nobody else's work gets done by it."""
    left, right = connected(node)
    right.post_recv(target.sge())
    raw(left, Opcode.SEND, 2, DATA.pack(*target.sge(0, 8)), qpn=right.qpn)
    (failed,) = left.cq.drain()
    assert (failed.qpn, failed.syndrome) == (left.qpn, CqeSyndrome.LOCAL_QP_OP_ERR)
    assert right.state == QpState.RTS


def test_pages_taken_away_from_the_ring(node, target, bystander):
    left, _right = connected(node)
    for page in left.pages:
        node.memory.revoke(page)
    left.ring()
    node.settle()
    assert left.state == QpState.RTS
    node.memory.write(left.record + 4, (1).to_bytes(4, "big"))
    left.ring()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, left.qpn)]
    assert left.state == QpState.ERR


def test_doorbell_record_taken_away(node, target, bystander):
    left, _right = connected(node)
    node.memory.revoke(left.record)
    left.ring()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, left.qpn)]


def test_receive_ring_taken_away(node, target):
    left, right = connected(node)
    right.post_recv(target.sge())
    for page in right.pages:
        node.memory.revoke(page)
    left.send(b"data")
    node.settle()
    assert left.cq.drain()[0].syndrome == CqeSyndrome.REMOTE_OP_ERR
    assert node.events() == [(EventType.WQ_CATAS_ERROR, right.qpn)]
    assert right.state == QpState.ERR


# Doorbells.


def ring(node, qpn, data=b""):
    node.driver.bar.write(
        node.driver.uar * 4096 + SEND_DB, bytes(4) + (qpn << 8).to_bytes(4, "big") + data
    )
    node.settle()


@pytest.mark.parametrize("qpn", [0, 1, 2, 0x3F, 0x7777, 0xFFFFFF])
def test_doorbell_for_nobody(node, bystander, qpn, caplog):
    ring(node, qpn)
    assert "ignored: no such queue" in caplog.text


def test_doorbell_after_destroy(node, target, bystander):
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    left.destroy()
    ring(node, left.qpn)
    assert not any(target.read())
    assert right.cq.drain() == []


def test_destroy_before_the_work_is_done(node, target, bystander):
    """The doorbell rang and the command came first: nothing touches memory after its answer."""
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data")
    left.destroy()
    before = node.memory.contents()
    node.settle()
    assert node.memory.contents() == before


def test_doorbell_of_somebody_else(node, target, bystander):
    """Any process can write any number: the device looks, and does what was posted anyway."""
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    other = node.driver.must(Op.ALLOC_UAR).uar
    node.driver.bar.write(other * 4096 + SEND_DB, bytes(4) + (left.qpn << 8).to_bytes(4, "big"))
    node.settle()
    assert target.read(0, 4) == b"data"
    ring(node, right.qpn)
    assert right.state == QpState.RTS


def store(node, offset, data):
    node.driver.bar.write(node.driver.uar * 4096 + offset, data)


@pytest.mark.parametrize("register", [SEND_DB, SEND_DB + 0x100, SEND_DB + 0x200])
def test_doorbell_in_two_halves(node, target, register):
    """The second half has the number; 32-bit processors, and some programs, store words."""
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    store(node, register, bytes(4))
    node.settle()
    assert not left.cq.drain()
    store(node, register + 4, (left.qpn << 8).to_bytes(4, "big"))
    node.settle()
    assert target.read(0, 4) == b"data"


@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_blueflame_in_stores_of_any_width(node, target, width, caplog):
    """The copy of the work request rings once; what lies behind the doorbell is no doorbell."""
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    copied = bytes(4) + (left.qpn << 8 | 2).to_bytes(4, "big") + bytes(range(56))
    for at in range(0, len(copied), width):
        store(node, SEND_DB + at, copied[at : at + width])
    node.settle()
    assert target.read(0, 4) == b"data"
    assert len(left.cq.drain()) == 1
    assert caplog.text == ""


@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_doorbell_that_is_too_short(node, bystander, length):
    node.driver.bar.write(node.driver.uar * 4096 + SEND_DB, bytes(length))
    node.settle()


def test_doorbell_in_a_page_that_is_nobodys(node, target, bystander):
    left, right = connected(node)
    right.post_recv(target.sge())
    left.send(b"data", ring=False)
    free = node.driver.must(Op.ALLOC_UAR).uar
    node.driver.must(Op.DEALLOC_UAR, uar=free)
    node.driver.bar.write(free * 4096 + SEND_DB, bytes(4) + (left.qpn << 8).to_bytes(4, "big"))
    node.settle()
    assert not any(target.read())


@pytest.mark.parametrize("state", [QpState.RST, QpState.INIT, QpState.RTR])
@pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.UD])
def test_nothing_is_sent_before_rts(node, state, service):
    qp = node.queue_pair(service)
    steps = {QpState.RST: [], QpState.INIT: [qp.init], QpState.RTR: [qp.init, qp.to_rtr]}
    for step in steps[state]:
        step()
    qp.post(Opcode.NOP)
    node.settle()
    assert qp.cq.drain() == []
    assert qp.state == state


def test_what_was_posted_early_is_sent_in_rts(node):
    qp = node.queue_pair()
    qp.init()
    qp.post(Opcode.NOP)
    qp.to_rtr().to_rts()
    node.settle()
    assert len(qp.cq.drain()) == 1


def test_everybody_gets_a_turn(pair):
    """A queue pair with a full ring does not keep another one waiting until it is empty."""
    busy, quick = (Channel(QpType.RC, *pair) for _ in range(2))
    for _ in range(60):
        busy.sender.post(Opcode.NOP, ring=False)
    busy.sender.ring()
    quick.sender.post(Opcode.NOP)
    busy.left.function.run()
    assert len(quick.sent()) == 1
    assert 0 < len(busy.sent()) < 60
