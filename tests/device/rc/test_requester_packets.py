"""What a requester of packets does not send, or sends once: full windows, failures, pages, NAKs."""

import pytest
from helpers.device.forging import response
from helpers.device.ibta import RNR_NAK_NS

from emu.device.port.ib.framing import parse
from emu.device.port.recovery import LossRecovery
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.wire import bth
from layouts.wire.bth import PacketKind

MTU, PSN = 256, 0x10
WINDOW_PACKETS = 128
"""How many packets are sent before the first is acknowledged."""
MIN_NS = 10_000_000
"""How soon a requester sends again by what it has measured, at the earliest."""
SIZE = 1 << 16
TEXT = bytes(range(256)) * (SIZE // 256)
RNR, GAP = bth.KIND_RNR | 9, bth.KIND_NAK
COUNTER = 1 << 25
"""The bit of opt_param_mask for a queue pair's counter."""


@pytest.fixture
def options():
    return {}


@pytest.fixture
def channel(packet_pair, packet_wire, options):
    """The test answers in the receiver's place: what the sender sends stays on the wire."""
    return Channel(QpType.RC, *packet_pair, **{"mtu": 1, "ack_timeout": 14} | options)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE)


@pytest.fixture
def to(target):
    return target.key, target.va


@pytest.fixture
def sent(channel, packet_wire):
    """What the sender sends, since the last look: kind and PSN of each packet."""

    def look():
        while channel.left.function.run():
            channel.left.hca.budget.begin()
        packets = [parse(memoryview(frame)) for frame in packet_wire.frames]
        packet_wire.frames.clear()
        return [(packet.op.kind, packet.psn) for packet in packets]

    return look


@pytest.fixture
def answer(channel, packet_wire):
    """An ACK packet of the receiver's, or another of its packets."""

    def arrive(psn, syndrome=bth.ACK_UNLIMITED, kind=PacketKind.ACKNOWLEDGE, **values):
        packet_wire.arrive(response(channel, kind, psn, syndrome=syndrome, **values))

    return arrive


@pytest.fixture
def counted(channel):
    """Counters of the sender (hw_counters of the port)."""
    driver = channel.left.driver
    number = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    driver.must(
        Op.RTS2RTS_QP, qpn=channel.sender.qpn, qpc={"counter_set_id": number},
        opt_param_mask=COUNTER,
    )  # fmt: skip
    return lambda name: getattr(driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number), name)


def ended(channel):
    """The syndromes of the requests that have ended, 0 for good ones."""
    return [completion.syndrome for completion in channel.sender.cq.drain()]


# Windows.


def test_read_waits_for_a_full_window(channel, source, to, sent, answer):
    channel.write(to, source.sge(0, WINDOW_PACKETS * MTU))
    channel.read(to, source.sge(0, 8))
    assert len(sent()) == WINDOW_PACKETS
    assert sent() == []
    answer(PSN)
    assert sent() == [(PacketKind.READ, PSN + WINDOW_PACKETS)]


@pytest.mark.parametrize("options", [{"log_sra_max": 1}])
def test_write_does_not_wait_for_reads(channel, source, to, sent):
    """As many READs as may be open are."""
    for _ in range(2):
        channel.read(to, source.sge(0, 8))
    channel.write(to, source.sge(0, 8))
    channel.read(to, source.sge(0, 8))
    assert sent() == [
        (PacketKind.READ, PSN),
        (PacketKind.READ, PSN + 1),
        (PacketKind.WRITE, PSN + 2),
    ]


def test_requests_take_up_half_of_all_psns_at_most(channel, to, sent):
    """A response could not be told from one of the past."""
    part = channel.left.region(1 << 20)
    large = indirect_key(channel.left, AccessMode.KLMS, [part.sge()] * 1024, 1 << 30)
    for _ in range(3):
        channel.read(to, (1 << 30, large, 0))
    assert sent() == [(PacketKind.READ, PSN), (PacketKind.READ, PSN + (1 << 30) // MTU)]


def test_local_requests_take_places_in_the_window(channel, source, to, sent, answer):
    """Each is complete when its turn comes."""
    channel.sender = channel.left.queue_pair(log_sq_size=9)
    channel.receiver = channel.right.queue_pair()
    connect(channel.sender, channel.receiver, mtu=1)
    channel.write(to, source.sge(0, 8))
    for number in range(2 * WINDOW_PACKETS):
        channel.sender.post(Opcode.NOP, ring=number == 2 * WINDOW_PACKETS - 1)
    assert len(sent()) == 1
    window = channel.left.hca.qps.get(channel.sender.qpn).connection.completer.window
    assert len(window.requests) == WINDOW_PACKETS
    answer(PSN)
    assert sent() == []
    assert not window.requests


# Failures.


def test_nothing_is_sent_behind_a_request_that_has_failed(channel, source, to, sent, answer):
    channel.write(to, source.sge(0, 8))
    channel.write(to, (8, source.key, 0))
    channel.write(to, source.sge(0, 8))
    assert sent() == [(PacketKind.WRITE, PSN)]
    answer(PSN)
    assert ended(channel) == [0, CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.WR_FLUSH_ERR]


def test_request_that_has_failed_stays_so(channel, source, to, sent, answer, packet_wire):
    """Its key goes while it waits for room on the wire, and comes back before its turn."""
    other = channel.left.region(4096)
    packet_wire.room = 2
    channel.write(to, source.sge(0, 8))
    channel.write(to, other.sge(0, 2 * MTU))
    mkey = channel.left.hca.mkeys.get(other.index)
    channel.left.function.run()
    mkey.invalidate()
    packet_wire.tap = lambda frame: []
    for _ in range(2):
        packet_wire.deliver()
    assert sent() == []
    mkey.ctx.free = 0
    mkey.decode()
    channel.write(to, source.sge(0, 8))
    assert sent() == []
    answer(PSN)
    assert ended(channel) == [0, CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.WR_FLUSH_ERR]


@pytest.mark.parametrize("op", ["read", "fetch_add"])
def test_response_behind_a_request_that_has_failed(channel, source, to, sent, answer, op):
    """It acknowledges what came before, and so ends the failed request, which ends the others."""
    other, place = channel.left.region(4096), channel.left.region(4096)
    channel.write(to, source.sge(0, 8))
    channel.write(to, other.sge(0, 8))
    getattr(channel, op)(to, place.sge(0, 8), *([1] if op == "fetch_add" else []))
    assert len(sent()) == 3
    answer(PSN, GAP)
    channel.left.hca.mkeys.get(other.index).invalidate()
    assert sent() == [(PacketKind.WRITE, PSN)]
    if op == "read":
        answer(PSN + 2, kind=PacketKind.READ_RESPONSE, payload=b"the data")
    else:
        answer(PSN + 2, kind=PacketKind.ATOMIC_ACKNOWLEDGE, original=1)
    assert ended(channel) == [0, CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.WR_FLUSH_ERR]
    assert channel.sender.state == QpState.ERR
    assert not any(place.read())


# Receivers that are not ready.


@pytest.mark.parametrize("options", [{"rnr_retry": 1}])
def test_second_rnr_nak_during_the_pause_counts_for_nothing(
    channel, source, to, sent, answer, counted, clock
):
    channel.write(to, source.sge(0, 2 * MTU))
    packets = sent()
    answer(PSN, RNR)
    clock.advance(RNR_NAK_NS[9] // 2)
    answer(PSN, RNR)
    assert counted("rnr_nak_retry_err") == 1
    clock.advance(RNR_NAK_NS[9] // 2)
    assert sent() == packets
    answer(PSN + 1)
    assert ended(channel) == [0]


# Single packets that are sent again.


@pytest.fixture
def selective(packet_pair):
    """With selective repeat, which the registers of an InfiniBand port do not switch on."""
    port = packet_pair[0].hca.link
    type(port).recovery, before = LossRecovery(selective_repeat=True), type(port).recovery
    yield
    type(port).recovery = before


def test_single_packet_waits_for_room_on_the_wire(
    selective, channel, source, to, sent, answer, packet_wire
):
    channel.write(to, source.sge(0, 8 * MTU))
    packet_wire.room = 5
    assert len(sent()) == 5
    answer(PSN + 2, GAP)
    assert sent() == []
    channel.write(to, source.sge(0, 8))
    packet_wire.frames.append(b"")
    packet_wire.tap = lambda frame: []
    packet_wire.room = 100
    packet_wire.deliver()
    assert sent() == [(PacketKind.WRITE, PSN + at) for at in range(2, 9)]


def test_packet_that_is_about_to_be_sent_again_is_sent_once(
    selective, channel, source, to, sent, answer, clock
):
    """The pause after an RNR NAK has just ended when the next NAK comes."""
    channel.write(to, source.sge(0, 4 * MTU))
    packets = sent()
    answer(PSN, RNR)
    clock.advance(RNR_NAK_NS[9])
    answer(PSN, GAP)
    assert sent() == packets


# Questions when a response is late.


@pytest.fixture
def timed(channel, source, to, sent, answer):
    """The requester knows how long responses take."""
    channel.write(to, source.sge(0, 8))
    sent()
    answer(PSN)
    assert ended(channel) == [0]


def test_no_question_without_its_data(timed, channel, source, to, sent, counted, clock):
    channel.write(to, source.sge(0, 4 * MTU))
    assert len(sent()) == 4
    other = channel.left.region(4096)
    channel.write(to, other.sge(0, 8))
    assert len(sent()) == 1
    channel.left.hca.mkeys.get(source.index).invalidate()
    clock.advance(MIN_NS)
    assert sent() == []
    assert counted("roce_adp_retrans_to") > 0
    assert counted("roce_adp_retrans") == 0


def test_no_question_without_room_on_the_wire(
    timed, channel, source, to, packet_wire, counted, clock
):
    before = packet_wire.sent
    channel.write(to, source.sge(0, 8 * MTU))
    packet_wire.room = 4
    channel.left.function.run()
    clock.advance(2 * MIN_NS)
    assert packet_wire.sent == before + 4
    assert counted("roce_adp_retrans_to") > 0
    assert counted("roce_adp_retrans") == 0


# Pages of the requester's own.


@pytest.fixture
def pager(packet_pair):
    return Pager(packet_pair[0])


@pytest.fixture
def absent(pager, channel):
    return PagedRegion(pager, 4096)


def test_request_waits_for_the_resume_and_not_for_the_page(pager, absent, channel, target, to):
    """The driver gives up when the page is there: the request fails, and is not done as well."""
    channel.write(to, absent.sge(0, 8))
    event = pager.fault()
    absent.bring_in()
    absent.write(b"not this")
    channel.write((to[0], to[1] + 8), absent.sge(0, 8))
    channel.settle()
    assert ended(channel) == []
    pager.must_resume(event, error=True)
    assert ended(channel) == [CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.WR_FLUSH_ERR]
    assert not any(target.read())


def test_requester_waits_for_one_page_at_a_time(pager, absent, channel, target, to, packet_wire):
    """The data of a READ come when a later request waits for a page already."""
    target.write(TEXT)
    other = PagedRegion(pager, 4096)
    other.bring_in()
    packet_wire.tap = lambda frame: []
    channel.read(to, other.sge(0, 8))
    channel.settle()
    channel.write((to[0], to[1] + 8), absent.sge(0, 8))
    first = pager.fault()
    other.take_away()
    packet_wire.tap = lambda frame: [frame]
    packet_wire.arrive(response(channel, PacketKind.READ_RESPONSE, PSN, payload=bytes(8)))
    assert pager.faults() == []
    absent.bring_in()
    absent.write(b"the text")
    pager.must_resume(first)
    second = pager.fault()
    other.bring_in()
    pager.must_resume(second)
    assert ended(channel) == [0, 0]
    assert other.read(0, 8) == TEXT[:8]
    assert target.read(8, 8) == b"the text"


def test_masked_atomic_waits_for_no_page(pager, absent, channel, to, sent, answer):
    """The driver could not make sense of such a page fault: it fails when its page has gone."""
    absent.bring_in()
    channel.masked_fetch_add(to, absent.sge(0, 8), 1)
    assert sent() == [(PacketKind.MASKED_FETCH_ADD, PSN)]
    absent.take_away()
    answer(PSN, kind=PacketKind.ATOMIC_ACKNOWLEDGE, original=1)
    assert ended(channel) == [CqeSyndrome.LOCAL_PROT_ERR]
    assert pager.faults() == []
