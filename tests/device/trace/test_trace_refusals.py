"""Refused requests in the trace: by which check of the responder, in process and as packets."""

import re
from pathlib import Path

import pytest
from helpers.device.forging import request

from emu.device.engine.rc import checks
from emu.device.engine.rc.checks import RxCheck
from emu.device.trace import event
from emu.device.trace.event import TracePoint
from emu.device.trace.recorder import EventList, Recorder
from emu.device.trace.text import body
from emu.driver.verbs.channels import Channel
from layouts.enums.qp import QpType
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
        (each.fields["check"], each.fields["qpn"]) for each in events.of(TracePoint.NAK)
    ]


@pytest.fixture
def opened(ends, events, clock):
    """Opens a channel whose receiver is traced."""

    def open_channel(**options):
        left, right = ends
        right.hca.probes.tracer = Recorder(events, clock)
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
    (refused,) = events.of(TracePoint.NAK)
    assert body(refused).endswith("CHK_LENGTH: message of 64 bytes or more is 32 too long")


def test_receive_request_with_a_wrong_key(opened, refusals):
    channel = opened()
    channel.post_recv((64, 0x7777_7700, 0))
    channel.send(channel.left.region(64).sge())
    channel.settle()
    assert refusals() == [("EXECUTE", channel.receiver.qpn)]


def test_key_that_must_not_be_invalidated(opened, refusals):
    channel = opened()
    key = channel.right.region(64).key
    channel.post_recv(channel.right.region(64).sge())
    channel.send(channel.left.region(64).sge(), inv_rkey=key)
    channel.settle()
    assert refusals() == [("EXECUTE", channel.receiver.qpn)]


def test_receive_queue_that_cannot_be_read(opened, refusals):
    channel = opened()
    channel.post_recv(channel.right.region(64).sge())
    channel.right.memory.revoke(channel.receiver.record)
    channel.send(channel.left.region(64).sge())
    channel.settle()
    assert refusals() == [("CHK_RESOURCE", channel.receiver.qpn)]


@pytest.fixture
def packets(packet_pair, events, clock):
    """A channel whose traced receiver gets forged packets."""
    packet_pair[1].hca.probes.tracer = Recorder(events, clock)
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


@pytest.mark.parametrize(("gap", "check"), [(0, "CHK_OP_SEQ"), (5, "CHK_PSN")])
def test_lost_packet_of_an_unreliable_connection(
    packet_pair, packet_wire, events, refusals, clock, gap, check
):
    packet_pair[1].hca.probes.tracer = Recorder(events, clock)
    channel = Channel(QpType.UC, *packet_pair, mtu=1)
    packet_wire.arrive(
        request(channel, PacketKind.SEND, FIRST_PSN + gap, payload=bytes(8), is_first=False)
    )
    channel.settle()
    assert refusals() == [(check, channel.receiver.qpn)]


def test_pages_list_the_checks_in_their_order():
    names = [check.value for check in RxCheck]
    page = Path(checks.__file__).with_name("README.md").read_text()
    assert re.findall(r"^\| (CHK_\w+|EXECUTE) \|", page, re.MULTILINE) == names
    assert f"({', '.join(names)})" in " ".join(event.__doc__.split()).replace("name: ", "(")
