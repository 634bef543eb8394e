"""Queue pairs with forced loopback, which reach only each other (core/steering/dr_send.c)."""

import pytest

from emu.driver.nodes.roce import on_one_segment
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

RETRY = CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
SHORT = {"ack_timeout": 8, "retry_count": 1}
SECOND = 1_000_000_000


@pytest.fixture
def node(clock):
    return on_one_segment(clock, 1)[0]


@pytest.fixture
def region(node):
    return node.region(4096)


@pytest.fixture
def write(node, region, clock):
    """The syndrome of a message from one queue pair to another whose context is partly wrong."""

    def run(service=QpType.RC, fl=1, peer=None, psn=7, **rtr):
        one, two = node.queue_pair(), node.queue_pair(service)
        one.init().to_rtr(qpn=two.qpn, path={"fl": 1}).to_rts(7, **SHORT)
        path = {"fl": 1} if fl else node.path_to(node)
        to = one.qpn if peer is None else peer
        two.init().to_rtr(qpn=to, psn=psn, path=path, **rtr)
        one.write((region.key, region.va), b"data")
        for _ in range(10):
            node.settle()
            clock.advance(SECOND // 10)
        (done,) = one.cq.drain()
        return done.syndrome

    return run


def test_the_peer_is_ready(write, region):
    assert write() == 0
    assert region.read(0, 4) == b"data"


@pytest.mark.parametrize(
    "wrong",
    [{"fl": 0}, {"service": QpType.UC}, {"peer": 5}, {"psn": 8}, {"log_msg_max": 29}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_peer_is_not_the_right_one(write, region, wrong):
    assert write(**wrong) == RETRY
    assert not any(region.read())
