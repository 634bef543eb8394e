"""Rings whose page is kept as a view of the guest's memory."""

import pytest

from emu.driver.verbs.channels import Channel
from layouts.enums.qp import QpState, QpType


@pytest.fixture
def channel(pair):
    return Channel(QpType.RC, *pair)


@pytest.fixture
def write(channel):
    """One write; whether it is done without error."""
    source, target = channel.left.region(64), channel.right.region(64)

    def run():
        channel.write((target.key, target.va), source.sge())
        channel.settle()
        if channel.left.hca.cqs.get(channel.sender.cq.cqn).status:
            return False
        return [done.syndrome for done in channel.sender.cq.drain()] == [0]

    return run


@pytest.fixture
def views(channel):
    """The views of the sender's rings."""
    hca = channel.left.hca
    qp = hca.qps.get(channel.sender.qpn)
    return lambda: [page.view for page in (qp.sq._page, qp.scq.page)]


def test_views_are_dropped_before_memory_may_go(channel, write, views):
    assert write()
    assert all(views())
    channel.left.function.forget_views()
    assert not any(views())
    assert write()
    assert all(views())


def test_views_of_an_older_map_are_not_used(channel, write, views):
    assert write()
    before = views()
    channel.left.memory.permit(False)
    channel.left.memory.permit(True)
    assert write()
    assert all(new is not old for new, old in zip(views(), before))


def test_page_that_has_gone_breaks_the_queue(channel, write):
    assert write()
    hca = channel.left.hca
    channel.left.memory.revoke(hca.qps.get(channel.sender.qpn).scq.buffer.pages[0])
    assert not write()
    assert channel.sender.state is QpState.ERR


def test_receive_ring_reads_by_its_view(channel):
    source, target = channel.left.region(64), channel.right.region(64)
    hca = channel.right.hca

    def send():
        channel.send(source.sge())
        channel.settle()
        return [done.syndrome for done in channel.recv_cq.drain()]

    ring = hca.qps.get(channel.receiver.qpn).rq
    for _ in range(3):
        channel.post_recv(target.sge())
    assert send() == [0]
    assert ring._page.view
    channel.right.function.forget_views()
    assert not ring._page.view
    assert send() == [0]
    assert ring._page.view
    channel.right.memory.revoke(ring._buffer.pages[0])
    assert send() != [0]
    assert channel.receiver.state is QpState.ERR
