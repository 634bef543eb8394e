"""Refused requests in the trace: by which check of the responder, in process and as packets."""

import pytest
from helpers.device.forging import request

from emu.device.trace.event import TracePoint
from emu.device.trace.recorder import EventList, Recorder
from emu.device.trace.text import body
from emu.driver.verbs.channels import Channel
from layouts.enums import QpType
from layouts.wire.bth import PacketKind

FIRST_PSN = 0x10
"""Number of the sender's first packet, as ``connect`` sets it."""


@pytest.fixture
def events():
    return EventList()


@pytest.fixture
def refusals(events):
    """The check and the queue pair of each refused request."""
    return lambda: [
        (event.fields["check"], event.fields["qpn"]) for event in events.of(TracePoint.NAK)
    ]


@pytest.fixture
def opened(ends, events, clock):
    """Opens a channel whose receiver is traced."""

    def open_channel(**options):
        left, right = ends
        right.hca.tracer = Recorder(events, clock)
        return Channel(QpType.RC, left, right, **options)

    return open_channel


def test_wrong_key(opened, refusals):
    channel = opened()
    region = channel.left.region(64)
    channel.write((0x7777_7700, 0), region.sge())
    channel.settle()
    assert refusals() == [("CHK_RKEY", channel.receiver.qpn)]


def test_operation_that_the_queue_pair_does_not_allow(opened, refusals):
    channel = opened(rwe=0)
    target = channel.right.region(64)
    channel.write((target.key, target.va), channel.left.region(64).sge())
    channel.settle()
    assert refusals() == [("CHK_OP_VALID", channel.receiver.qpn)]


def test_no_receive_request(opened, refusals):
    channel = opened(rnr_retry=0)
    channel.send(channel.left.region(64).sge())
    channel.settle()
    assert refusals() == [("CHK_RESOURCE", channel.receiver.qpn)]


def test_receive_request_that_is_too_short(opened, refusals, events):
    channel = opened()
    channel.post_recv(channel.right.region(32).sge())
    channel.send(channel.left.region(64).sge())
    channel.settle()
    assert refusals() == [("CHK_LENGTH", channel.receiver.qpn)]
    (event,) = events.of(TracePoint.NAK)
    assert body(event).endswith("CHK_LENGTH: message of 64 bytes or more is 32 too long")


@pytest.fixture
def packets(packet_pair, events, clock):
    """A channel whose traced receiver gets forged packets."""
    packet_pair[1].hca.tracer = Recorder(events, clock)
    return Channel(QpType.RC, *packet_pair, mtu=1)


@pytest.mark.parametrize(
    ("psn", "position", "size", "check"),
    [
        (0, {"is_first": False}, 8, "CHK_OP_SEQ"),
        (0, {"is_last": False}, 8, "CHK_LENGTH"),
        (0, {}, 512, "CHK_LENGTH"),
        (1, {}, 8, "CHK_PSN"),
    ],
)
def test_packet(packets, packet_wire, refusals, psn, position, size, check):
    psn += FIRST_PSN
    packet_wire.arrive(request(packets, PacketKind.SEND, psn, payload=bytes(size), **position))
    packets.settle()
    assert refusals() == [(check, packets.receiver.qpn)]
