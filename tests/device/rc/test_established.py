"""Communication established: the event of the first request in RTR (IBTA 11.6.3.1)."""

from typing import Any, cast

import pytest

from emu.driver.verbs.channels import Channel
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

SERVICES = [QpType.RC, QpType.UC, QpType.XRC]


@pytest.fixture(params=SERVICES, ids=lambda one: one.name)
def channel(request, ends, monkeypatch):
    """A connection whose receiver's driver has not heard yet that the sender is ready."""
    return in_rtr(request.param, ends, monkeypatch)


def in_rtr(service, ends, monkeypatch):
    to_rts = QueuePair.to_rts
    made = []

    def stay(qp, *args, **options):
        made.append((qp, args, options))

    with monkeypatch.context() as patch:
        patch.setattr(QueuePair, "to_rts", stay)
        channel = Channel(service, *ends)
    for qp, args, options in made:
        if qp is channel.sender:
            to_rts(qp, *args, **options)
        else:
            cast(Any, channel).go_on = lambda qp=qp, args=args, options=options: to_rts(
                qp, *args, **options
            )
    return channel


def established(channel):
    return [about for event, about in channel.right.events() if event is EventType.COMM_EST]


def write(channel, remote):
    channel.write(remote, channel.left.region(4096).sge(0, 8))
    channel.settle()
    channel.sent()


def test_first_request(channel):
    region = channel.right.region(4096)
    remote = (region.key, region.va)
    assert established(channel) == []
    write(channel, remote)
    assert established(channel) == [channel.receiver.qpn]
    write(channel, remote)
    channel.go_on()
    write(channel, remote)
    assert established(channel) == []


def test_nothing_new_after_rts(channel):
    channel.go_on()
    region = channel.right.region(4096)
    write(channel, (region.key, region.va))
    assert channel.right.events() == []


def test_request_that_is_refused(ends, monkeypatch):
    """It has come all the same."""
    channel = in_rtr(QpType.RC, ends, monkeypatch)
    channel.write((0xBAD00, 0), channel.left.region(4096).sge(0, 8))
    channel.settle()
    assert [event for event, _ in channel.right.events()] == [
        EventType.COMM_EST, EventType.WQ_ACCESS_ERROR,
    ]  # fmt: skip


def test_again_after_a_reset(ends, monkeypatch):
    channel = in_rtr(QpType.RC, ends, monkeypatch)
    region = channel.right.region(4096)
    write(channel, (region.key, region.va))
    assert established(channel)
    qp = channel.receiver
    qp.to_reset()
    qp.init()
    qp.to_rtr(qpn=channel.sender.qpn, path=channel.right.path_to(channel.left), psn=0x14)
    psn = channel.left.hca.qps.need(channel.sender.qpn).psn
    channel.right.hca.qps.need(qp.qpn).epsn = psn
    write(channel, (region.key, region.va))
    assert established(channel) == [qp.qpn]
