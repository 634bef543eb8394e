"""Queue pairs that talk to themselves, and fail over it while they are at work."""

import pytest

from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType

TEXT = b"hello, me! " * 8


@pytest.fixture
def target(node):
    return node.region(4096)


def outcome(qp):
    qp.node.settle()
    return [(done.opcode, done.syndrome, done.wqe_counter) for done in qp.cq.drain()]


def flushed(*numbers):
    return [(CqeOpcode.REQ_ERR, CqeSyndrome.WR_FLUSH_ERR, number) for number in numbers]


def all_posted_is_consumed(qp):
    return qp.node.hca.qps.get(qp.qpn).sq.ci == qp.sent


def test_datagram_that_stops_its_sender(node):
    """Its requests are flushed, the one that did it among them, and each is reported once."""
    qp = node.queue_pair(QpType.UD)
    qp.init(q_key=7, mtu=5, log_msg_max=12)
    qp.to_rtr(mtu=0, log_msg_max=0)
    qp.to_rts()
    qp.post_recv((4096, 0xBAD << 8, 0))
    to = {"dqp_dct": qp.qpn, "rlid": node.lid, "key": 7 << 32}
    sent = [qp.datagram(to, TEXT) for _ in range(3)]
    assert outcome(qp) == [
        (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_PROT_ERR, 0),
        *flushed(*sent),
    ]
    assert qp.state is QpState.ERR
    assert all_posted_is_consumed(qp)


def test_message_that_is_too_long_for_the_sender(node, target):
    qp = node.queue_pair()
    qp.init()
    qp.to_rtr(node.lid, qp.qpn, 0x10)
    qp.to_rts(0x10)
    qp.post_recv(target.sge(0, 50))
    sent = [qp.send(TEXT) for _ in range(3)]
    assert outcome(qp) == [
        (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_LENGTH_ERR, 0),
        *flushed(*sent),
    ]
    assert all_posted_is_consumed(qp)


def test_a_queue_pair_can_talk_to_itself(node, target):
    qp = node.queue_pair()
    qp.init()
    qp.to_rtr(node.lid, qp.qpn, 0x10)
    qp.to_rts(0x10)
    qp.post_recv(target.sge())
    qp.send(TEXT)
    assert [opcode for opcode, _, _ in outcome(qp)] == [CqeOpcode.RESP_SEND, CqeOpcode.REQ]
    assert target.read(0, len(TEXT)) == TEXT
