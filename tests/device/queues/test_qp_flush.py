"""What becomes of requests when a queue pair stops: flush, drain, restart (IBTA 10.3.1)."""

from itertools import chain

import pytest
from helpers.device.unawaited import begin, by_round

from emu.device.rounds.sizes import FLUSHED_PER_POLL, QUEUES_PER_ROUND
from emu.device.state import error_queue_poller
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.segments import SIGNALED
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType, RqType
from layouts.enums.wqe import Opcode

FLUSHED = CqeSyndrome.WR_FLUSH_ERR
FIRST_FLUSH_POLL_NS, LAST_FLUSH_POLL_NS = 1_000_000, 1_000_000_000
"""How often a queue pair in ERR is looked at, first and after a long time."""
RC, UC, UD, XRC_QP = QpType.RC, QpType.UC, QpType.UD, QpType.XRC


@pytest.fixture
def target(node):
    return node.region(4096)


def flushed(queue):
    """(opcode, wqe_counter) of what waits; all of it must be flushed requests."""
    found = queue.drain()
    assert {completion.syndrome for completion in found} <= {FLUSHED}
    return [(completion.opcode, completion.wqe_counter) for completion in found]


def test_everything_posted_is_flushed_in_order(node, qps, target):
    left, _ = qps
    for _ in range(3):
        left.post_recv(target.sge())
    indices = [left.post(Opcode.NOP, bytes(16 * number), ring=False) for number in range(6)]
    left.to_error()
    node.settle()
    found = flushed(left.cq)
    sends = [index for opcode, index in found if opcode == CqeOpcode.REQ_ERR]
    receives = [index for opcode, index in found if opcode == CqeOpcode.RESP_ERR]
    assert (sends, receives) == (indices, [0, 1, 2])


@pytest.mark.hostile
def test_a_long_queue_is_flushed_bit_by_bit(node, clock, target):
    count = 2 * FLUSHED_PER_POLL + 10
    left = node.queue_pair(log_sq_size=10, log_rq_size=10, log_cq_size=11)
    connect(left, node.queue_pair())
    for _ in range(count):
        left.post_recv(target.sge())
        left.post(Opcode.NOP, ring=False)
    begin(node.driver, (Op._2ERR_QP, {"qpn": left.qpn}))
    rounds = by_round(node, left.cq)
    assert 0 < max(map(len, rounds)) <= 4 * FLUSHED_PER_POLL, "two polls of two queues"
    assert len(rounds[0]) < 2 * count
    clock.advance(10 * FIRST_FLUSH_POLL_NS)
    node.settle()
    found = [*chain(*rounds), *left.cq.drain()]
    assert {done.syndrome for done in found} == {FLUSHED}
    for opcode in (CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR):
        assert [done.wqe_counter for done in found if done.opcode == opcode] == [*range(count)]


def test_requests_are_flushed_whether_signalled_or_not(node, qps):
    left, _ = qps
    left.post(Opcode.NOP, flags=0, ring=False)
    left.post(Opcode.NOP, flags=SIGNALED, ring=False)
    left.to_error()
    assert len(flushed(left.cq)) == 2


def test_flushed_request_says_what_it_was(node, qps):
    left, _ = qps
    left.post(Opcode.RDMA_READ, bytes(32), ring=False)
    left.to_error()
    (found,) = left.cq.drain()
    assert (found.wqe_opcode, found.qpn) == (Opcode.RDMA_READ, left.qpn)


def test_drain_posts_its_last_request_after_the_transition(node, qps, clock, target):
    """ib_drain_qp: to ERR, then one request for each queue, and wait for both (hw/qp.c)."""
    left, _ = qps
    left.post_recv(target.sge())
    left.to_error()
    node.settle()
    assert flushed(left.cq) == [(CqeOpcode.RESP_ERR, 0)]
    last_send = left.post(Opcode.RDMA_WRITE, bytes(16))
    node.settle()
    assert flushed(left.cq) == [(CqeOpcode.REQ_ERR, last_send)]
    left.post_recv()
    clock.advance(2 * FIRST_FLUSH_POLL_NS)
    node.settle()
    assert flushed(left.cq) == [(CqeOpcode.RESP_ERR, 1)]


@pytest.mark.parametrize("late", [0, 1, 10, 100, 10_000])
def test_late_receive_request_is_found(node, qps, clock, target, late):
    """The later it comes the longer it may take, but never more than the longest interval."""
    left, _ = qps
    left.to_error()
    clock.advance(late * FIRST_FLUSH_POLL_NS)
    node.settle()
    left.post_recv(target.sge())
    clock.advance(min((late + 2) * FIRST_FLUSH_POLL_NS, LAST_FLUSH_POLL_NS))
    node.settle()
    assert flushed(left.cq) == [(CqeOpcode.RESP_ERR, 0)]


def test_receive_events_of_a_drain(node, clock, target):
    """The waiter sleeps on the CQ's event."""
    rcq = node.completion_queue()
    left, right = node.queue_pair(rcq=rcq), node.queue_pair()
    connect(left, right)
    left.to_error()
    rcq.arm()
    left.post_recv()
    assert rcq.events() == 0
    clock.advance(2 * FIRST_FLUSH_POLL_NS)
    node.settle()
    assert rcq.events() == 1


def test_second_transition_to_error_changes_nothing(node, qps, clock, target):
    left, _ = qps
    left.post_recv(target.sge())
    left.to_error()
    left.to_error()
    assert len(flushed(left.cq)) == 1
    assert clock.waiting() == 1
    assert left.state == QpState.ERR


@pytest.mark.parametrize("state", [QpState.RST, QpState.INIT, QpState.RTR])
def test_error_from_any_state_flushes(node, target, state):
    qp = node.queue_pair()
    if state is not QpState.RST:
        qp.init()
    if state is QpState.RTR:
        qp.to_rtr()
    qp.post_recv(target.sge())
    qp.post(Opcode.NOP)
    node.settle()
    qp.to_error()
    assert len(flushed(qp.cq)) == 2


def test_restart_flushes_nothing_and_counts_from_zero(node, qps, target):
    left, right = qps
    left.post_recv(target.sge())
    left.post(Opcode.NOP, ring=False)
    for qp in qps:
        qp.to_reset()
    assert left.cq.drain() == []
    connect(left, right)
    right.post_recv(target.sge())
    assert left.send(b"again") == 0
    node.settle()
    assert [found.wqe_counter for found in left.cq.drain() + right.cq.drain()] == [0, 0]
    assert target.read(0, 5) == b"again"


def test_old_doorbell_record_counts_for_nothing_after_a_restart(node, qps, target):
    """UCX leaves it as it was (uct_ib_mlx5_txwq_reset): nothing is sent before a doorbell.

    Neither is it when something else makes the queue pair take its turn.
    """
    left, right = qps
    for queue in qps:
        queue.post(Opcode.NOP)
    node.settle()
    assert [len(queue.cq.drain()) for queue in qps] == [1, 1]
    for queue in qps:
        queue.to_reset()
        node.memory.write(queue.record + 4, (1).to_bytes(4, "big"))
    connect(left, right)
    right.post_recv(target.sge())
    assert left.send(b"again") == 0
    node.settle()
    assert [found.opcode for found in left.cq.drain()] == [CqeOpcode.REQ]
    assert [found.opcode for found in right.cq.drain()] == [CqeOpcode.RESP_SEND]


def test_restart_from_error_ends_the_looks(node, qps, clock):
    left, _ = qps
    left.to_error()
    left.to_reset()
    assert clock.waiting() == 0


def test_destroyed_in_error_ends_the_looks(node, qps, clock):
    left, _ = qps
    left.to_error()
    left.destroy()
    assert clock.waiting() == 0


def test_failed_request_takes_the_rest_with_it(node, qps, target):
    """The error first, then all that stands behind it, each once."""
    left, _right = qps
    left.post_recv(target.sge())
    indices = [left.write((0xBAD00, 0), b"x", ring=False)]
    indices += [left.send(b"never", ring=False) for _ in range(3)]
    left.ring()
    node.settle()
    found = left.cq.drain()
    sends = [completion for completion in found if completion.opcode == CqeOpcode.REQ_ERR]
    assert [completion.wqe_counter for completion in sends] == indices
    assert sends[0].syndrome == CqeSyndrome.REMOTE_ACCESS_ERR
    assert {completion.syndrome for completion in sends[1:]} == {FLUSHED}
    assert [completion.opcode for completion in found].count(CqeOpcode.RESP_ERR) == 1


def stopped_by_its_cq(node, **options):
    """A queue pair that the overrun of its send CQ has stopped."""
    qp = node.queue_pair(cq=node.completion_queue(1), **options)
    connect(qp, node.queue_pair())
    for _ in range(5):
        qp.post(Opcode.NOP)
    node.settle()
    assert qp.state is QpState.ERR
    return qp


def test_a_queue_pair_whose_cq_broke_flushes_receives_posted_later(node, target, clock):
    """A draining driver posts its last receive after the transition."""
    rcq = node.completion_queue()
    qp = stopped_by_its_cq(node, rcq=rcq)
    qp.post_recv(target.sge())
    clock.advance(10 * FIRST_FLUSH_POLL_NS)
    node.settle()
    assert flushed(rcq) == [(CqeOpcode.RESP_ERR, 0)]


def test_a_queue_pair_whose_cq_broke_announces_its_last_shared_request(node):
    qp = stopped_by_its_cq(node, srq=node.shared_queue(), rcq=node.completion_queue())
    assert [event for event in node.events() if event[1] == qp.qpn] == [
        (EventType.WQ_CATAS_ERROR, qp.qpn),
        (EventType.SRQ_LAST_WQE, qp.qpn),
    ]


def test_a_queue_pair_without_a_send_queue_flushes_receives_posted_later(node, target, clock):
    qp = node.queue_pair(no_sq=1).init()
    qp.to_error()
    qp.post_recv(target.sge())
    clock.advance(10 * FIRST_FLUSH_POLL_NS)
    node.settle()
    assert flushed(qp.cq) == [(CqeOpcode.RESP_ERR, 0)]


def test_unsignalled_request_that_fails_is_reported(node, qps):
    left, _ = qps
    left.write((0xBAD00, 0), b"x", flags=0)
    node.settle()
    assert left.cq.drain()[0].syndrome == CqeSyndrome.REMOTE_ACCESS_ERR


@pytest.mark.parametrize("service", [UC, UD])
def test_unreliable_service_stops_sending_only(node, target, service):
    channel = Channel(service, node, node)
    channel.sender.post_recv(target.sge())
    bad = channel.sender.post(0xFF, ring=False)
    good = channel.sender.post(Opcode.NOP)
    node.settle()
    first, second = channel.sender.cq.drain()
    assert (first.wqe_counter, first.syndrome) == (bad, CqeSyndrome.LOCAL_QP_OP_ERR)
    assert (second.wqe_counter, second.syndrome) == (good, FLUSHED)
    assert channel.sender.state == QpState.SQER
    late = channel.sender.post(Opcode.NOP)
    node.settle()
    assert flushed(channel.sender.cq) == [(CqeOpcode.REQ_ERR, late)]
    node.driver.must(Op.SQERR2RTS_QP, qpn=channel.sender.qpn)
    channel.sender.post(Opcode.NOP)
    node.settle()
    assert [found.opcode for found in channel.sender.cq.drain()] == [CqeOpcode.REQ]


# Shared receive queues are not flushed: the last request is announced (IBTA 11.6.3.3).


def last_wqe(node):
    return [about for event, about in node.events() if event is EventType.SRQ_LAST_WQE]


@pytest.mark.parametrize("service", [RC, UC, UD])
def test_last_request_of_a_shared_queue(node, clock, target, service):
    srq = node.shared_queue()
    srq.post(target.sge())
    qp = node.queue_pair(service, srq=srq)
    qp.init()
    qp.to_error()
    node.settle()
    assert last_wqe(node) == [qp.qpn]
    assert qp.cq.drain() == []
    qp.to_error()
    qp.post(Opcode.NOP)
    node.settle()
    assert last_wqe(node) == []
    assert clock.waiting() == 0


def test_xrc_target_has_no_last_request(node):
    """Its shared queues are those that the senders name, so none of them has it as a user."""
    channel = Channel(XRC_QP, node, node)
    channel.receiver.to_error()
    assert last_wqe(node) == []


def test_queue_pair_without_a_receive_queue(node, clock):
    qp = node.queue_pair(rq_type=RqType.ZERO_LEN_RQ, log_rq_size=0, log_rq_stride=0)
    qp.init()
    qp.to_error()
    assert (last_wqe(node), clock.waiting()) == ([], 0)


def test_two_queues_of_completions(node, target):
    """Each ring reports where its own completions go."""
    rcq = node.completion_queue()
    qp = node.queue_pair(rcq=rcq)
    qp.init()
    qp.post_recv(target.sge())
    qp.post(Opcode.NOP)
    qp.to_error()
    assert flushed(qp.cq) == [(CqeOpcode.REQ_ERR, 0)]
    assert flushed(rcq) == [(CqeOpcode.RESP_ERR, 0)]


@pytest.mark.hostile
class TestManyInError:
    """Queues that a driver leaves in ERR cost the same however many there are."""

    COUNT, AT_ONCE = 60, 8

    @pytest.fixture
    def looked(self, monkeypatch):
        """The numbers of the queue pairs whose doorbell records have been read."""
        monkeypatch.setattr(error_queue_poller, "POLLS_PER_INTERVAL", self.AT_ONCE)
        return []

    @pytest.fixture
    def many(self, node, clock, looked):
        cq = node.completion_queue()
        found = [node.queue_pair(cq=cq).init() for _ in range(self.COUNT)]
        for qp in found:
            qp.to_error()
        clock.advance(3 * LAST_FLUSH_POLL_NS)
        records = {qp.record: qp.qpn for qp in found}

        def look(address, _length, is_write):
            if address in records and not is_write:
                looked.append(records[address])

        node.memory.watch(look)
        return found

    def test_each_has_its_turn(self, many, clock, looked):
        assert clock.waiting() == 1
        for seconds in range(1, 20):
            clock.advance(LAST_FLUSH_POLL_NS)
            assert len(looked) == seconds * self.AT_ONCE
        assert set(looked) == {qp.qpn for qp in many}

    def test_late_request_of_one_of_them(self, node, many, clock, target):
        many[-1].post_recv(target.sge())
        clock.advance(-(-self.COUNT // self.AT_ONCE) * LAST_FLUSH_POLL_NS)
        node.settle()
        assert [done.qpn for done in many[-1].cq.drain()] == [many[-1].qpn]

    def test_what_they_flush_is_done_in_turns(self, node, many, clock, target, function):
        """A look only schedules; a round of the loop gives some queues a turn."""
        for qp in many:
            qp.post_recv(target.sge())
        clock.advance(LAST_FLUSH_POLL_NS)
        assert not many[0].cq.drain()
        function.run()
        assert len(many[0].cq.drain()) <= QUEUES_PER_ROUND

    def test_none_is_kept_that_is_gone(self, node, many, clock, looked):
        for qp in many:
            qp.destroy()
        assert clock.waiting() == 0
        clock.advance(5 * LAST_FLUSH_POLL_NS)
        assert looked == []
