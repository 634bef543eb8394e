"""What a lost packet costs a reliable connection: packets and simulated time."""

from types import SimpleNamespace

import pytest
from helpers.channels import Channel
from helpers.links import SIZE, TEXT, World
from helpers.links import roce as linked_roce
from helpers.roce import on_a_cable

from emu.engine.rc.packets import round_trip
from emu.engine.rc.timers import ACK_TIMEOUT_UNIT_NS
from emu.port.ib.framing import parse
from emu.service.fault_options import FaultOptions
from emu.service.fault_session import FaultSession
from layouts import bth
from layouts.bth import Kind
from layouts.enums import CqeSyndrome, Op, QpType

CODE = 14
TIMEOUT = ACK_TIMEOUT_UNIT_NS << CODE
MTU, PACKETS = 1024, 20
LENGTH = MTU * PACKETS
STEP = 100_000


class Line(SimpleNamespace):
    """A connection whose packets pass a tap: those whose numbers are in ``lost`` do not arrive."""

    def lay(self):
        self.seen, self.lost = [], ()
        self.wire.tap = self.tap
        self.channel = Channel(QpType.RC, *self.nodes, ack_timeout=CODE, mtu=3, retry_count=2)
        self.counters = self.nodes[0].driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
        self.nodes[0].driver.must(
            Op.RTS2RTS_QP, qpn=self.channel.sender.qpn, qpc={"counter_set_id": self.counters},
            opt_param_mask=1 << 25,
        )  # fmt: skip
        self.source, self.target = (node.region(LENGTH) for node in self.nodes)
        self.source.write(TEXT[:LENGTH])
        return self

    def tap(self, frame):
        self.seen.append(self.parse(frame))
        return [] if len(self.seen) - 1 in self.lost else [frame]

    def write(self, length=LENGTH):
        self.channel.write((self.target.key, self.target.va), self.source.sge(0, length))

    def took(self, requests=1):
        """Simulated nanoseconds until so many requests are complete."""
        begin = self.clock.ns
        self.channel.settle()
        while requests := requests - len(self.channel.sent()):
            assert self.clock.ns - begin < 100 * TIMEOUT, "it never completes"
            self.clock.advance(STEP)
            self.channel.settle()
        assert self.target.read() == TEXT[:LENGTH]
        return self.clock.ns - begin

    def count(self, *kinds):
        return sum(packet.op.kind in kinds for packet in self.seen)

    def counted(self, name):
        answer = self.nodes[0].driver.must(Op.QUERY_Q_COUNTER, counter_set_id=self.counters)
        return getattr(answer, name)


@pytest.fixture
def infiniband(packet_pair, packet_wire, clock):
    def parsed(frame):
        return parse(memoryview(frame))

    return Line(nodes=packet_pair, wire=packet_wire, clock=clock, parse=parsed).lay()


@pytest.fixture
def roce(clock):
    left, right = on_a_cable(clock)
    line = Line(nodes=(left, right), clock=clock, parse=lambda frame: left.hca.roce.parse(frame)[0])
    line.wire = SimpleNamespace()
    line.lay()
    for node in line.nodes:
        node.hca.eth_wire.tap = line.tap
    return line


@pytest.fixture(params=["infiniband", "roce"])
def line(request):
    return request.getfixturevalue(request.param)


def naks(line):
    return [
        p.psn for p in line.seen if p.op.kind is Kind.ACKNOWLEDGE and p.syndrome == bth.KIND_NAK
    ]


def test_gap_costs_one_nak_the_packets_behind_it_and_no_time(line):
    line.lost = {5}
    line.write()
    assert line.took() == 0
    assert len(naks(line)) == 1
    assert line.count(Kind.WRITE) == PACKETS + PACKETS - 5


def test_lost_last_packet_costs_a_probe_and_itself(infiniband):
    infiniband.lost = {PACKETS - 1}
    infiniband.write()
    assert TIMEOUT <= infiniband.took() <= TIMEOUT + STEP
    assert infiniband.count(Kind.WRITE) == PACKETS + 2
    assert infiniband.counted("local_ack_timeout_err") == 1


def test_lost_acknowledgement_costs_a_probe(infiniband):
    infiniband.lost = {PACKETS}
    infiniband.write()
    assert TIMEOUT <= infiniband.took() <= TIMEOUT + STEP
    assert infiniband.count(Kind.WRITE) == PACKETS + 1


def test_packet_that_is_lost_twice_costs_a_timeout(infiniband):
    """For one gap there is one NAK; the rest of the window does not follow a probe unasked."""
    infiniband.lost = {5, PACKETS + 1}  # the NAK passes before what it asks for
    infiniband.write()
    assert TIMEOUT <= infiniband.took() <= TIMEOUT + STEP
    assert len(naks(infiniband)) == 1
    assert infiniband.count(Kind.WRITE) == 2 * PACKETS - 5 + PACKETS - 5


def test_timeouts_become_longer_while_the_peer_is_silent(infiniband):
    infiniband.lost = range(1000)
    infiniband.write()
    infiniband.channel.settle()
    sent = []
    for _ in range(80):
        infiniband.clock.advance(TIMEOUT // 10)
        infiniband.channel.settle()
        sent.append(len(infiniband.seen) - PACKETS)
    # A probe after one timeout, a second one after two more; after another four it gives up.
    assert [sent.count(probes) for probes in range(3)] == pytest.approx([10, 20, 50], abs=2)
    assert infiniband.channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR


def test_acknowledgement_of_a_duplicate_does_not_stand_for_data(infiniband):
    """The responses of a WRITE and of the READ behind it are lost: the READ is asked for again."""
    back = infiniband.nodes[0].region(LENGTH)
    infiniband.lost = range(PACKETS + 1, 2 * PACKETS + 2)
    infiniband.write()
    infiniband.channel.read((infiniband.target.key, infiniband.target.va), back.sge())
    assert TIMEOUT <= infiniband.took(2) <= TIMEOUT + STEP
    assert back.read() == TEXT[:LENGTH]
    assert infiniband.count(Kind.READ) == 2


def test_adaptive_retransmission(roce):
    """Once a response was timed, a lost one is missed long before the ACK timeout."""
    roce.write()
    assert roce.took() == 0
    for lost in (PACKETS - 1, PACKETS):  # the last packet, the acknowledgement
        roce.seen.clear()
        roce.lost = {lost}
        roce.write()
        assert round_trip.LEAST_NS <= roce.took() <= round_trip.LEAST_NS + STEP
    assert roce.counted("roce_adp_retrans") == 2
    assert roce.counted("local_ack_timeout_err") == 0


def test_adaptive_retransmission_before_any_response_was_timed(roce):
    roce.lost = {PACKETS}
    roce.write()
    assert round_trip.FIRST_NS <= roce.took() <= round_trip.FIRST_NS + STEP


def test_tries_before_the_timeout_are_few_and_no_retries(roce):
    roce.write(MTU)
    roce.channel.settle()
    assert roce.channel.sent()
    roce.seen.clear()
    roce.lost = range(1000)
    roce.write()
    begin = roce.clock.ns
    while not (failed := roce.channel.sender.cq.drain()):
        roce.clock.advance(STEP)
        roce.channel.settle()
    assert failed[0].syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert 7 * TIMEOUT <= roce.clock.ns - begin <= 7 * TIMEOUT + 10 * STEP
    early = (TIMEOUT // round_trip.LEAST_NS).bit_length()
    assert roce.counted("roce_adp_retrans") == early
    assert roce.counted("local_ack_timeout_err") == roce.counted("roce_adp_retrans_to") == 3
    assert len(roce.seen) == PACKETS + early + 2


@pytest.fixture
def world(clock, wire):
    """Two RoCE functions of one process, with links."""
    nodes, cabling, _ = linked_roce(None, clock, wire)
    session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
    yield World(nodes=nodes, session=session, clock=clock)
    session.close()


def test_slow_link_is_learned(world):
    """Responses take longer than the first patience: the first message alone is probed for."""
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(direction="tx", delay="12ms")
    needed = SIZE // MTU
    sent = []
    for _ in range(4):
        before = world.counts().get("packets", 0)
        channel.write((target.key, target.va), source.sge(0, SIZE))
        assert 24 <= world.until(channel.sent) < 25
        world.run(50)
        sent.append(world.counts()["packets"] - before)
    assert sent == [needed + 1, needed, needed, needed]


@pytest.mark.parametrize(
    ("loss", "delay", "least"),
    [(0, "0us", 900), (1, "0us", 400), (5, "0us", 60), (0, "1ms", 400), (5, "1ms", 30)],
)
def test_goodput_over_a_line_of_1000_megabits(world, loss, delay, least):
    """WRITEs of 64 KiB, eight at a time, over a link that loses this many percent."""
    total, posted, done, begin = 16, 0, 0, world.clock.ns
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(direction="tx", loss=loss, delay=delay, rate="1gbit", limit=10_000)
    while done < total:
        for _ in range(min(total, done + 8) - posted):
            channel.write((target.key, target.va), source.sge(0, SIZE))
            posted += 1
        world.clock.advance(STEP // 5)
        channel.settle()
        done += len(channel.sent())
    assert total * SIZE * 8000 / (world.clock.ns - begin) > least


def test_ping_pong_of_20_packets_over_lossy_links(world):
    """Each loses 4 %. Go-back-N sends twice the packets; what is lost last costs milliseconds."""
    turns, begin = 20, world.clock.ns
    regions = [node.region(LENGTH) for node in world.nodes]
    ways = [
        (Channel(QpType.RC, *nodes, ack_timeout=CODE, mtu=3), source, target)
        for nodes, source, target in (
            (world.nodes, *regions),
            (world.nodes[::-1], *regions[::-1]),
        )
    ]
    world.set(loss=4)
    for _ in range(turns):
        for channel, source, target in ways:
            channel.write((target.key, target.va), source.sge())
            world.until(channel.sent)
    assert (world.clock.ns - begin) / turns < 40 * 1_000_000
    packets = world.counts()["packets"] + world.counts(function=1)["packets"]
    assert packets < 2.5 * turns * 2 * (PACKETS + 1)


def test_pauses_are_no_reason_to_retransmit(roce):
    """Time passes between messages, not while a response is due."""
    for _ in range(5):
        roce.write()
        assert roce.took() == 0
        roce.clock.advance(TIMEOUT - STEP)
    assert roce.count(Kind.WRITE) == 5 * PACKETS
