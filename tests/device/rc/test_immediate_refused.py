"""A WRITE with immediate data whose key is wrong: what becomes of the receive request."""

import pytest

from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType

RC, UC, XRC = QpType.RC, QpType.UC, QpType.XRC
MTU = 256
FLUSH, ACCESS = CqeSyndrome.WR_FLUSH_ERR, CqeSyndrome.LOCAL_ACCESS_ERR


@pytest.fixture
def channel(ends, service):
    return Channel(service, *ends, mtu=1)


@pytest.fixture
def source(channel):
    return channel.left.region(2 * MTU)


@pytest.fixture
def target(channel):
    return channel.right.region(2 * MTU)


def write(channel, source, target, length):
    """With a key that there is not."""
    channel.write((target.key ^ 1, target.va), source.sge(0, length), imm=7)


@pytest.mark.parametrize("service", [RC, XRC])
@pytest.mark.parametrize("length", [8, MTU])
def test_its_only_packet_takes_a_request_first(channel, source, target, length):
    """IBTA 11.6.2: the request fails with a local access error. No event says the same again."""
    channel.post_recv()
    write(channel, source, target, length)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert channel.receive_failure() == ACCESS
    assert channel.receiver.state is QpState.ERR
    events = channel.right.events()
    assert EventType.WQ_ACCESS_ERROR not in [event for event, _ in events]


@pytest.mark.parametrize("service", [RC, XRC])
def test_of_several_packets_the_last_one_would_take_it(channel, source, target):
    channel.post_recv()
    write(channel, source, target, MTU + 1)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    if channel.srqn is None:
        assert channel.receive_failure() == FLUSH
    assert (EventType.WQ_ACCESS_ERROR, channel.receiver.qpn) in channel.right.events()


@pytest.mark.parametrize("service", [RC, XRC])
def test_without_a_request_nobody_looks_at_the_key(channel, source, target):
    """The sender is told to come again, as with a key that is right."""
    write(channel, source, target, 8)
    channel.settle()
    assert channel.receiver.state is QpState.RTS
    assert channel.sent() == channel.received() == []


@pytest.mark.parametrize("service", [RC, XRC])
def test_right_that_the_queue_pair_does_not_give_comes_before_both(ends, service):
    channel = Channel(service, *ends, mtu=1, rwe=0)
    source, target = channel.left.region(8), channel.right.region(8)
    channel.post_recv()
    write(channel, source, target, 8)
    assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
    assert (EventType.WQ_INVAL_REQ_ERROR, channel.receiver.qpn) in channel.right.events()


@pytest.mark.parametrize("service", [UC])
@pytest.mark.parametrize("length", [8, MTU + 1])
def test_unreliable_the_request_stays(channel, source, target, length):
    index = channel.post_recv()
    write(channel, source, target, length)
    channel.write((target.key, target.va), source.sge(0, 8), imm=9)
    channel.settle()
    (done,) = channel.received()
    assert (done.immediate, done.wqe_counter) == (9, index or 0)


@pytest.mark.parametrize("service", [XRC])
def test_its_request_goes_with_the_shared_queue(channel, source):
    """While a page is absent, which then never comes: the event is the only word of it."""
    right, pager = channel.right, Pager(channel.right)
    domain = right.hca.srqs.get(channel.srqn).xrcd.handle
    cq = right.completion_queue()
    queue = right.shared_queue(xrcd=domain, cq=cq)
    queue.post()
    absent = PagedRegion(pager, 4096)
    channel.sender.write((absent.key, absent.va), source.sge(0, 8), imm=7, xrc_srqn=queue.srqn)
    event = pager.fault()
    right.driver.must(Op.DESTROY_XRC_SRQ, xrc_srqn=queue.srqn)
    pager.must_resume(event, error=True)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert (EventType.WQ_ACCESS_ERROR, channel.receiver.qpn) in right.events()
    assert cq.drain() == []
