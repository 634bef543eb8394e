"""Middle packets that come together: as if each had come alone, and what of that goes wrong.

``tests/device/traffic/test_alike.py`` holds what a driver sees against packets and messages.
"""

import random

import pytest
from helpers.device.forging import request, response, train
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.ib.framing import frames_of, parse, parse_train
from emu.device.port.packet import BadPacketError
from emu.device.port.train import MAX_PACKETS, TRAIN_PACKETS
from emu.device.rounds.budget import TIMER_BUDGET
from emu.driver.nodes.packet_wire import is_train
from emu.driver.verbs.channels import Channel
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PacketKind

RC, UC, XRC = QpType.RC, QpType.UC, QpType.XRC
MTU = 1024
PACKETS = 100
SIZE = PACKETS * MTU - 100
TEXT = random.Random(7).randbytes(SIZE)
TIMEOUT = 4 * (ACK_TIMEOUT_UNIT_NS << 10)


@pytest.fixture
def wire(packet_wire):
    packet_wire.takes_trains = True
    return packet_wire


@pytest.fixture(params=[RC, UC, XRC], ids=lambda one: one.name)
def any_channel(request, packet_pair, wire):
    return Channel(request.param, *packet_pair, mtu=3, ack_timeout=10)


@pytest.fixture
def channel(packet_pair, wire):
    return Channel(RC, *packet_pair, mtu=3, ack_timeout=10)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE, va=0x1000_0000_0123)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE, va=0x2000_0000_0F00)


def seen(wire):
    """All frames that pass from now on."""
    frames = []
    wire.tap = lambda frame: (frames.append(frame), [frame])[1]
    return frames


def test_a_long_message_is_a_packet_its_trains_and_a_packet(any_channel, wire):
    source, target = any_channel.left.region(SIZE), any_channel.right.region(SIZE)
    source.write(TEXT)
    frames = seen(wire)
    any_channel.write((target.key, target.va), source.sge())
    any_channel.settle()
    assert [done.syndrome for done in any_channel.sent()] == [0]
    assert target.read() == TEXT
    ours = [one for one in frames if parse_any(one).op.kind is PacketKind.WRITE]
    assert not is_train(ours[0])
    assert not is_train(ours[-1])
    trains = [parse_train(memoryview(one)) for one in ours[1:-1]]
    assert sum(train.count for train in trains) == PACKETS - 2
    assert len(trains) <= 2 + PACKETS // TRAIN_PACKETS
    sent, received = (node.hca.ib for node in (any_channel.left, any_channel.right))
    assert sent.counters()["transmitted_ib_unicast"].packets >= PACKETS
    assert sent.counters()["transmitted_ib_unicast"] == received.counters()["received_ib_unicast"]


def parse_any(frame):
    view = memoryview(frame)
    return parse_train(view).first if is_train(frame) else parse(view)


def test_reads_and_sends(channel, wire, source, target):
    target.write(TEXT[::-1])
    frames = seen(wire)
    channel.read((target.key, target.va), source.sge())
    channel.settle()
    assert source.read() == TEXT[::-1]
    channel.post_recv(target.sge())
    source.write(TEXT)
    channel.send(source.sge(), imm=9)
    channel.settle()
    assert [done.syndrome for done in channel.sent()] == [0, 0]
    assert [(one.byte_cnt, one.immediate) for one in channel.received()] == [(SIZE, 9)]
    assert target.read() == TEXT
    kinds = {parse_any(one).op.kind for one in frames if is_train(one)}
    assert kinds == {PacketKind.READ_RESPONSE, PacketKind.SEND}
    alone = [parse(memoryview(one)).op.kind for one in frames if not is_train(one)]
    assert alone.count(PacketKind.READ_RESPONSE) == alone.count(PacketKind.SEND) == 2


def test_cut_into_frames_it_is_what_would_have_come_alone(channel, wire, source, target):
    """A link, a capture and a rule are given these."""
    channel.write((target.key, target.va), source.sge())
    channel.left.function.run()
    frames = [memoryview(frame) for frame in wire.frames]
    wire.frames.clear()
    alone = [
        memoryview(one)
        for frame in frames
        for one in (frames_of(parse_train(frame)) if is_train(frame) else [frame])
    ]
    assert len(frames) < len(alone)
    packets = [parse(one) for one in alone]
    assert [one.psn - packets[0].psn for one in packets] == [*range(len(packets))]
    assert b"".join(one.payload for one in packets) == TEXT[: len(packets) * MTU]
    for frame in alone:
        wire.arrive(bytes(frame))
    placed = min(len(packets) * MTU, SIZE)
    assert target.read(0, placed) == TEXT[:placed]
    assert channel.right.hca.ib.counters()["received_ib_unicast"].packets == len(packets)


# What goes wrong on the way.


@pytest.mark.parametrize("how", ["lost", "twice", "late"])
@pytest.mark.parametrize("which", [1, 2, 3])
@pytest.mark.parametrize("op", ["write", "send", "read"])
def test_a_train_that_does_not_come_as_it_should(
    channel, wire, clock, source, target, op, which, how
):
    (source if op != "read" else target).write(TEXT)
    trains, late = [], []

    def tap(frame):
        arriving = [frame, *late]
        late.clear()
        if is_train(frame):
            trains.append(frame)
            if len(trains) == which and how == "late":
                late.append(frame)
            if len(trains) == which:
                return {"lost": [], "twice": [frame, frame], "late": []}[how]
        return arriving

    wire.tap = tap
    remote = target.key, target.va
    if op == "send":
        channel.post_recv(target.sge())
        channel.send(source.sge())
    else:
        getattr(channel, op)(remote, source.sge())
    channel.settle()
    clock.advance(TIMEOUT)
    channel.settle()
    assert [done.syndrome for done in channel.sent()] == [0]
    assert (target if op != "read" else source).read() == TEXT
    assert len(channel.received()) == (op == "send")


def test_when_a_round_has_done_enough_its_packets_wait(channel, wire, source, target):
    waited = []

    def tap(frame):
        if is_train(frame) and not waited:
            waited.append(frame)
            channel.right.hca.budget.steps = TIMER_BUDGET + 1
        return [frame]

    wire.tap = tap
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert waited
    assert [done.syndrome for done in channel.sent()] == [0]
    assert target.read() == TEXT


def test_a_key_that_is_gone_between_two_trains(channel, wire, source, target):
    trains = []

    def tap(frame):
        if is_train(frame):
            trains.append(frame)
            if len(trains) == 2:
                channel.right.hca.mkeys.get(target.key >> 8).invalidate()
        return [frame]

    wire.tap = tap
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    before = 1 + parse_train(memoryview(trains[0])).count
    assert target.read(0, before * MTU) == TEXT[: before * MTU]
    assert not any(target.read(before * MTU))


# Trains that nobody of ours sends.


@pytest.fixture
def begun(channel, wire, target):
    """A channel whose receiver has the first packet of a WRITE of 100 packets; the next PSN."""
    psn = channel.receiver.node.hca.qps.get(channel.receiver.qpn).epsn
    length = PACKETS * MTU - 100
    first = request(
        channel, PacketKind.WRITE, psn, is_last=False, payload=b"\1" * MTU,
        va=target.va, rkey=target.key, length=length,
    )  # fmt: skip
    wire.arrive(first)
    assert target.read(0, MTU) == b"\1" * MTU
    return psn + 1


@pytest.mark.hostile
@pytest.mark.parametrize(
    "what", [{"mtu": 512}, {"mtu": 2048}, {"kind": PacketKind.SEND}], ids=["short", "long", "other"]
)
def test_train_that_does_not_continue_the_message(channel, wire, target, begun, what):
    wire.arrive(train(channel, begun, 3, **what))
    assert not any(target.read(MTU))
    assert channel.receiver.state is QpState.ERR


@pytest.mark.hostile
def test_train_beyond_the_end_of_the_message(channel, wire, target, begun):
    """The packets that belong to it are placed, as if they had come alone."""
    for at in range(0, 96, 32):
        wire.arrive(train(channel, begun + at, 32))
    assert channel.receiver.state is QpState.RTS
    wire.arrive(train(channel, begun + 96, 32))
    assert channel.receiver.state is QpState.ERR
    assert target.read(0, 99 * MTU) == b"\1" * (99 * MTU)
    assert not any(target.read(99 * MTU))


@pytest.mark.hostile
def test_train_without_a_message(channel, wire, target):
    psn = channel.receiver.node.hca.qps.get(channel.receiver.qpn).epsn
    wire.arrive(train(channel, psn, 8))
    assert channel.receiver.state is QpState.ERR


@pytest.mark.hostile
@pytest.mark.parametrize("ahead", [-40, -1, 1, 7])
def test_train_with_another_psn_changes_nothing(channel, wire, target, begun, ahead):
    wire.arrive(train(channel, begun + ahead, 8, make=request))
    written = 0 if ahead > 0 else max(8 + ahead, 0)
    assert target.read(MTU, written * MTU) == b"\1" * written * MTU
    assert not any(target.read((1 + written) * MTU))
    assert channel.receiver.state is QpState.RTS


@pytest.mark.hostile
@pytest.mark.parametrize(("count", "mtu"), [(64, MTU), (8, 512), (3, 4096)])
def test_data_that_nobody_has_asked_for(channel, wire, source, target, count, mtu):
    read = PacketKind.READ_RESPONSE
    before = source.read()
    psn = channel.sender.node.hca.qps.get(channel.sender.qpn).psn
    wire.arrive(train(channel, psn, count, read, mtu, make=response))
    channel.read((target.key, target.va), source.sge(0, 5 * MTU))
    channel.left.function.run()
    wire.frames.clear()
    wire.arrive(train(channel, psn + 1, count, read, mtu, make=response))
    assert source.read()[5 * MTU :] == before[5 * MTU :]


@pytest.mark.hostile
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=4), st.integers(-9, 9))
def test_damaged_trains(channel, wire, changes, more):
    frame = bytearray(train(channel, 0x10, 4))
    for at, value in changes:
        frame[at] = value
    frame += bytes(more) if more > 0 else b""
    view = memoryview(frame)[: more if more < 0 else None]
    try:
        found = parse_train(view)
    except BadPacketError:
        return
    assert 0 < found.count <= MAX_PACKETS
    assert sum(len(one.payload) for one in found.packets()) == len(found.payload)
    assert found.length == len(view) - len(found.payload) + found.mtu
    assert [len(one) for one in frames_of(found)] == [found.length] * found.count


@pytest.mark.hostile
@pytest.mark.parametrize("at", range(64))
def test_headers_of_a_train_are_read_once(channel, at):
    """Another process may change them in shared memory as soon as they have been read."""
    frame = bytearray(train(channel, 0x10, 4))
    wanted = [*frames_of(parse_train(memoryview(frame)))]
    found = parse_train(memoryview(frame))
    frame[at] ^= 0xFF
    cut = [*frames_of(found)]
    assert [one[: -MTU - 4] for one in cut] == [one[: -MTU - 4] for one in wanted]
    assert b"".join(found.pieces)[: found.length - MTU - 4] == wanted[0][: -MTU - 4]


@pytest.mark.hostile
@pytest.mark.parametrize("count", [1, MAX_PACKETS + 1])
def test_no_train(channel, count):
    with pytest.raises(BadPacketError):
        parse_train(memoryview(train(channel, 0x10, count)))


@pytest.mark.hostile
def test_first_packets_make_no_train(channel):
    first = request(channel, PacketKind.WRITE, 0x10, is_last=False, payload=bytes(MTU))
    frame = first[:-4] + bytes(MTU) + first[-4:]
    with pytest.raises(BadPacketError, match="in a train"):
        parse_train(memoryview(frame))
    acknowledge = response(channel, PacketKind.ACKNOWLEDGE, 0x10)
    with pytest.raises(BadPacketError):
        parse_train(memoryview(acknowledge[:-4] + bytes(MTU) + acknowledge[-4:]))
