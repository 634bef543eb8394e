"""What a lost or late packet costs a reliable connection: packets, and simulated time."""

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS
from helpers.device.links import World, roce

from emu.device.port.ib.framing import parse
from emu.driver.verbs.channels import Channel
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PacketKind

CODE = 14
TIMEOUT = 4 * (ACK_TIMEOUT_UNIT_NS << CODE)
MTU, MS = 1024, 1_000_000
MIN_NS = 10 * MS
"""How soon a requester sends again by what it has measured, at the earliest."""
PACKETS = 20
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
    channel.left.function.run()
    return on_the_wire(wire)


def arrive(wire, frames):
    for frame in frames:
        wire.arrive(frame)


def psns(frames, kind):
    packets = [parse(memoryview(frame)) for frame in frames]
    return [packet.psn for packet in packets if packet.op.kind is kind]


def test_pauses_are_no_reason_to_send_again(channel, packet_wire, clock, source, target):
    """The time begins when a message is sent, not when the one before it was acknowledged."""
    channel.write((target.key, target.va), source.sge(0, MTU))
    channel.settle()
    clock.advance(TIMEOUT - MS)
    channel.write((target.key, target.va), source.sge(0, MTU))
    requests = requested(channel, packet_wire)
    clock.advance(MIN_NS - MS)
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
    channel.right.function.run()
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
    channel.right.function.run()
    on_the_wire(packet_wire)  # its data are lost
    read(channel, source, target, 8, 1)
    arrive(packet_wire, requested(channel, packet_wire))
    arrive(packet_wire, first)
    channel.right.function.run()
    answers = psns(packet_wire.frames, PacketKind.READ_RESPONSE)
    assert answers == sorted(answers)
    channel.settle()
    assert len(channel.sent()) == 2
    assert source.read(0, 9 * MTU) == TEXT[: 9 * MTU]


def test_atomic_that_comes_twice_is_answered_in_its_place(channel, packet_wire, source, target):
    target.write((41).to_bytes(8, "little"))
    channel.fetch_add((target.key, target.va), source.sge(0, 8), 1)
    first = requested(channel, packet_wire)
    arrive(packet_wire, first)
    channel.right.function.run()
    on_the_wire(packet_wire)
    read(channel, source, target, 8, 1)
    arrive(packet_wire, requested(channel, packet_wire))
    arrive(packet_wire, first)
    channel.right.function.run()
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
    channel.right.function.run()
    on_the_wire(packet_wire)  # the acknowledgement is lost
    arrive(packet_wire, requests[:1])
    channel.right.function.run()
    assert psns(packet_wire.frames, PacketKind.ACKNOWLEDGE) == psns(requests[-1:], PacketKind.WRITE)
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
    channel.right.function.run()
    on_the_wire(packet_wire)
    arrive(packet_wire, requests[:1])
    channel.right.function.run()
    assert psns(packet_wire.frames, PacketKind.ACKNOWLEDGE) == psns(requests[:1], PacketKind.WRITE)


# A requester's questions when a response is late.


@pytest.fixture
def line(channel, packet_wire, clock, source, target):
    """A connection that has timed a response."""
    line = Backlog(channel, packet_wire, clock, source, target)
    line.counters = channel.left.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    channel.left.driver.must(
        Op.RTS2RTS_QP, qpn=channel.sender.qpn, qpc={"counter_set_id": line.counters},
        opt_param_mask=1 << 25,
    )  # fmt: skip
    line.write(1)
    assert line.took() == 0
    line.seen.clear()
    return line


class Backlog:
    """Packets pass a tap: those whose numbers are in ``lost`` do not arrive."""

    def __init__(self, channel, wire, clock, source, target):
        self.channel, self.wire, self.clock = channel, wire, clock
        self.source, self.target = source, target
        self.seen, self.lost = [], ()
        self.counters = None
        wire.tap = self.tap

    def tap(self, frame):
        self.seen.append(frame)
        return [] if len(self.seen) - 1 in self.lost else [frame]

    def write(self, packets):
        self.source.write(TEXT)
        self.target.write(bytes(SIZE))
        self.channel.write((self.target.key, self.target.va), self.source.sge(0, packets * MTU))
        self.length = packets * MTU

    def took(self, requests=1):
        """Simulated nanoseconds until so many requests are complete."""
        passed = self.channel.until_sent(self.clock, requests, 100 * TIMEOUT)
        assert self.target.read(0, self.length) == TEXT[: self.length]
        return passed

    def count(self, *kinds):
        return sum(len(psns(self.seen, kind)) for kind in kinds)

    def counted(self, name):
        driver = self.channel.left.driver
        return getattr(driver.must(Op.QUERY_Q_COUNTER, counter_set_id=self.counters), name)


def test_without_losses_nothing_is_sent_twice(line):
    for _ in range(3):
        line.write(PACKETS)
        assert line.took() == 0
        line.clock.advance(TIMEOUT - MS)
    assert line.count(PacketKind.WRITE) == 3 * PACKETS
    assert line.counted("roce_adp_retrans") == 0


def test_gap_costs_no_time(line):
    line.lost = {5}
    line.write(PACKETS)
    assert line.took() == 0
    assert line.count(PacketKind.WRITE) == PACKETS + PACKETS - 5


@pytest.mark.parametrize("lost", [PACKETS - 1, PACKETS], ids=["last packet", "acknowledgement"])
def test_what_is_lost_last_costs_a_question(line, lost):
    line.lost = {lost}
    line.write(PACKETS)
    assert MIN_NS <= line.took() <= MIN_NS + MS
    assert line.count(PacketKind.WRITE) == PACKETS + 2
    assert line.counted("roce_adp_retrans") == 1
    assert line.counted("local_ack_timeout_err") == 0


@pytest.mark.parametrize(
    ("again", "questions"), [(PACKETS, 2), (PACKETS + 1, 1)], ids=["NAK", "packet sent again"]
)
def test_loss_of_what_would_repair_another_costs_questions(line, again, questions):
    """The responder has sent its NAK for the gap, and sends none until the packet is there."""
    line.lost = {5, again}
    line.write(PACKETS)
    assert questions * MIN_NS <= line.took() <= questions * MIN_NS + MS
    assert line.counted("local_ack_timeout_err") == 0


def test_lost_data_of_a_read_cost_a_question(line):
    read(line.channel, line.source, line.target, PACKETS)
    line.target.write(TEXT)
    line.length = PACKETS * MTU
    line.lost = {PACKETS}
    assert MIN_NS <= line.took() <= MIN_NS + MS
    assert line.source.read(0, line.length) == TEXT[: line.length]
    assert line.count(PacketKind.READ_RESPONSE) == PACKETS + 1


def test_questions_cost_no_retries(line, clock):
    """Silence ends as late as without them, and after few packets."""
    line.lost = range(100_000)
    line.write(PACKETS)
    begin = clock.ns
    while not (failed := line.channel.sender.cq.drain()):
        line.channel.settle()
        clock.advance(MS)
    assert failed[0].syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert clock.ns - begin >= 8 * TIMEOUT
    assert line.counted("local_ack_timeout_err") == 8
    assert len(line.seen) <= 8 * PACKETS + 2 * 5


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_responder_that_stalls_again_and_again(line, packet_wire, clock, share):
    """Each time for longer than many questions wait, and for less than the timeout."""
    for _ in range(10):
        line.write(PACKETS)
        held = requested(line.channel, packet_wire)
        for _ in range(int(share * TIMEOUT / MS)):
            clock.advance(MS)
            held += requested(line.channel, packet_wire)
        arrive(packet_wire, held)
        assert line.took() == 0
    assert line.counted("local_ack_timeout_err") == 0
    assert line.counted("packet_seq_err") == 0
    assert line.channel.sender.state == QpState.RTS


def test_reads_of_a_responder_that_stalls(line, packet_wire, clock):
    """As many as may be open, time and again: none is refused."""
    line.target.write(TEXT)
    for _ in range(5):
        for at in range(READS):
            read(line.channel, line.source, line.target, 2, 2 * at)
        held = []
        for _ in range(int(0.6 * TIMEOUT / MS)):
            clock.advance(MS)
            held += requested(line.channel, packet_wire)
        arrive(packet_wire, held)
        line.length = 2 * READS * MTU
        assert line.took(READS) == 0
        assert line.source.read(0, line.length) == TEXT[: line.length]
        line.source.write(bytes(SIZE))


def test_questions_use_up_no_attempt_at_a_receiver_that_is_not_ready(
    packet_pair, packet_wire, clock
):
    channel = Channel(QpType.RC, *packet_pair, ack_timeout=CODE, mtu=3, rnr_retry=1, min_rnr_nak=1)
    target = channel.right.region(64)
    channel.post_recv(target.sge())
    channel.send(b"timed")
    channel.settle()
    assert channel.sent()
    channel.send(b"late")
    held = requested(channel, packet_wire)
    for _ in range(3 * MIN_NS // MS):
        clock.advance(MS)
        held += requested(channel, packet_wire)
    assert len(held) == 1 + 2  # two questions
    for frame in held:  # three times "not ready", each after the pause of the one before
        arrive(packet_wire, [frame])
        channel.right.function.run()
        arrive(packet_wire, on_the_wire(packet_wire))
        clock.advance(MS)
        requested(channel, packet_wire)
    channel.post_recv(target.sge())
    clock.advance(TIMEOUT)
    channel.settle()
    assert len(channel.sent()) == 1


def test_who_wants_no_retries_is_not_asked_for(packet_pair, packet_wire, clock):
    """A question may show a loss at once, and without retries a loss is an error."""
    channel = Channel(QpType.RC, *packet_pair, ack_timeout=CODE, mtu=3, retry_count=0)
    channel.send(b"anybody?")
    assert len(requested(channel, packet_wire)) == 1
    clock.advance(TIMEOUT - MS)
    assert requested(channel, packet_wire) == []


@pytest.mark.parametrize("op", ["write", "read"])
@pytest.mark.parametrize("delay", [4, 25])
def test_long_ways_without_losses_carry_no_packet_twice(clock, wire, op, delay):
    """One message at a time and many, after pauses of any length."""
    nodes, cabling, _ = roce(None, clock, wire)
    session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
    world = World(nodes=nodes, session=session, clock=clock)
    channel = Channel(QpType.RC, *nodes, ack_timeout=CODE, mtu=3)
    near, far = world.region(nodes[0], TEXT), world.region(nodes[1], TEXT)
    world.set(direction="tx", delay=f"{delay}ms")
    for messages in (1, 1, 8, 1):
        done = []
        for _ in range(messages):
            getattr(channel, op)((far.key, far.va), near.sge(0, SIZE))
        world.until(
            lambda done=done, messages=messages: (
                done.extend(channel.sent()) or len(done) == messages
            ),
            step=MS,
        )
        world.run(7 * delay, step=MS)
    assert world.counts(int(op == "read"))["packets"] == 11 * SIZE // MTU
    session.close()


@pytest.mark.parametrize(("loss", "least"), [(0, 900), (1, 100), (5, 10)])
@pytest.mark.parametrize("op", ["write", "read"])
def test_goodput_over_links_that_lose(clock, wire, op, loss, least):
    """Mb/s over lines of 1 Gb/s that lose so many percent; 64 KiB, eight at a time."""
    nodes, cabling, _ = roce(None, clock, wire)
    session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
    world = World(nodes=nodes, session=session, clock=clock)
    channel = Channel(QpType.RC, *nodes, ack_timeout=CODE, mtu=3)
    near, far = world.region(nodes[0], TEXT), world.region(nodes[1], TEXT)
    world.set(direction="tx", loss=loss, rate="1gbit", limit=10_000)
    total, posted, done, begin = 8, 0, 0, clock.ns
    while done < total:
        for _ in range(min(total, done + 8) - posted):
            getattr(channel, op)((far.key, far.va), near.sge(0, SIZE))
            posted += 1
        clock.advance(MS // 50)
        channel.settle()
        done += len(channel.sent())
    session.close()
    assert total * SIZE * 8000 / (clock.ns - begin) > least
