"""Messages cut into packets and put together again, and what is owed in what order.

The traffic tests run over packets as well; here is what only packets have: sizes around the MTU,
windows, acknowledgements, duplicates, and a wire that the test holds in its hand.
"""

import random

import pytest
from helpers.device.forging import OPERANDS, request, response
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS

from emu.device.port import counts
from emu.device.port.ib.framing import parse
from emu.driver.keys.by_command import indirect_key
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.segments import FENCE, SIGNALED, SOLICITED
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.wire import bth
from layouts.wire.bth import PacketKind, Service

RC, UC, XRC = QpType.RC, QpType.UC, QpType.XRC
MTU_CODES = {256: 1, 1024: 3, 4096: 5}
TIMEOUT = 4 * (ACK_TIMEOUT_UNIT_NS << 10)
SIZE = 1 << 16
TEXT = random.Random(2).randbytes(SIZE)
IMM = 0x5566_7788
WINDOW_PACKETS = 128
"""How many packets are sent before the first is acknowledged."""


def sizes(mtu):
    return (0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 5)


@pytest.fixture
def nodes(packet_pair):
    return packet_pair


@pytest.fixture
def wire(packet_wire):
    return packet_wire


@pytest.fixture
def options():
    return {}


@pytest.fixture
def channel(nodes, options):
    return Channel(RC, *nodes, **{"mtu": 1, "ack_timeout": 10, "min_rnr_nak": 9} | options)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE, va=0x1000_0000_0123)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE, va=0x2000_0000_0F00)


def kinds(frames):
    return [str(parse(memoryview(frame)).op) for frame in frames]


class Tap:
    """Remembers every frame that passes, and treats the n-th as told: drop, double or delay it."""

    def __init__(self, wire, **rules):
        self.seen, self.rules, self.held = [], rules, []
        wire.tap = self

    def __call__(self, frame):
        number = len(self.seen)
        self.seen.append(frame)
        held, self.held = self.held, []
        for how in ("drop", "double", "delay"):
            if number in self.rules.get(how, ()):
                if how == "delay":
                    self.held = [frame]
                return {"drop": [], "double": [frame, frame], "delay": []}[how] + held
        return [frame, *held]

    def packets(self, *wanted):
        found = [parse(memoryview(frame)) for frame in self.seen]
        return [packet for packet in found if packet.op.kind in wanted]


# Sizes around the MTU.


@pytest.mark.parametrize("service", [RC, UC, XRC])
@pytest.mark.parametrize("mtu", MTU_CODES)
@pytest.mark.parametrize("op", ["send", "send_imm", "write", "write_imm"])
def test_sizes_around_the_mtu(nodes, wire, service, mtu, op):
    channel = Channel(service, *nodes, mtu=MTU_CODES[mtu])
    source, target = channel.left.region(SIZE), channel.right.region(SIZE, va=0x2000_0000_0F00)
    source.write(TEXT)
    tap = Tap(wire)
    imm = IMM if op.endswith("imm") else None
    for number, length in enumerate(sizes(mtu)):
        if op != "write":
            channel.post_recv(target.sge())
        tap.seen.clear()
        target.write(bytes(SIZE))
        if op.startswith("send"):
            channel.send(source.sge(number, length), imm=imm)
        else:
            channel.write((target.key, target.va), source.sge(number, length), imm=imm)
        channel.settle()
        assert len(channel.sent()) == 1
        received = channel.received()
        assert [found.byte_cnt for found in received] == ([] if op == "write" else [length])
        assert all(found.immediate == (imm or 0) for found in received)
        assert target.read(0, length) == TEXT[number:][:length]
        assert not any(target.read(length))
        requests = tap.packets(PacketKind.SEND, PacketKind.WRITE)
        assert len(requests) == max(-(-length // mtu), 1)
        assert all(len(packet.payload) == mtu for packet in requests[:-1])


@pytest.mark.parametrize("mtu", MTU_CODES)
def test_read_around_the_mtu(nodes, wire, mtu):
    channel = Channel(RC, *nodes, mtu=MTU_CODES[mtu])
    source, target = channel.left.region(SIZE), channel.right.region(SIZE, va=0x2000_0000_0F00)
    target.write(TEXT)
    tap = Tap(wire)
    for number, length in enumerate(sizes(mtu)):
        tap.seen.clear()
        source.write(bytes(SIZE))
        channel.read((target.key, target.va + number), source.sge(3, length))
        channel.settle()
        assert [found.byte_cnt for found in channel.sent()] == [length]
        assert source.read(3, length) == TEXT[number:][:length]
        assert not any(source.read(0, 3) + source.read(3 + length))
        assert len(tap.packets(PacketKind.READ)) == 1
        assert len(tap.packets(PacketKind.READ_RESPONSE)) == max(-(-length // mtu), 1)


@pytest.mark.parametrize("op", ["write", "read"])
def test_data_of_many_packets_are_mapped_at_once(nodes, wire, op):
    """Across the end of a range whose pages are checked together, from the middle of a page."""
    channel, size = Channel(QpType.RC, *nodes, mtu=3), (1 << 18) + 5003
    here, there = channel.left.region(size + 100), channel.right.region(size + 100)
    source, target = (here, there) if op == "write" else (there, here)
    source.write(random.Random(op).randbytes(size + 100))
    getattr(channel, op)((there.key, there.va + 7), here.sge(40, size))
    channel.settle()
    assert channel.sent()
    assert wire.sent >= size // 1024
    data = source.read()
    at, end = (40, 7) if op == "write" else (7, 40)
    assert target.read(end, size) == data[at : at + size]
    assert not any(target.read(0, end))


@pytest.mark.parametrize("op", ["write", "read"])
@pytest.mark.parametrize("piece", [16, 1000])
def test_scattered_data_are_mapped_packet_by_packet(nodes, op, piece):
    """Ranges of a key over keys: more than a packet has steps, and as many as packets."""
    channel, size = Channel(QpType.RC, *nodes, mtu=3), 9 * 1024 + 5
    count = -(-size // piece)
    owner = channel.left if op == "write" else channel.right
    parts = owner.region(2 * piece * count)
    ranges = [(piece, parts.key, parts.va + 2 * at * piece) for at in range(count)]
    key = indirect_key(owner, AccessMode.KLMS, ranges, piece * count)
    parts.write(random.Random(piece).randbytes(2 * piece * count))
    data = b"".join(parts.read(2 * at * piece, piece) for at in range(count))[:size]
    if op == "write":
        target = channel.right.region(size)
        channel.write((target.key, target.va), (size, key, 0))
    else:
        target = channel.left.region(size)
        channel.read((key, 0), target.sge())
    channel.settle()
    assert channel.sent()
    assert target.read() == data


def test_invalidation_comes_with_the_last_packet(channel, source, target):
    window = channel.right.region(64, en_rinval=1)
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 1000), inv_rkey=window.key)
    channel.settle()
    (received,) = channel.received()
    assert (received.opcode, received.immediate) == (CqeOpcode.RESP_SEND_INV, window.key)
    assert target.read(0, 1000) == TEXT[:1000]
    channel.write((window.key, window.va), source.sge(0, 8))
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR


def test_duplicate_read_that_names_no_shared_queue(nodes, wire):
    """A duplicate has no consequences, whatever is wrong with it."""
    channel = Channel(XRC, *nodes)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    tap = Tap(wire)
    channel.read((target.key, target.va), source.sge(0, 8))
    channel.settle()
    (read,) = [frame for frame in tap.seen if parse(memoryview(frame)).op.kind is PacketKind.READ]
    at = read.index(channel.srqn.to_bytes(4, "big"), bth.lrh.size + bth.bth.size)
    wire.arrive(read[:at] + bytes(4) + read[at + 4 :])
    channel.settle()
    assert channel.receiver.state == QpState.RTS
    assert len(tap.packets(PacketKind.READ_RESPONSE)) == 1


@pytest.mark.parametrize("service", [RC, UC, XRC])
def test_scattered_over_pieces_that_are_no_packets(nodes, service):
    """Segments and packets end in different places on both sides."""
    channel = Channel(service, *nodes, mtu=1)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(TEXT)
    cuts = [(1, 300), (2000, 7), (3000, 500)]
    gathered = [(5, 100), (1000, 255), (4000, 2), (5000, 450)]
    channel.post_recv(*[target.sge(at, length) for at, length in cuts])
    channel.send(*[source.sge(at, length) for at, length in gathered])
    channel.settle()
    assert channel.sent()
    assert [found.byte_cnt for found in channel.received()] == [807]
    assert b"".join(target.read(at, length) for at, length in cuts) == b"".join(
        TEXT[at : at + length] for at, length in gathered
    )


@pytest.mark.parametrize("flags", [SIGNALED, SIGNALED | SOLICITED])
def test_only_the_last_packet_is_solicited(channel, wire, source, target, flags):
    tap = Tap(wire)
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 700), flags=flags)
    channel.settle()
    marks = [packet.solicited for packet in tap.packets(PacketKind.SEND)]
    assert marks == [False, False, flags != SIGNALED]
    assert [found.solicited for found in channel.received()] == [flags != SIGNALED]


@pytest.mark.parametrize("imm", [None, 1])
def test_only_immediate_data_make_a_write_solicited(channel, wire, source, target, imm):
    """Without them nothing completes at the peer (IBTA 9.2.3; rxe_req.c: init_req_packet)."""
    tap = Tap(wire)
    channel.post_recv(target.sge())
    channel.write((target.key, target.va), source.sge(0, 8), imm=imm, flags=SIGNALED | SOLICITED)
    channel.settle()
    marks = [packet.solicited for packet in tap.packets(PacketKind.WRITE)]
    assert marks == [imm is not None]


def test_opcodes_on_the_wire(channel, wire, source, target):
    tap = Tap(wire)
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 600), imm=1)
    channel.read((target.key, target.va), source.sge(0, 600))
    channel.fetch_add((target.key, target.va + 256), source.sge(0, 8), 1)
    channel.settle()
    assert kinds(tap.seen) == [
        "RC SEND FIRST", "RC SEND MIDDLE", "RC SEND LAST imm_dt",
        "RC READ ONLY reth", "RC FETCH_ADD ONLY atomic_eth",
        "RC ACKNOWLEDGE ONLY aeth",
        "RC READ_RESPONSE FIRST aeth", "RC READ_RESPONSE MIDDLE", "RC READ_RESPONSE LAST aeth",
        "RC ATOMIC_ACKNOWLEDGE ONLY aeth atomic_ack_eth",
    ]  # fmt: skip


def test_masked_atomics_on_the_wire(channel, wire, source, target):
    tap = Tap(wire)
    remote = target.key, target.va + 256
    channel.masked_compare_swap(remote, source.sge(0, 4), 1, 2, (3, 4))
    channel.masked_fetch_add(remote, source.sge(0, 8), 5, 6)
    channel.settle()
    assert kinds(tap.seen)[:2] == [
        "RC MASKED_COMPARE_SWAP ONLY masked_atomic_eth",
        "RC MASKED_FETCH_ADD ONLY masked_atomic_eth",
    ]
    swap, add = tap.packets(PacketKind.MASKED_COMPARE_SWAP, PacketKind.MASKED_FETCH_ADD)
    assert (swap.va, swap.rkey, swap.length) == (remote[1], remote[0], 4)
    assert (swap.compare, swap.swap_add, swap.compare_mask, swap.swap_add_mask) == (1, 2, 3, 4)
    assert (add.swap_add, add.compare, add.length) == (5, 6, 8)
    assert len(tap.packets(PacketKind.ATOMIC_ACKNOWLEDGE)) == 2


@pytest.mark.parametrize("service", [RC, XRC])
@pytest.mark.parametrize("rules", [{"double": [0]}, {"drop": [0]}, {"drop": [1]}])
def test_a_masked_atomic_is_done_once(nodes, wire, clock, service, rules):
    """However often it comes: the old value is kept for duplicates."""
    channel = Channel(service, *nodes, ack_timeout=10)
    source, target = channel.left.region(64), channel.right.region(64)
    Tap(wire, **rules)
    channel.masked_fetch_add((target.key, target.va), source.sge(0, 4), 0x01FF, 0x80)
    channel.until_sent(clock, 1, 1_000_000_000)
    channel.masked_fetch_add((target.key, target.va), source.sge(8, 4), 0)
    channel.until_sent(clock, 1, 1_000_000_000)
    assert source.read(0, 12)[:4] + source.read(8, 4) == bytes(4) + (0x01FF).to_bytes(4, "big")
    assert target.read(0, 4) == (0x01FF).to_bytes(4, "little")


def test_packets_follow_the_path_of_the_queue_pair(nodes, wire):
    path = {
        "rlid": 2, "sl": 3, "grh": 1, "tclass": 7, "flow_label": 0x54321, "hop_limit": 9,
        "rgid_rip": nodes[1].hca.port.gid(0),
    }  # fmt: skip
    one, two = nodes[0].queue_pair(), nodes[1].queue_pair()
    one.init().to_rtr(2, two.qpn, 0x20, path=path).to_rts(0x10)
    back = {"grh": 1, "rgid_rip": nodes[0].hca.port.gid(0)}
    two.init().to_rtr(1, one.qpn, 0x10, path=back).to_rts(0x20)
    tap = Tap(wire)
    target = nodes[1].region(64)
    one.write((target.key, target.va), b"routed")
    nodes[0].settle()
    assert target.read(0, 6) == b"routed"
    (packet,) = tap.packets(PacketKind.WRITE)
    assert (packet.slid, packet.dlid, packet.sl, packet.pkey) == (1, 2, 3, 0xFFFF)
    grh = packet.grh
    assert (grh.tclass, grh.flow_label, grh.hop_limit) == (7, 0x54321, 9)
    assert (grh.sgid, grh.dgid) == (nodes[0].hca.port.gid(0), nodes[1].hca.port.gid(0))


def test_ports_count_packets_and_octets(channel, wire, source, target):
    tap = Tap(wire)
    ports = channel.left.hca.port, channel.right.hca.port
    for port in ports:
        counts.clear(port)
    channel.write((target.key, target.va), source.sge(0, 1000))
    channel.settle()
    requests = [frame for frame in tap.seen if parse(memoryview(frame)).slid == 1]
    carried = counts.Traffic(len(requests), sum(map(len, requests)))
    assert carried.packets == 4
    sender, receiver = (counts.since_cleared(port) for port in ports)
    assert sender["transmitted_ib_unicast"] == carried
    assert receiver["received_ib_unicast"] == carried
    assert sender["received_ib_unicast"].packets == 1


# Windows, fences and order.


def test_window_bounds_what_is_on_its_way(channel, wire, source, target):
    """Nothing comes back: the requester stops, however much there is to send."""
    wire.tap = lambda frame: []
    for _ in range(4):
        channel.write((target.key, target.va), source.sge(0, SIZE))
    channel.settle()
    assert wire.sent == WINDOW_PACKETS


def test_window_asks_for_acknowledgements(channel, wire, source, target):
    """A message that is longer than the window gets through."""
    channel.write((target.key, target.va), source.sge(0, SIZE))
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read() == TEXT


@pytest.mark.parametrize("options", [{"log_sra_max": 1, "log_rra_max": 1}])
def test_reads_and_atomics_that_may_be_open(channel, wire, source, target):
    for number in range(5):
        channel.read((target.key, target.va), source.sge(64 * number, 64))
        channel.fetch_add((target.key, target.va + 256), source.sge(512 + 8 * number, 8), 1)
    channel.left.function.run()
    assert len(kinds(wire.frames)) == 2
    channel.settle()
    assert len(channel.sent()) == 10
    assert int.from_bytes(target.read(256, 8), "little") == 5


@pytest.mark.parametrize("options", [{"log_sra_max": 4, "log_rra_max": 1}])
def test_more_reads_than_the_responder_takes(channel, source, target):
    for _ in range(8):
        channel.read((target.key, target.va), source.sge(0, 64))
    assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
    assert channel.receiver.state == QpState.ERR
    assert channel.right.events() == [(EventType.WQ_INVAL_REQ_ERROR, channel.receiver.qpn)]


def test_fence_waits_for_the_data_of_a_read(channel, wire, source, target):
    """The WRITE sends what the READ has brought (IBTA 10.8.3.3)."""
    target.write(b"new!" * 200)
    spare = channel.right.region(4096)
    channel.read((target.key, target.va), source.sge(0, 800))
    channel.write((spare.key, spare.va), source.sge(0, 800), flags=SIGNALED | FENCE)
    channel.left.function.run()
    assert kinds(wire.frames) == ["RC READ ONLY reth"]
    channel.settle()
    assert len(channel.sent()) == 2
    assert spare.read(0, 800) == b"new!" * 200


def test_without_a_fence_nothing_waits(channel, wire, source, target):
    channel.read((target.key, target.va), source.sge(0, 8))
    channel.write((target.key, target.va), source.sge(0, 8))
    channel.left.function.run()
    assert len(wire.frames) == 2


def test_strong_fence_waits_for_everything(channel, wire, source, target):
    channel.write((target.key, target.va), source.sge(0, 8))
    channel.write((target.key, target.va), source.sge(0, 8), flags=SIGNALED | 3 << 5)
    channel.left.function.run()
    assert len(wire.frames) == 1
    channel.settle()
    assert len(channel.sent()) == 2


def test_completions_keep_the_order_of_the_queue(channel, source, target):
    """READs take longest and the NOP no time at all; each completes in its place."""
    posted = []
    for number in range(4):
        posted.append(channel.read((target.key, target.va), source.sge(0, 3000)))
        posted.append(channel.sender.post(0))
        posted.append(channel.write((target.key, target.va), source.sge(0, 10)))
        posted.append(channel.fetch_add((target.key, target.va + 256), source.sge(0, 8), number))
    channel.settle()
    assert [found.wqe_counter for found in channel.sent()] == posted


def test_acknowledgements_that_meet_become_one(channel, wire, source, target):
    tap = Tap(wire)
    for _ in range(20):
        channel.write((target.key, target.va), source.sge(0, 8))
    channel.left.function.run()
    assert len(wire.frames) == 20
    channel.settle()
    assert len(tap.packets(PacketKind.ACKNOWLEDGE)) < 20
    assert len(channel.sent()) == 20


def test_acknowledgement_does_not_overtake_the_data_of_a_read(channel, wire, source, target):
    tap = Tap(wire)
    channel.read((target.key, target.va), source.sge(0, 2000))
    channel.write((target.key, target.va), source.sge(0, 8))
    channel.settle()
    answers = tap.packets(PacketKind.READ_RESPONSE, PacketKind.ACKNOWLEDGE)
    assert [packet.op.kind for packet in answers] == [PacketKind.READ_RESPONSE] * 8 + [
        PacketKind.ACKNOWLEDGE
    ]
    assert len(channel.sent()) == 2


@pytest.mark.parametrize("service", [RC, UC])
def test_congested_wire_makes_senders_wait(nodes, wire, service):
    channel = Channel(service, *nodes, mtu=1)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(TEXT)
    wire.room = 5
    channel.write((target.key, target.va), source.sge())
    for _ in range(20):
        channel.left.function.run()
        assert len(wire.frames) <= 5
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read() == TEXT


def test_congested_wire_makes_answers_wait(channel, wire, source, target):
    target.write(TEXT)
    wire.room = 5
    channel.read((target.key, target.va), source.sge())
    channel.settle()
    assert len(channel.sent()) == 1
    assert source.read() == TEXT


# What gets lost, doubled and disordered.


@pytest.mark.parametrize("how", ["drop", "double", "delay"])
@pytest.mark.parametrize("number", range(12))
def test_one_accident(channel, wire, clock, source, target, how, number):
    """Of four requests and their answers, any one packet: everything arrives once, in order."""
    for at in (0, 4000):
        channel.post_recv(target.sge(at, 4000))
    target.write((7).to_bytes(8, "little"), at=16384)
    Tap(wire, **{how: [number]})
    channel.send(source.sge(0, 600))
    channel.read((target.key, target.va + 16384), source.sge(30000, 600))
    channel.fetch_add((target.key, target.va + 16384 + 256), source.sge(40000, 8), 5)
    channel.send(source.sge(600, 100), imm=IMM)
    for _ in range(4):
        channel.settle()
        clock.advance(TIMEOUT)
    channel.settle()
    assert len(channel.sent()) == 4
    assert [found.byte_cnt for found in channel.received()] == [600, 100]
    assert target.read(0, 600) == TEXT[:600]
    assert target.read(4000, 100) == TEXT[600:700]
    assert int.from_bytes(target.read(16384 + 256, 8), "little") == 5
    assert source.read(30000, 8) == (7).to_bytes(8, "little")
    assert not any(source.read(40000, 8))


def test_gap_is_refused_once_and_sent_again_at_once(channel, wire, clock, source, target):
    tap = Tap(wire, drop=[1])
    channel.write((target.key, target.va), source.sge(0, 2000))
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read(0, 2000) == TEXT[:2000]
    refusals = [p for p in tap.packets(PacketKind.ACKNOWLEDGE) if p.syndrome == bth.KIND_NAK]
    assert len(refusals) == 1
    assert len(tap.packets(PacketKind.WRITE)) == 8 + 7


def test_lost_acknowledgement_costs_a_timeout_and_nothing_else(channel, wire, clock, source):
    target = channel.right.region(64)
    channel.post_recv(target.sge())
    Tap(wire, drop=[1])
    channel.send(source.sge(0, 8))
    channel.settle()
    assert (channel.sent(), len(channel.received())) == ([], 1)
    clock.advance(TIMEOUT)
    channel.settle()
    assert len(channel.sent()) == 1
    assert channel.received() == []


def test_read_is_asked_again_from_where_it_broke_off(channel, wire, source, target):
    target.write(TEXT)
    tap = Tap(wire, drop=[4])
    channel.read((target.key, target.va), source.sge(0, 2560))
    channel.settle()
    assert len(channel.sent()) == 1
    assert source.read(0, 2560) == TEXT[:2560]
    first, again = tap.packets(PacketKind.READ)
    assert (again.va - first.va, first.length - again.length) == (3 * 256, 3 * 256)
    assert again.psn - first.psn == 3


def test_atomic_is_carried_out_once(channel, wire, clock, source, target):
    """The first answer is lost; the second one is the first one again."""
    target.write((41).to_bytes(8, "little"), at=256)
    Tap(wire, drop=[1])
    channel.fetch_add((target.key, target.va + 256), source.sge(0, 8), 1)
    channel.settle()
    clock.advance(TIMEOUT)
    channel.settle()
    assert len(channel.sent()) == 1
    assert int.from_bytes(source.read(0, 8), "little") == 41
    assert int.from_bytes(target.read(256, 8), "little") == 42


def test_receiver_that_is_not_ready_in_the_middle(channel, wire, clock, source, target):
    """Three packets of a WRITE are placed; the last one waits for its receive request."""
    channel.write((target.key, target.va), source.sge(0, 1000), imm=IMM)
    channel.settle()
    assert channel.sent() == channel.received() == []
    assert target.read(0, 768) == TEXT[:768]
    channel.post_recv()
    tap = Tap(wire)
    clock.advance(RNR_NAK_NS[9])
    channel.settle()
    assert len(channel.sent()) == len(channel.received()) == 1
    assert target.read(0, 1000) == TEXT[:1000]
    assert len(tap.packets(PacketKind.WRITE)) == 1


def test_key_that_goes_while_a_message_is_under_way(channel, wire, source, target):
    """Revoked between two packets: what was placed stays, nothing more arrives, both are told."""
    channel.write((target.key, target.va), source.sge(0, 2000))
    channel.left.function.run()
    for _ in range(4):
        wire.deliver()
    channel.right.driver.must(Op.DESTROY_MKEY, mkey_index=target.index)
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert channel.receiver.state == QpState.ERR
    assert not any(target.read(1024 if target.read(768, 8) == TEXT[768:776] else 768))


def test_own_key_that_goes_while_a_message_is_under_way(channel, wire, source, target):
    wire.room = 3
    channel.write((target.key, target.va), source.sge(0, 2000))
    channel.left.function.run()
    channel.left.hca.mkeys.get(source.index).invalidate()
    assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert channel.sender.state == QpState.ERR


def test_failure_waits_for_what_came_before(channel, source, target):
    """A bad request behind good ones: those complete first."""
    good = [channel.write((target.key, target.va), source.sge(0, 3000)) for _ in range(3)]
    bad = channel.write((target.key, target.va), (8, source.key, 0))
    after = channel.write((target.key, target.va), source.sge(0, 8))
    channel.settle()
    found = channel.sender.cq.drain()
    assert [completion.wqe_counter for completion in found] == [*good, bad, after]
    syndromes = [completion.syndrome for completion in found]
    assert syndromes == [0, 0, 0, CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.WR_FLUSH_ERR]


def test_stopping_flushes_all_that_is_under_way(channel, wire, source, target):
    wire.tap = lambda frame: []
    posted = [channel.write((target.key, target.va), source.sge(0, 600)) for _ in range(5)]
    channel.settle()
    channel.sender.to_error()
    channel.settle()
    found = channel.sender.cq.drain()
    assert [completion.wqe_counter for completion in found] == posted
    assert {completion.syndrome for completion in found} == {CqeSyndrome.WR_FLUSH_ERR}


@pytest.mark.parametrize("service", [RC, UC, XRC])
def test_stopping_flushes_a_receive_request_that_was_begun(nodes, wire, service):
    channel = Channel(service, *nodes, mtu=1)
    source, target = channel.left.region(4096), channel.right.region(4096)
    for _ in range(2):
        channel.post_recv(target.sge())
    channel.send(source.sge(0, 1000))
    channel.left.function.run()
    wire.deliver()
    channel.receiver.to_error()
    channel.settle()
    found = channel.recv_cq.drain()
    assert found[0].syndrome == CqeSyndrome.WR_FLUSH_ERR
    # What is in a shared queue stays there for others.
    assert len(found) == (1 if service is XRC else 2)
    assert [one.wqe_counter for one in found] == list(range(len(found)))


def test_reset_forgets_everything(channel, wire, source, target):
    wire.tap = lambda frame: []
    channel.write((target.key, target.va), source.sge(0, 600))
    channel.settle()
    for qp, peer in ((channel.sender, channel.receiver), (channel.receiver, channel.sender)):
        qp.to_reset()
        qp.init().to_rtr(peer.node.lid, peer.qpn, 5, mtu=1).to_rts(5)
    wire.tap = lambda frame: [frame]
    channel.write((target.key, target.va), source.sge(0, 600))
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read(0, 600) == TEXT[:600]


# UC: a message that loses a packet is gone, the next one arrives.


@pytest.mark.parametrize("op", ["send", "write", "write_imm"])
@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_unreliable_message_that_loses_a_packet(nodes, wire, op, lost):
    channel = Channel(UC, *nodes, mtu=1)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(TEXT)
    Tap(wire, drop=[lost])
    for at in (0, 2000):
        if op != "write":
            channel.post_recv(target.sge(at, 2000))
    for at in (0, 2000):
        if op == "send":
            channel.send(source.sge(at, 1000))
        else:
            imm = IMM if op == "write_imm" else None
            channel.write((target.key, target.va + at), source.sge(at, 1000), imm=imm)
    channel.settle()
    assert len(channel.sent()) == 2
    received = channel.received()
    if op == "send":
        # The receive request of the message that broke off serves the next one.
        assert [(found.wqe_counter, found.byte_cnt) for found in received] == [(0, 1000)]
        assert target.read(0, 1000) == TEXT[2000:3000]
    else:
        assert len(received) == (op == "write_imm")
        assert target.read(2000, 1000) == TEXT[2000:3000]


# Answers that make no sense.


@pytest.fixture
def deaf(channel, wire):
    """The sender's packets are lost; the test answers."""
    wire.tap = lambda frame: []
    return channel


def test_ghost_acknowledgement(deaf, wire, source, target):
    """For what was never sent, or is long done: ignored."""
    deaf.write((target.key, target.va), source.sge(0, 600))
    deaf.settle()
    for psn in (0x10 + 3, 0x10 - 1, 0x800000):
        wire.arrive(response(deaf, PacketKind.ACKNOWLEDGE, psn))
        wire.arrive(response(deaf, PacketKind.READ_RESPONSE, psn, payload=bytes(256)))
    deaf.settle()
    assert deaf.sender.cq.poll() is None
    assert deaf.sender.state == QpState.RTS


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (PacketKind.READ_RESPONSE, {"payload": bytes(255), "is_last": False}),
        (PacketKind.READ_RESPONSE, {"payload": bytes(256)}),
        (PacketKind.READ_RESPONSE, {"payload": b"", "is_last": False}),
        (PacketKind.ATOMIC_ACKNOWLEDGE, {}),
        (PacketKind.ACKNOWLEDGE, {"syndrome": bth.KIND_NAK | 7}),
        (PacketKind.ACKNOWLEDGE, {"syndrome": 0x40}),
        (PacketKind.ACKNOWLEDGE, {"syndrome": 0x9F}),
    ],
)
def test_wrong_answer_to_a_read(deaf, wire, source, target, kind, values):
    before = source.read()
    deaf.read((target.key, target.va), source.sge(0, 600))
    deaf.settle()
    wire.arrive(response(deaf, kind, 0x10, **values))
    assert deaf.failure() == CqeSyndrome.BAD_RESP_ERR
    assert deaf.sender.state == QpState.ERR
    assert source.read() == before


def test_old_value_that_is_longer_than_the_operand(deaf, wire, source, target):
    before = source.read()
    deaf.masked_fetch_add((target.key, target.va), source.sge(0, 4), 1)
    deaf.settle()
    wire.arrive(response(deaf, PacketKind.ATOMIC_ACKNOWLEDGE, 0x10, original=1 << 32))
    assert deaf.failure() == CqeSyndrome.BAD_RESP_ERR
    assert source.read() == before


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (PacketKind.READ_RESPONSE, b""),
        (PacketKind.READ_RESPONSE, bytes(100)),
        (PacketKind.ATOMIC_ACKNOWLEDGE, b""),
    ],
)
def test_data_that_nobody_asked_for(deaf, wire, source, target, kind, payload):
    """They are placed nowhere, though they may be as long as what was sent."""
    before = source.read()
    deaf.write((target.key, target.va), source.sge(0, 100))
    deaf.settle()
    wire.arrive(response(deaf, kind, 0x10, payload=payload))
    assert deaf.failure() == CqeSyndrome.BAD_RESP_ERR
    assert source.read() == before


@pytest.mark.parametrize(
    ("code", "syndrome"),
    [
        (1, CqeSyndrome.REMOTE_INVAL_REQ_ERR),
        (2, CqeSyndrome.REMOTE_ACCESS_ERR),
        (3, CqeSyndrome.REMOTE_OP_ERR),
    ],
)
def test_refusal_acknowledges_what_came_before(deaf, wire, source, target, code, syndrome):
    for _ in range(3):
        deaf.write((target.key, target.va), source.sge(0, 600))
    deaf.settle()
    wire.arrive(response(deaf, PacketKind.ACKNOWLEDGE, 0x10 + 4, syndrome=bth.KIND_NAK | code))
    deaf.settle()
    found = [completion.syndrome for completion in deaf.sender.cq.drain()]
    assert found == [0, syndrome, CqeSyndrome.WR_FLUSH_ERR]


def test_acknowledgement_without_the_data_of_a_read(deaf, wire, source, target):
    """It says that the answer was lost: an implied NAK (9.7.5.1.1), and no success."""
    deaf.read((target.key, target.va), source.sge(0, 600))
    deaf.write((target.key, target.va), source.sge(0, 8))
    deaf.settle()
    before = wire.sent
    wire.arrive(response(deaf, PacketKind.ACKNOWLEDGE, 0x10 + 3))
    deaf.settle()
    assert deaf.sender.cq.poll() is None
    assert wire.sent - before == 2


# Requests that make no sense, and packets that are for nobody.


FULL = bytes(256)


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param([(PacketKind.SEND, {"is_first": False})], id="last without first"),
        pytest.param([(PacketKind.SEND, {"is_first": False, "is_last": False})], id="middle alone"),
        pytest.param([(PacketKind.SEND, {"payload": bytes(257)})], id="longer than the MTU"),
        pytest.param(
            [(PacketKind.SEND, {"is_last": False, "payload": bytes(99)})], id="short first"
        ),
        pytest.param(
            [
                (PacketKind.SEND, {"is_last": False, "payload": FULL}),
                (PacketKind.SEND, {"payload": b"x"}),
            ],
            id="first after first",
        ),
        pytest.param(
            [
                (PacketKind.SEND, {"is_last": False, "payload": FULL}),
                (PacketKind.WRITE, {"is_first": False, "payload": b"x"}),
            ],
            id="write inside a send",
        ),
        pytest.param(
            [(PacketKind.SEND, {"is_last": False, "payload": FULL}), (PacketKind.READ, {})],
            id="read inside a send",
        ),
        pytest.param(
            [
                (PacketKind.SEND, {"is_last": False, "payload": FULL}),
                (PacketKind.SEND, {"is_first": False}),
            ],
            id="empty last",
        ),
        pytest.param(
            [(PacketKind.WRITE, {"length": 2, "payload": b"x"})], id="less than announced"
        ),
        pytest.param(
            [(PacketKind.WRITE, {"length": 0, "payload": b"x"})], id="more than announced"
        ),
        pytest.param([(PacketKind.READ, {"length": (1 << 30) + 1})], id="read of too much"),
        *(
            pytest.param(
                [(kind, {"length": length} | operands)], id=f"{kind.name} {length} {operands}"
            )
            for kind in (PacketKind.MASKED_COMPARE_SWAP, PacketKind.MASKED_FETCH_ADD)
            for length, operands in [
                *((length, {}) for length in (0, 1, 2, 3, 5, 16, 1 << 31)),
                *((4, {name: 1 << 32}) for name in OPERANDS),
            ]
        ),
    ],
)
def test_request_that_makes_no_sense(channel, wire, target, packets):
    tap = Tap(wire)
    channel.post_recv(target.sge())
    for number, (kind, values) in enumerate(packets):
        if kind in (PacketKind.WRITE, PacketKind.MASKED_COMPARE_SWAP, PacketKind.MASKED_FETCH_ADD):
            values = {"rkey": target.key, "va": target.va} | values
        wire.arrive(request(channel, kind, 0x10 + number, **values))
    channel.settle()
    assert channel.receiver.state == QpState.ERR
    assert channel.right.events() == [(EventType.WQ_INVAL_REQ_ERROR, channel.receiver.qpn)]
    refusal = tap.packets(PacketKind.ACKNOWLEDGE)[-1]
    assert (refusal.syndrome, refusal.psn) == (bth.KIND_NAK | 1, 0x10 + len(packets) - 1)
    assert not any(target.read())


@pytest.mark.parametrize("accepted", [0, 2], ids=["first packet", "after accepted ones"])
@pytest.mark.parametrize("change", ["qpn", "slid", "pkey", "grh", "table", "service", "state"])
def test_packet_for_nobody(channel, wire, source, target, change, accepted):
    """Dropped in silence (IBTA 9.6.1): no answer, no event, nothing placed."""
    for _ in range(accepted):
        channel.write((target.key, target.va), source.sge(0, 8))
        channel.settle()
    sent, before = wire.sent, target.read()
    write = {"payload": b"x", "rkey": target.key, "va": target.va, "length": 1}
    frame = bytearray(request(channel, PacketKind.WRITE, 0x10 + accepted, **write))
    if change == "qpn":
        frame[8 + 7] ^= 0x20
    elif change == "slid":
        frame[7] ^= 4
    elif change == "pkey":
        frame[8 + 3] ^= 1
    elif change == "grh":
        header = bth.GRH.pack(6 << 28, len(frame) - 8, 0x1B, 1, bytes(16), bytes(16))
        frame[1] |= bth.LNH_GLOBAL
        frame[4:6] = ((len(frame) + len(header)) // 4).to_bytes(2, "big")
        frame[8:8] = header
    elif change == "table":
        channel.right.hca.ib.pkeys = (0x8001,)
    elif change == "service":
        frame[8] |= Service.UC << 5
    else:
        channel.receiver.to_reset()
    wire.arrive(bytes(frame))
    channel.settle()
    assert wire.sent == sent
    assert channel.right.events() == []
    assert target.read() == before


def test_link_that_is_down(channel, wire, clock, source, target):
    set_link(channel.right.hca, up=False)
    channel.write((target.key, target.va), source.sge(0, 8))
    for _ in range(9):
        channel.settle()
        clock.advance(TIMEOUT)
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert not any(target.read())


def test_requester_that_never_reads_is_not_listened_to(channel, wire, target):
    """Duplicates ask for answers; those that wait are bounded."""
    target.write(TEXT)
    wire.room = 0
    channel.fetch_add((target.key, target.va + 256), channel.left.region(8).sge(), 1)
    channel.left.function.run()
    atomic = wire.frames.popleft()
    for _ in range(5000):
        wire.arrive(atomic)
    answers = channel.right.hca.qps.get(channel.receiver.qpn).connection.responder.responses
    assert len(answers.queue) == 256
