"""A request whose memory costs more than the round has left is moved in segments, an atomic not."""

import pytest

from emu.device.engine.mr.access_error import SEGMENT_BYTES
from emu.device.engine.qp.send_requests import parse
from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.keys.by_command import indirect_key
from emu.driver.verbs.connect import connect
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode

SIZE = 8
"""Bytes of a request, each of them a range of its key, which costs a step."""


@pytest.fixture
def parsed(node):
    """Parses the request that ``post`` puts into the ring, after so many steps of the round."""
    sender, receiver = node.queue_pair(), node.queue_pair()
    connect(sender, receiver)
    region = node.region(64)
    ranges = [(1, region.key, region.va + at) for at in range(SIZE)]
    key = indirect_key(node, AccessMode.KLMS, ranges, SIZE)

    def parsed(post, steps):
        post(sender, (region.key, region.va), (SIZE, key, 0))
        qp = node.hca.qps.get(sender.qpn)
        node.hca.budget.steps = steps
        return parse(node.hca, qp, qp.sq.fetch(qp.sq.waiting()))

    return parsed


@pytest.mark.parametrize(("left", "limit"), [(SIZE, 0), (SIZE - 1, SEGMENT_BYTES)])
def test_a_message_is_cut_when_the_round_is_nearly_over(parsed, left, limit):
    def post(qp, remote, sge):
        qp.write(remote, sge, ring=False)

    message = parsed(post, POLL_BUDGET - left)
    assert (message.length, message.limit) == (SIZE, limit)
    assert sum(map(len, message.data)) == (0 if limit else SIZE)


def test_an_atomic_is_never_cut(parsed):
    def post(qp, remote, sge):
        qp.fetch_add(remote, sge, 1, ring=False)

    message = parsed(post, POLL_BUDGET)
    assert (message.length, message.limit) == (SIZE, 0)
    assert sum(map(len, message.reply)) == SIZE


@pytest.mark.parametrize("size", [0, 16])
def test_a_write_without_remote_address_is_malformed(node, size):
    """Of the control segment alone; with the address it is a WRITE of no bytes."""
    sender, receiver = node.queue_pair(), node.queue_pair()
    connect(sender, receiver)
    sender.post(Opcode.RDMA_WRITE, bytes(size))
    node.settle()
    (done,) = sender.cq.drain()
    assert done.syndrome == (0 if size else CqeSyndrome.LOCAL_QP_OP_ERR)
