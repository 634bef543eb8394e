"""What a counter set counts (query_q_counter_out; hw/counters.c)."""

import pytest

from emu.driver.verbs.channels import QKEY, Channel
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType

MS = 1_000_000


class Counted(Channel):
    """A connection whose queue pairs count into sets of their own."""

    def __init__(self, *ends, **options):
        self.sets = [node.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id for node in ends]
        super().__init__(QpType.RC, *ends, **options)
        for qp, number in zip((self.sender, self.receiver), self.sets):
            qp.node.driver.must(
                Op.RTS2RTS_QP, qpn=qp.qpn, qpc={"counter_set_id": number}, opt_param_mask=1 << 25
            )

    def counts(self, side):
        """What the sender's (0) or the receiver's (1) set has counted, but for zeros."""
        node = (self.left, self.right)[side]
        answer = node.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=self.sets[side])
        values = answer.out.as_dict()
        return {name: value for name, value in values.items() if value and name not in HEADER}


HEADER = ("status", "syndrome")


@pytest.fixture
def channel(ends):
    return Counted(*ends, ack_timeout=10, retry_count=1, rnr_retry=1, min_rnr_nak=9)


@pytest.fixture
def target(channel):
    return channel.right.region(4096)


@pytest.fixture
def source(channel):
    return channel.left.region(4096)


def test_good_traffic(channel, source, target):
    remote = (target.key, target.va)
    channel.post_recv(target.sge())
    channel.send(b"data")
    for _ in range(2):
        channel.write(remote, source.sge())
    for _ in range(3):
        channel.read(remote, source.sge())
    channel.fetch_add(remote, source.sge(0, 8), 1)
    channel.compare_swap(remote, source.sge(0, 8), 0, 0)
    channel.settle()
    assert channel.sent()
    assert channel.counts(0) == {}
    assert channel.counts(1) == {
        "rx_write_requests": 2, "rx_read_requests": 3, "rx_atomic_requests": 2,
    }  # fmt: skip


def test_receiver_that_is_not_ready(channel, target, clock):
    channel.send(b"late")
    channel.settle()
    channel.post_recv(target.sge())
    clock.advance(1 * MS)
    channel.settle()
    assert channel.counts(0) == {"rnr_nak_retry_err": 1}
    assert channel.counts(1) == {"out_of_buffer": 1}


def test_receiver_that_never_is(channel, clock):
    channel.send(b"late")
    channel.settle()
    clock.advance(1 * MS)
    channel.settle()
    assert channel.counts(0) == {
        "rnr_nak_retry_err": 2, "req_rnr_retries_exceeded": 1, "req_cqe_error": 1,
    }  # fmt: skip


def test_silence(channel, clock):
    channel.receiver.to_reset()
    channel.send(b"anybody?")
    channel.send(b"no?")
    channel.settle()
    for _ in range(10):
        clock.advance(20 * MS)
        channel.settle()
    counts = channel.counts(0)
    for name in ("roce_adp_retrans", "roce_adp_retrans_to"):
        counts.pop(name, None)  # packets have the requester ask before the timeout
    assert counts == {
        "local_ack_timeout_err": 2, "req_transport_retries_exceeded": 1, "req_cqe_error": 2,
        "req_cqe_flush_error": 1,
    }  # fmt: skip


def test_refused_access(channel, source):
    channel.write((0xBAD00, 0), source.sge())
    channel.settle()
    assert channel.counts(0) == {"req_remote_access_errors": 1, "req_cqe_error": 1}
    assert channel.counts(1) == {"resp_remote_access_errors": 1, "rx_write_requests": 1}


def test_message_that_does_not_fit(channel, source, target):
    channel.post_recv(target.sge(0, 3))
    channel.post_recv(target.sge(0, 3))
    channel.send(b"four")
    channel.settle()
    assert channel.counts(0) == {"req_remote_invalid_request": 1, "req_cqe_error": 1}
    assert channel.counts(1) == {
        "resp_local_length_error": 1, "resp_cqe_error": 2, "resp_cqe_flush_error": 1,
    }  # fmt: skip


def test_local_errors(channel):
    channel.send((8, 0xBAD00, 0))
    channel.settle()
    assert channel.counts(0) == {"req_local_protection": 1, "req_cqe_error": 1}


def test_lost_completions(ends):
    channel = Counted(*ends)
    queue = channel.left.completion_queue(0)
    channel.left.hca.qps.get(channel.sender.qpn).scq = channel.left.hca.cqs.get(queue.cqn)
    for _ in range(3):
        channel.sender.post(0)
    channel.settle()
    assert channel.counts(0)["cq_overflow"] >= 1


def test_datagram_without_a_request(node):
    channel = Channel(QpType.UD, node, node)
    number = node.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    qpc = {"counter_set_id": number, "q_key": QKEY}
    node.driver.must(Op.RTS2RTS_QP, qpn=channel.receiver.qpn, qpc=qpc, opt_param_mask=1 << 25)
    channel.send(b"lost")
    node.settle()
    answer = node.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number)
    assert answer.out_of_buffer == 1
