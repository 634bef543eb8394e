"""What a lost or late packet costs a reliable connection: packets, and simulated time."""

import pytest
from helpers.channels import Channel

from emu.engine import lifecycle
from emu.engine.rc.timers import ACK_TIMEOUT_UNIT_NS
from emu.port.ib.framing import parse
from layouts.bth import Kind
from layouts.enums import QpType

CODE = 14
TIMEOUT = 4 * (ACK_TIMEOUT_UNIT_NS << CODE)
MTU, MS = 1024, 1_000_000
READS = 16
"""How many a queue pair may have open, on either side."""
SIZE = 64 * MTU
TEXT = (bytes(range(251)) * (SIZE // 251 + 1))[:SIZE]


@pytest.fixture
def channel(packet_pair):
    return Channel(QpType.RC, *packet_pair, ack_timeout=CODE, mtu=3)


@pytest.fixture
def source(channel):
    return channel.left.region(SIZE)


@pytest.fixture
def target(channel):
    region = channel.right.region(SIZE)
    region.write(TEXT)
    return region


def read(channel, source, target, packets, at=0):
    """READ some packets' worth of data to its own place."""
    length = packets * MTU
    channel.read((target.key, target.va + at * MTU), source.sge(at * MTU, length))


def on_the_wire(wire):
    """Take what is on its way off the wire."""
    frames = list(wire.frames)
    wire.frames.clear()
    return frames


def requested(channel, wire):
    lifecycle.run(channel.left.hca)
    return on_the_wire(wire)


def arrive(wire, frames):
    for frame in frames:
        wire.arrive(frame)


def psns(frames, kind):
    packets = [parse(memoryview(frame)) for frame in frames]
    return [packet.psn for packet in packets if packet.op.kind is kind]


def test_pauses_are_no_reason_to_send_again(channel, packet_wire, clock, source, target):
    """The timeout begins when a message is sent, not when the one before it was acknowledged."""
    channel.write((target.key, target.va), source.sge(0, MTU))
    channel.settle()
    clock.advance(TIMEOUT - MS)
    channel.write((target.key, target.va), source.sge(0, MTU))
    requests = requested(channel, packet_wire)
    clock.advance(TIMEOUT - MS)
    assert requested(channel, packet_wire) == []
    arrive(packet_wire, requests)
    channel.settle()
    assert len(channel.sent()) == 2


# A responder's duplicates.


def test_reads_that_come_twice_take_no_room_from_new_ones(channel, packet_wire, source, target):
    """All open READs are asked for again while their data are on the way, and then new ones."""
    for at in range(READS):
        read(channel, source, target, 1, at)
    requests = requested(channel, packet_wire)
    arrive(packet_wire, requests)
    lifecycle.run(channel.right.hca)
    data = on_the_wire(packet_wire)
    assert len(data) == READS
    arrive(packet_wire, requests)  # the responder is slow to answer these
    arrive(packet_wire, data)
    for at in range(READS, 2 * READS):
        read(channel, source, target, 1, at)
    arrive(packet_wire, requested(channel, packet_wire))
    channel.settle()
    assert len(channel.sent()) == 2 * READS
    assert source.read(0, 2 * READS * MTU) == TEXT[: 2 * READS * MTU]


def test_read_that_comes_twice_is_answered_in_its_place(channel, packet_wire, source, target):
    """Not behind the data of later READs, which would be dropped as long as its own are missing."""
    read(channel, source, target, 1)
    first = requested(channel, packet_wire)
    arrive(packet_wire, first)
    lifecycle.run(channel.right.hca)
    on_the_wire(packet_wire)  # its data are lost
    read(channel, source, target, 8, 1)
    arrive(packet_wire, requested(channel, packet_wire))
    arrive(packet_wire, first)
    lifecycle.run(channel.right.hca)
    answers = psns(packet_wire.frames, Kind.READ_RESPONSE)
    assert answers == sorted(answers)
    channel.settle()
    assert len(channel.sent()) == 2
    assert source.read(0, 9 * MTU) == TEXT[: 9 * MTU]


def test_atomic_that_comes_twice_is_answered_in_its_place(channel, packet_wire, source, target):
    target.write((41).to_bytes(8, "little"))
    channel.fetch_add((target.key, target.va), source.sge(0, 8), 1)
    first = requested(channel, packet_wire)
    arrive(packet_wire, first)
    lifecycle.run(channel.right.hca)
    on_the_wire(packet_wire)
    read(channel, source, target, 8, 1)
    arrive(packet_wire, requested(channel, packet_wire))
    arrive(packet_wire, first)
    lifecycle.run(channel.right.hca)
    answers = [parse(memoryview(frame)).psn for frame in packet_wire.frames]
    assert answers == sorted(answers)
    channel.settle()
    assert len(channel.sent()) == 2
    assert source.read(0, 8) == (41).to_bytes(8, "little")
    assert target.read(0, 8) == (42).to_bytes(8, "little")


def test_packet_that_comes_twice_is_acknowledged_with_all_that_came_after_it(
    channel, packet_wire, source, target
):
    channel.write((target.key, target.va), source.sge(0, 8 * MTU))
    requests = requested(channel, packet_wire)
    arrive(packet_wire, requests)
    lifecycle.run(channel.right.hca)
    on_the_wire(packet_wire)  # the acknowledgement is lost
    arrive(packet_wire, requests[:1])
    lifecycle.run(channel.right.hca)
    assert psns(packet_wire.frames, Kind.ACKNOWLEDGE) == psns(requests[-1:], Kind.WRITE)
    channel.settle()
    assert len(channel.sent()) == 1


def test_acknowledgement_of_what_comes_twice_does_not_stand_for_data(
    channel, packet_wire, source, target
):
    """The responses to a WRITE, a READ and a WRITE are lost; the first WRITE comes again."""
    channel.write((target.key, target.va), source.sge(0, MTU))
    read(channel, source, target, 1)
    channel.write((target.key, target.va), source.sge(0, MTU))
    requests = requested(channel, packet_wire)
    arrive(packet_wire, requests)
    lifecycle.run(channel.right.hca)
    on_the_wire(packet_wire)
    arrive(packet_wire, requests[:1])
    lifecycle.run(channel.right.hca)
    assert psns(packet_wire.frames, Kind.ACKNOWLEDGE) == psns(requests[:1], Kind.WRITE)
