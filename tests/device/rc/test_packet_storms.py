"""Wires that lose, double and disorder packets, and wires that carry noise.

Over the first, a reliable connection delivers everything once and in order, or says that it failed.
The second changes nothing that nobody has granted.
"""

import contextlib
from random import Random

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.ib.framing import parse
from emu.device.port.packet import BadPacketError
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.channels import Channel
from emu.driver.world.clock import HandClock
from emu.driver.world.memory import Memory
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

PAGE = 4096
MTU = 256
ROUND = 4 * (ACK_TIMEOUT_UNIT_NS << 8) + RNR_NAK_NS[1]
SLOT = 2048
COUNTER = 8 * SLOT

storms = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Storm:
    """A tap that treats each frame by chance: lost, doubled, or held back for a while."""

    def __init__(self, seed, lose, double, hold):
        self.rng = Random(seed)
        self.chances = lose, double, hold
        self.held = []

    def __call__(self, frame):
        lose, double, hold = self.chances
        due = [late for wait, late in self.held if wait <= 1]
        self.held = [(wait - 1, late) for wait, late in self.held if wait > 1]
        if self.rng.random() < lose:
            return due
        if self.rng.random() < hold:
            self.held.append((self.rng.randint(1, 6), frame))
            return due
        return [frame] * (2 if self.rng.random() < double else 1) + due


def small_memory():
    """Enough for a conversation; clearing more takes longer than the conversation."""
    return Memory(2 << 20)


class World:
    """Two new functions, a wire and a clock between them, and a connection."""

    def __init__(self, model, service=QpType.RC, **options):
        self.clock, self.wire = HandClock(), PacketWire()
        nodes = two_nodes(model, self.clock, self.wire, self.wire, make_memory=small_memory)
        options = {"mtu": 1, "ack_timeout": 8, "min_rnr_nak": 1} | options
        self.channel = Channel(service, *nodes, **options)


chance = st.sampled_from([0, 0, 0.02, 0.1, 0.3])
lengths = st.sampled_from([0, 1, MTU, MTU + 1, 3 * MTU + 5, 7 * MTU])
ops = st.lists(st.tuples(st.sampled_from(["send", "write", "read", "add"]), lengths), max_size=8)


@storms
@given(ops=ops, seed=st.integers(0, 1 << 32), lose=chance, double=chance, hold=chance)
def test_everything_once_and_in_order_or_an_error(model, ops, seed, lose, double, hold):
    world = World(model)
    channel = world.channel
    rng = Random(seed)
    source, target = channel.left.region(8 * SLOT + 64), channel.right.region(8 * SLOT + 64)
    text = rng.randbytes(8 * SLOT)
    source.write(text)
    target.write(before := rng.randbytes(8 * SLOT))
    world.wire.tap = Storm(seed, lose, double, hold)
    for number, (op, length) in enumerate(ops):
        here, remote = source.sge(number * SLOT, length), (target.key, target.va + number * SLOT)
        if op == "send":
            channel.post_recv(target.sge(number * SLOT, SLOT))
            channel.send(here, imm=number)
        elif op == "add":
            counter = target.key, target.va + COUNTER
            channel.fetch_add(counter, source.sge(number * SLOT, 8), 1)
        else:
            getattr(channel, op)(remote, here)
    for _ in range(200):
        channel.settle()
        world.clock.advance(ROUND)
    done, failed = outcome(channel.sender.cq)
    assert len(done) + len(failed) == len(ops)
    assert not failed or failed[0] == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert set(failed[1:]) <= {CqeSyndrome.WR_FLUSH_ERR}
    check_memory(ops, len(done), text, before, source, target)
    sends = [number for number, (op, _) in enumerate(ops) if op == "send"]
    received = [
        (found.immediate, found.byte_cnt)
        for found in channel.recv_cq.drain()
        if found.opcode == CqeOpcode.RESP_SEND_IMM
    ]
    wanted = [(number, ops[number][1]) for number in sends]
    assert received == wanted[: len(received)]
    assert len(received) >= sum(number < len(done) for number in sends)


def outcome(cq):
    """How many requests were good, and the syndromes of those after them that were not."""
    found = [completion.syndrome for completion in cq.drain()]
    good = [syndrome for syndrome in found if not syndrome]
    assert found[: len(good)] == good
    return good, found[len(good) :]


def check_memory(ops, done, text, before, source, target):
    """What completed has happened; what did not may have, but nothing else has."""
    added = 0
    for number, (op, length) in enumerate(ops):
        at = number * SLOT
        here, there = source.read(at, SLOT), target.read(at, SLOT)
        mine, its = text[at : at + SLOT], before[at : at + SLOT]
        if number < done:
            if op in ("send", "write"):
                assert there == mine[:length] + its[length:]
            elif op == "read":
                assert here == its[:length] + mine[length:]
            else:
                assert int.from_bytes(here[:8], "little") == added
        else:
            assert all(byte in pair for byte, *pair in zip(there, mine, its))
        added += op == "add"
    total = int.from_bytes(target.read(COUNTER, 8), "little")
    adds = [number for number, (op, _) in enumerate(ops) if op == "add"]
    assert sum(number < done for number in adds) <= total <= len(adds)


@storms
@given(seed=st.integers(0, 1 << 32), lose=chance, double=chance, hold=chance)
def test_unreliable_messages_arrive_whole_or_not_at_all(model, seed, lose, double, hold):
    world = World(model, QpType.UC)
    channel = world.channel
    rng = Random(seed)
    source, target = channel.left.region(8 * SLOT), channel.right.region(8 * SLOT)
    source.write(rng.randbytes(8 * SLOT))
    world.wire.tap = Storm(seed, lose, double, hold)
    for number in range(8):
        channel.post_recv(target.sge(number * SLOT, SLOT))
    for number in range(8):
        channel.send(source.sge(number * SLOT, rng.choice([1, 256, 700, 1500])), imm=number)
    channel.settle()
    assert len(channel.sent()) == 8
    for found in channel.received():
        sent = source.read(found.immediate * SLOT, found.byte_cnt)
        assert target.read(found.wqe_counter % 64 * SLOT, found.byte_cnt) == sent


# Noise.


@storms
@given(st.lists(st.binary(min_size=24, max_size=80), max_size=20))
def test_noise_changes_nothing(packet_pair, packet_wire, frames):
    node = packet_pair[1]
    before = node.memory.contents()
    for frame in frames:
        with contextlib.suppress(BadPacketError):
            packet_wire.arrive(frame)
        node.function.run()
    assert node.memory.contents() == before


@st.composite
def damages(draw):
    """Which frames of a conversation are damaged, and how: (frame, byte, bits)."""
    place = st.tuples(st.integers(0, 40), st.integers(0, 90), st.integers(1, 255))
    return draw(st.lists(place, min_size=1, max_size=12))


class Damage:
    """A tap that changes bytes; what is no packet any more is lost."""

    def __init__(self, changes):
        self.changes, self.number = changes, -1

    def __call__(self, frame):
        self.number += 1
        bad = bytearray(frame)
        for number, at, bits in self.changes:
            if number == self.number:
                bad[at % len(bad)] ^= bits
        try:
            parse(memoryview(bad))
        except BadPacketError:
            return []
        return [bytes(bad)]


@storms
@given(damages(), st.sampled_from([QpType.RC, QpType.UC, QpType.XRC]))
def test_damaged_packets_of_a_conversation(model, changes, service):
    """In both directions: every request completes, well or in error, and nothing else changes.

    A real link would have dropped such packets by their checksums; a hostile process sends them.
    """
    world = World(model, service, retry_count=2, rnr_retry=2)
    channel = world.channel
    source, target = channel.left.region(4 * PAGE), channel.right.region(4 * PAGE)
    world.wire.tap = Damage(changes)
    requests = converse(channel, source, target)
    before = [node.memory.contents() for node in (channel.left, channel.right)]
    for _ in range(30):
        channel.settle()
        world.clock.advance(ROUND)
    for region, old in zip((source, target), before):
        granted = {*region.pages, *channel.sender.cq.pages, *channel.recv_cq.pages}
        check_untouched(region.node, old, granted | {*channel.receiver.cq.pages})
    assert len(channel.sender.cq.drain()) == requests


def converse(channel, source, target):
    """Post some of everything; how many requests that were."""
    remote = target.key, target.va
    for _ in range(4):
        channel.post_recv(target.sge(3 * PAGE, PAGE))
    channel.send(source.sge(0, 700), imm=1)
    channel.write(remote, source.sge(0, 1500))
    channel.write(remote, source.sge(0, 300), imm=2)
    if channel.service is QpType.UC:
        return 3
    channel.read(remote, source.sge(PAGE, 1000))
    channel.fetch_add(remote, source.sge(0, 8), 1)
    channel.compare_swap(remote, source.sge(8, 8), 1, 2)
    return 6


def check_untouched(node, before, granted):
    """No page of the guest has changed but these and those of event queues."""
    for queue in node.driver.eqs.values():
        granted = granted | set(queue.addresses)
    now = node.memory.contents()
    assert {page for page in before.keys() | now.keys() if before.get(page) != now.get(page)} <= (
        granted
    )


CODES = [*range(0x18), *range(0x20, 0x2C), 0x64, 0x65, *range(0xA0, 0xB8), 0x15, 0xFF]


@st.composite
def requests(draw):
    """Something that looks like a packet for the connection, with any values in its headers."""
    code = draw(st.sampled_from(CODES))
    psn = draw(st.sampled_from([0x10, 0x11, 0x12, 0x13, 0x0F, 0, 0x800010])) & 0xFFFFFF
    payload = bytes(draw(st.sampled_from([0, 1, 8, 255, 256, 257, 1000])))
    va = draw(st.sampled_from([0, 8, 4095, 4096, 1 << 40])) + draw(
        st.sampled_from([0x2000_0000_0000, 0x1FFF_FFFF_FF00, 0])
    )
    key_bits = draw(st.sampled_from([0, 1, 0x100, 0xFFFFFFFF]))
    length = draw(st.sampled_from([0, 1, 8, 256, 257, 4096, 1 << 31]))
    ends = draw(st.binary(min_size=12, max_size=12))
    return code, psn, payload, va, key_bits, length, ends


@storms
@given(st.lists(requests(), min_size=1, max_size=12))
def test_lies_touch_only_what_is_granted(model, made_up):
    world = World(model, log_rra_max=2)
    channel, node = world.channel, world.channel.right
    granted = node.region(PAGE, va=0x2000_0000_0000)
    channel.post_recv(granted.sge(2048, 1024))
    qp = node.hca.qps.get(channel.receiver.qpn)
    before = node.memory.contents()
    for code, psn, payload, va, key_bits, length, ends in made_up:
        body = va.to_bytes(8, "big") + (granted.key ^ key_bits).to_bytes(4, "big")
        body += length.to_bytes(4, "big") + ends + payload
        with contextlib.suppress(BadPacketError):
            world.wire.arrive(framed(channel, code, psn, body))
        node.function.run()
        assert qp.state in (QpState.RTS, QpState.ERR)
    check_untouched(
        node, before, {*granted.pages, *channel.recv_cq.pages, *channel.receiver.cq.pages}
    )


def framed(channel, code, psn, body):
    """A whole packet from the sender's LID with these bytes behind its BTH."""
    pad = -len(body) % 4
    length = 8 + 12 + len(body) + pad + 4
    lrh = bytes([0, 2]) + (2).to_bytes(2, "big") + (length // 4).to_bytes(2, "big") + b"\0\1"
    bth = bytes([code, pad << 4]) + b"\xff\xff" + channel.receiver.qpn.to_bytes(4, "big")
    return lrh + bth + (1 << 31 | psn).to_bytes(4, "big") + body + bytes(pad + 4)


def test_storm_is_what_it_says():
    """The tap itself: nothing is invented, and what is held back comes."""
    storm = Storm(1, 0.2, 0.2, 0.3)
    frames = [bytes([number]) for number in range(200)]
    came = [frame for sent in frames for frame in storm(sent)]
    assert set(came) <= set(frames)
    assert 100 < len(set(came)) < 200
    assert came != sorted(came)
    assert isinstance(PacketWire().tap(b"x"), list)
