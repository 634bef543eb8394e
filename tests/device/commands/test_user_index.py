"""Version 1 of completions: they name a queue by what its process calls it (libmlx5: cq.c)."""

import pytest

from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType

KERNEL = 0xFFFFFF
"""MLX5_IB_DEFAULT_UIDX."""


@pytest.fixture
def limits():
    """Queue pairs, and an SQ beside them."""
    return {"log_max_sq": 8}


def completed(one, two, data=b"message"):
    """What completions of a send and of its receive call their queues."""
    target = two.node.region(64)
    two.post_recv(target.sge())
    one.send(data)
    one.node.settle()
    (sent,), (received,) = one.cq.drain(), two.cq.drain()
    assert (sent.opcode, received.opcode) == (CqeOpcode.REQ, CqeOpcode.RESP_SEND)
    assert (sent.qpn, received.qpn) == (one.qpn, two.qpn)
    return sent.srqn, received.srqn


def pair(node, *indices, **options):
    found = [node.queue_pair(user_index=index, **options) for index in indices]
    connect(*found)
    return found


def test_both_sides(node):
    assert completed(*pair(node, 0x123456, 7)) == (0x123456, 7)


def test_the_kernel_looks_for_numbers(node):
    assert completed(*pair(node, KERNEL, KERNEL)) == (0, 0)


def test_errors(node):
    one, two = pair(node, 0x10, 0x20)
    two.post_recv(node.region(64).sge())
    two.to_error()
    one.to_error()
    one.send(b"late")
    node.settle()
    for qp, opcode, index in ((one, CqeOpcode.REQ_ERR, 0x10), (two, CqeOpcode.RESP_ERR, 0x20)):
        (failed,) = qp.cq.drain()
        assert (failed.opcode, failed.srqn) == (opcode, index)


@pytest.mark.parametrize(("index", "told"), [(0x30, 0x30), (KERNEL, None)])
def test_shared_queue_of_a_queue_pair(node, index, told):
    """libmlx5 finds the SRQ by the queue pair; who looks for numbers gets the SRQ's."""
    srq = node.shared_queue()
    one, two = node.queue_pair(user_index=5), node.queue_pair(srq=srq, user_index=index)
    connect(one, two)
    srq.post(node.region(64).sge())
    one.send(b"message")
    node.settle()
    (received,) = two.cq.drain()
    assert received.srqn == (srq.srqn if told is None else told)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"user_index": 0x77}, 0x77),
        ({"user_index": 0}, 0),
        ({"user_index": KERNEL}, None),
        ({"user_index": 0x77, "user_index_equal_xrc_srqn": 1}, None),
    ],
)
def test_xrc_messages_name_the_shared_queue(node, entry, told):
    plain = node.driver.xrc_srq_fields
    node.driver.xrc_srq_fields = lambda *args, **context: plain(*args, **context | entry)
    channel = Channel(QpType.XRC, node, node)
    channel.post_recv(node.region(64).sge())
    channel.send(b"message")
    node.settle()
    (received,) = channel.recv_cq.drain()
    assert received.srqn == (channel.srqn if told is None else told)


def test_ethernet_send_queue(node):
    sq = SendQueue(node, user_index=0x99)
    sq.nop()
    node.settle()
    (sent,) = sq.cq.drain()
    assert sent.srqn == 0x99


class TestVersionZero:
    @pytest.fixture
    def limits(self):
        return {"cqe_version": 0}

    def test_an_index_means_nothing(self, node):
        assert completed(*pair(node, 0x123456, 7)) == (0, 0)
