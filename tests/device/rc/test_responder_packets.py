"""What a responder of packets takes later, answers again, and drops without an answer."""

import pytest
from helpers.device.forging import request

from emu.device.engine.rc.packets.responder import PAGE_TIMEOUT_NS
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.ib.framing import parse
from emu.device.rounds.budget import POLL_BUDGET, TIMER_BUDGET
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PacketKind, imm_dt

MTU, PSN = 256, 0x10
SIZE = 8192
TEXT = bytes(range(1, 251)) * 40


@pytest.fixture
def options():
    return {}


@pytest.fixture
def service():
    return QpType.RC


@pytest.fixture
def channel(packet_pair, service, options):
    """The test asks in the sender's place: what the receiver sends stays on the wire."""
    return Channel(service, *packet_pair, **{"mtu": 1} | options)


@pytest.fixture
def target(channel):
    region = channel.right.region(SIZE)
    region.write(TEXT[:SIZE])
    return region


@pytest.fixture
def ask(channel, packet_wire, target):
    """A request packet of the sender's, for the target unless it says otherwise."""

    def arrive(kind, psn, **values):
        values = {"va": target.va, "rkey": target.key} | values
        packet_wire.arrive(request(channel, kind, psn, **values))

    return arrive


@pytest.fixture
def answers(channel, packet_wire):
    """What the receiver has sent since the last look: kind and PSN of each packet."""

    def look():
        while channel.right.function.run():
            pass
        packets = [parse(memoryview(frame)) for frame in packet_wire.frames]
        packet_wire.frames.clear()
        return [(packet.op.kind, packet.psn) for packet in packets]

    return look


def write(ask, psn, data, **values):
    ask(PacketKind.WRITE, psn, payload=data, length=len(data), ack_request=True, **values)


# What arrives together.


def test_packets_of_a_round_get_one_acknowledgement_without_a_poll(channel, ask, packet_wire):
    budget = channel.right.hca.budget
    budget.is_gathering = True
    write(ask, PSN, b"one")
    write(ask, PSN + 1, b"two")
    assert not packet_wire.frames
    budget.release()
    (packet,) = (parse(memoryview(frame)) for frame in packet_wire.frames)
    assert (packet.op.kind, packet.psn) == (PacketKind.ACKNOWLEDGE, PSN + 1)


def test_acknowledgement_that_the_round_cannot_send_waits_for_a_poll(channel, ask, answers):
    budget = channel.right.hca.budget
    budget.is_gathering = True
    write(ask, PSN, b"one")
    budget.steps = POLL_BUDGET + 1
    budget.release()
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]


def test_function_that_is_reset_acknowledges_nothing(channel, ask, packet_wire):
    budget = channel.right.hca.budget
    budget.is_gathering = True
    write(ask, PSN, b"one")
    channel.right.function.reset()
    budget.release()
    assert not packet_wire.frames


def test_function_that_has_failed_acknowledges_nothing(channel, ask, packet_wire, caplog):
    budget = channel.right.hca.budget
    budget.is_gathering = True
    write(ask, PSN, b"one")
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        channel.right.hca.health.fail()
    caplog.clear()
    budget.release()
    assert not packet_wire.frames


# What has to wait.


def test_packet_that_stops_the_queue_pair_takes_along_those_that_wait(
    channel, ask, answers, target
):
    """Even one with the number that is expected next."""
    budget = channel.right.hca.budget
    budget.steps = TIMER_BUDGET + 1
    write(ask, PSN, b"no key", rkey=0xBAD00)
    write(ask, PSN, b"later")
    budget.begin()
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    assert channel.receiver.state == QpState.ERR
    assert target.read(0, 5) == TEXT[:5]


def test_round_that_has_done_enough_takes_no_packet(channel, ask, answers, target):
    budget = channel.right.hca.budget
    budget.steps = TIMER_BUDGET + 1
    write(ask, PSN, b"later")
    assert target.read(0, 5) == TEXT[:5]
    budget.begin()
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    assert target.read(0, 5) == b"later"


def test_packet_waits_for_those_before_it(channel, ask, answers, target):
    """It comes in the next round, before they had their turn."""
    budget = channel.right.hca.budget
    budget.steps = TIMER_BUDGET + 1
    write(ask, PSN, b"first")
    budget.begin()
    write(ask, PSN + 1, b"next ")
    assert target.read(0, 5) == TEXT[:5]
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN + 1)]
    assert target.read(0, 5) == b"next "


def test_packet_waits_while_the_data_of_a_read_are_absent(channel, ask, answers, target):
    """Their page goes after the READ was taken."""
    pager = Pager(channel.right)
    paged = PagedRegion(pager, 4096)
    paged.bring_in()
    paged.write(b"data")
    ask(PacketKind.READ, PSN, va=paged.va, rkey=paged.key, length=4)
    channel.right.hca.mkeys.get(paged.index).write_translations(0, bytes(8))
    assert answers() == []
    write(ask, PSN + 1, b"later")
    assert target.read(0, 5) == TEXT[:5]
    event = pager.fault()
    paged.bring_in()
    pager.must_resume(event)
    assert target.read(0, 5) == b"later"


@pytest.mark.parametrize("service", [QpType.XRC])
@pytest.mark.parametrize("is_other", [False, True])
def test_receive_request_of_a_packet_that_waited_too_long(
    channel, ask, answers, target, clock, is_other
):
    """The packet that comes again gets it, but not one for another shared queue."""
    domain = channel.right.hca.srqs.get(channel.srqn).xrcd.handle
    other = channel.right.shared_queue(xrcd=domain, cq=channel.recv_cq)
    other.post(target.sge())
    channel.post_recv()
    pager = Pager(channel.right)
    paged = PagedRegion(pager, 4096)
    there = {"va": paged.va, "rkey": paged.key, "ending": imm_dt, "immediate": 7}
    write(ask, PSN, b"data", srqn=channel.srqn, **there)
    event = pager.fault()
    clock.advance(PAGE_TIMEOUT_NS)
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]  # not ready
    paged.bring_in()
    pager.must_resume(event)
    queue = other.srqn if is_other else channel.srqn
    write(ask, PSN, b"data", srqn=queue, **there)
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    (done,) = channel.recv_cq.drain()
    assert (done.opcode, done.srqn) == (CqeOpcode.RESP_WR_IMM, queue)
    assert paged.read(0, 4) == b"data"


@pytest.mark.parametrize("options", [{"mtu": 5}])
def test_write_of_a_packet_into_memory_that_is_too_scattered(channel, ask, answers, target):
    """Single bytes, each behind a key of its own: more than an access has steps."""
    count = 4096
    one = indirect_key(channel.right, AccessMode.KLMS, [target.sge(0, 1)] * 2, 2)
    key = indirect_key(channel.right, AccessMode.KLMS, [(1, one, 0)] * count, count)
    write(ask, PSN, bytes(count), va=0, rkey=key)
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    assert channel.receiver.state == QpState.ERR
    assert target.read(0, 1) == TEXT[:1]


def test_rules_see_the_access_of_each_packet_of_a_read(channel, ask, answers):
    function = channel.right.function
    function.use_faults(injector := Injector(function))
    rule = f'[[rule]]\npoint="dma.read"\naction="fail"\nmatch.length={MTU}\nindex=6'
    injector.load(load(rule))
    ask(PacketKind.READ, PSN, length=SIZE)
    kinds = [kind for kind, _ in answers()]
    assert kinds == [PacketKind.READ_RESPONSE] * 5 + [PacketKind.ACKNOWLEDGE]
    assert channel.receiver.state == QpState.ERR


@pytest.mark.hostile
@pytest.mark.parametrize("length", [(1 << 30) + 1, (1 << 31) + MTU, 0xFFFFFFFF])
@pytest.mark.parametrize("kind", [PacketKind.READ, PacketKind.WRITE])
def test_message_that_is_too_long(channel, ask, answers, target, kind, length):
    """The first packet is refused, by its header alone (IBTA 9.7.4.1.6)."""
    mkey = channel.right.hca.mkeys.get(target.index)
    entry = {
        "access_mode_1_0": AccessMode.PA, "lr": 1, "lw": 1, "rr": 1, "rw": 1, "qpn": 0xFFFFFF,
        "pd": mkey.pd.handle, "length64": 1,
    }  # fmt: skip
    made = channel.right.driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=entry)
    payload = b"" if kind is PacketKind.READ else b"x" * MTU
    fields = {"rkey": made.mkey_index << 8, "va": mkey.pages.read(0, 1)[0] & ~0xFFF}
    ask(kind, PSN, length=length, payload=payload, is_last=not payload, ack_request=True, **fields)
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    assert channel.receiver.state == QpState.ERR
    assert target.read() == TEXT[:SIZE]


# Duplicates.


def test_duplicate_read_reaches_up_to_the_expected_packet(ask, answers):
    write(ask, PSN, b"x")
    assert answers() == [(PacketKind.ACKNOWLEDGE, PSN)]
    ask(PacketKind.READ, PSN, length=MTU)
    assert answers() == [(PacketKind.READ_RESPONSE, PSN)]
    ask(PacketKind.READ, PSN, length=MTU + 1)
    assert answers() == []


@pytest.mark.parametrize("options", [{"log_msg_max": 9}])
def test_duplicate_read_is_no_longer_than_a_message(ask, answers):
    for at in range(4):
        write(ask, PSN + at, b"x")
    answers()
    ask(PacketKind.READ, PSN, length=2 * MTU)
    assert answers() == [(PacketKind.READ_RESPONSE, PSN), (PacketKind.READ_RESPONSE, PSN + 1)]
    ask(PacketKind.READ, PSN, length=4 * MTU)
    assert answers() == []


def test_duplicate_read_without_a_key_changes_nothing(channel, ask, answers, packet_wire):
    """The READ that it repeats is being answered."""
    packet_wire.room = 2
    ask(PacketKind.READ, PSN, length=4 * MTU)
    assert answers() == [(PacketKind.READ_RESPONSE, PSN), (PacketKind.READ_RESPONSE, PSN + 1)]
    ask(PacketKind.READ, PSN, length=4 * MTU, rkey=0xBAD00)
    packet_wire.tap = lambda frame: []
    packet_wire.frames.append(b"")
    packet_wire.deliver()
    assert answers() == [(PacketKind.READ_RESPONSE, PSN + 2), (PacketKind.READ_RESPONSE, PSN + 3)]
    assert channel.receiver.state == QpState.RTS


def test_duplicate_read_whose_key_goes_is_not_answered(channel, ask, answers, target):
    ask(PacketKind.READ, PSN, length=4)
    assert answers() == [(PacketKind.READ_RESPONSE, PSN)]
    ask(PacketKind.READ, PSN, length=4)
    mkey = channel.right.hca.mkeys.get(target.index)
    mkey.invalidate()
    assert answers() == []
    mkey.ctx.free = 0
    mkey.decode()
    ask(PacketKind.READ, PSN, length=4)
    assert answers() == [(PacketKind.READ_RESPONSE, PSN)]


def test_duplicate_atomic_gets_the_newest_result_of_its_psn(channel, ask, packet_wire, target):
    """The PSN has come again after 2**24 packets, with few atomics between."""
    target.write(bytes(8))

    def result():
        ask(PacketKind.FETCH_ADD, PSN, swap_add=1)
        while channel.right.function.run():
            pass
        (packet,) = (parse(memoryview(frame)) for frame in packet_wire.frames)
        packet_wire.frames.clear()
        return packet.original

    assert result() == 0
    channel.right.hca.qps.need(channel.receiver.qpn).epsn = PSN
    assert (result(), result()) == (1, 1)
    assert int.from_bytes(target.read(0, 8), "little") == 2


@pytest.mark.parametrize("reason", ["no event queue", "the queue pair has stopped"])
def test_duplicate_read_waits_for_no_page(channel, ask, answers, packet_wire, reason):
    pager = Pager(channel.right)
    paged = PagedRegion(pager, 4096)
    paged.bring_in()
    there = {"va": paged.va, "rkey": paged.key, "length": 4}
    ask(PacketKind.READ, PSN, **there)
    packet_wire.room = 1
    assert answers() == [(PacketKind.READ_RESPONSE, PSN)]
    ask(PacketKind.READ, PSN, **there)
    paged.take_away()
    if reason == "no event queue":
        channel.right.driver.must(Op.DESTROY_EQ, eq_number=pager.eqn)
    else:
        channel.receiver.to_error()
    packet_wire.frames.clear()
    packet_wire.tap = lambda frame: []
    packet_wire.frames.append(b"")
    packet_wire.deliver()
    assert answers() == []
    assert not channel.right.hca.page_faults.open()


# UC.


@pytest.mark.parametrize("service", [QpType.UC])
def test_unreliable_packet_that_does_not_continue_the_message(channel, ask, answers, target):
    """It is dropped, with the message; the next one is taken."""
    place = channel.right.region(SIZE)
    channel.post_recv(place.sge())
    ask(PacketKind.WRITE, PSN, is_last=False, payload=bytes(MTU), length=MTU + 4)
    ask(PacketKind.SEND, PSN + 1, is_first=False, payload=b"lost")
    write(ask, PSN + 2, b"lost", is_first=False)
    ask(PacketKind.SEND, PSN + 3, payload=b"whole")
    answers()
    assert [received.byte_cnt for received in channel.received()] == [5]
    assert place.read(0, 5) == b"whole"
    assert target.read() == bytes(MTU) + TEXT[MTU:SIZE]


@pytest.mark.parametrize("service", [QpType.UC])
def test_unreliable_packet_of_another_operation_ends_the_message(channel, ask, answers, target):
    """Also where the right packet comes then, with the number that is expected."""
    ask(PacketKind.WRITE, PSN, is_last=False, payload=bytes(MTU), length=MTU + 4)
    ask(PacketKind.SEND, PSN + 1, is_first=False, payload=b"lost")
    write(ask, PSN + 1, b"lost", is_first=False)
    answers()
    assert target.read() == bytes(MTU) + TEXT[MTU:SIZE]


@pytest.mark.parametrize("service", [QpType.UC])
def test_unreliable_message_that_misses_a_packet(channel, ask, answers, target):
    ask(PacketKind.WRITE, PSN, is_last=False, payload=bytes(MTU), length=MTU + 4)
    write(ask, PSN + 2, b"lost", is_first=False)
    assert target.read() == bytes(MTU) + TEXT[MTU:SIZE]
