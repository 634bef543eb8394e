"""Packets that are held to be merged: for how long, how many, and when they are let go."""

import pytest
from helpers.device.lro import LRO, PERIOD_NS

from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.state.sessions import MAX_HELD, MAX_SESSIONS
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import (
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    modify_rqt,
    rss,
)
from emu.driver.ethernet.split_queue import SplitQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.wq import RqState

ACK, PSH = 0x10, 0x08


@pytest.fixture
def base_model():
    return LINKS["connectx7"][PortType.ETH]


@pytest.fixture
def steer(driver):
    """Send all frames to a TIR from now on."""
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    group = flows.group(table, 0, 0)

    def to(tirn):
        (flows.modify if driver in led else flows.entry)(table, 0, group, to_tir(tirn))
        led.append(driver)

    led = []
    return to


@pytest.fixture
def lead(driver, td, steer):
    """Send all frames to a TIR that is made for a queue."""

    def to(rqn, **context):
        tirn = create_direct_tir(driver, td, rqn, **context)
        steer(tirn)
        return tirn

    return to


@pytest.fixture
def rq(node):
    queue = StridingQueue(node, log_size=3, log_count=9, log_stride_size=8)
    queue.post_more(7)
    return queue


@pytest.fixture
def lro(rq, lead):
    rq.tirn = lead(rq.rqn, **LRO)
    return rq


def packet(number=0, port=0, flags=ACK, size=1000):
    sequence = 1000 + number * size
    return EthPacket(
        ports=(1024 + port).to_bytes(2, "big") + b"\0\x50", sequence=sequence, flags=flags,
        identifier=number, payload=bytes(number + n & 0xFF for n in range(size)),
    ).frame()  # fmt: skip


def send(hca, *frames):
    for data in frames:
        arrive(hca, Frame(data))


def counts(queue):
    return [piece.entry.srqn >> 24 or 1 for piece in queue.drain() if not piece.is_filler]


def test_held_until_the_period_is_over(hca, clock, lro):
    send(hca, packet(0), packet(1), packet(2))
    clock.advance(PERIOD_NS - 1)
    assert counts(lro) == []
    clock.advance(1)
    assert counts(lro) == [3]
    assert not clock.waiting()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_merged_packet_is_not_padded(hca, clock, lro, size):
    """Its IP length is what the driver reads from byte_cnt (en_rx.c: mlx5e_lro_update_hdr)."""
    send(hca, *(packet(number, size=size).ljust(60, b"\0") for number in range(2)))
    clock.advance(PERIOD_NS)
    (piece,) = [piece for piece in lro.drain() if not piece.is_filler]
    assert piece.entry.srqn >> 24 == 2
    assert piece.entry.byte_cnt & 0xFFFF == 54 + 2 * size
    header = len(packet(size=size)) - size
    assert piece.data[header:] == packet(0, size=size)[header:] + packet(1, size=size)[header:]


def test_the_period_begins_with_the_first_packet(hca, clock, lro):
    send(hca, packet(0))
    clock.advance(PERIOD_NS - 1000)
    send(hca, packet(1))
    clock.advance(1000)
    assert counts(lro) == [2]
    send(hca, packet(2), packet(3))
    assert counts(lro) == []
    clock.advance(PERIOD_NS)
    assert counts(lro) == [2]


def test_the_last_packet_of_a_message_lets_them_go(hca, clock, lro):
    send(hca, packet(0), packet(1), packet(2, flags=ACK | PSH), packet(3, flags=ACK | PSH))
    assert counts(lro) == [3, 1]
    clock.advance(PERIOD_NS)  # the timer finds nothing
    assert not clock.waiting()


def test_streams_are_held_side_by_side(hca, clock, lro):
    send(hca, *(packet(n, port=port) for n in range(3) for port in range(5)))
    clock.advance(PERIOD_NS)
    assert counts(lro) == [3] * 5


def test_no_longer_than_a_completion_can_tell(hca, clock, lro):
    send(hca, *(packet(n, size=100) for n in range(300)))
    clock.advance(PERIOD_NS)
    assert counts(lro) == [255, 45]


def test_no_longer_than_the_tir_allows(hca, clock, rq, lead):
    lead(rq.rqn, **LRO | {"lro_max_ip_payload_size": 16})
    send(hca, *(packet(n) for n in range(9)))
    clock.advance(PERIOD_NS)
    assert counts(rq) == [4, 4, 1]


def test_no_longer_than_a_request(hca, clock, node, lead):
    rq = StridingQueue(node, log_size=2, log_count=3, log_stride_size=9)
    rq.post_more(3)
    lead(rq.rqn, **LRO)
    send(hca, *(packet(n) for n in range(6)))
    clock.advance(PERIOD_NS)
    assert counts(rq) == [4, 2]


def test_a_super_frame_goes_behind_what_is_held(hca, clock, lro):
    send(hca, packet(0), packet(1))
    header = EthPacket(
        ports=b"\x04\0\0\x50", sequence=3000, flags=ACK, identifier=2, payload=b"x"
    ).header()
    arrive(hca, Frame(unsegmented(header, bytes(4000), 1000), 1000, checked=True))
    assert counts(lro) == [2, 4]
    assert not hca.sessions.packet_count
    clock.advance(PERIOD_NS)


@pytest.mark.parametrize("state", [RqState.ERR, RqState.RST])
def test_nothing_is_written_for_a_queue_that_has_stopped(hca, clock, lro, state):
    send(hca, packet(0), packet(1))
    before = lro.region.read(lro.headroom, 4096)
    lro.modify(state)
    assert not hca.sessions.packet_count
    clock.advance(PERIOD_NS)
    assert lro.region.read(lro.headroom, 4096) == before
    if state is RqState.RST:
        lro.modify(RqState.RDY)
        lro.post_more(7)
        send(hca, packet(2), packet(3))
        clock.advance(PERIOD_NS)
        assert counts(lro) == [2]


def test_a_queue_that_the_device_has_stopped(hca, clock, lro):
    """Its memory is gone: what is held for it goes as well."""
    send(hca, packet(0), packet(1))
    hca.rqs.need(lro.rqn).state = RqState.ERR
    clock.advance(PERIOD_NS)
    assert counts(lro) == []
    assert not hca.sessions.packet_count


def test_a_queue_that_is_destroyed(hca, clock, driver, td, rq, rqns, steer):
    """An RQT has led to it, and leads to another one now."""
    rqtn = create_rqt(driver, [rq.rqn])
    steer(create_indirect_tir(driver, td, rqtn, **rss(), **LRO))
    send(hca, packet(0), packet(1))
    before = rq.region.read(rq.headroom, 4096)
    modify_rqt(driver, rqtn, rqns[:1])
    driver.must(Op.DESTROY_RQ, rqn=rq.rqn)
    assert not hca.sessions.packet_count
    clock.advance(PERIOD_NS)
    assert rq.region.read(rq.headroom, 4096) == before


def test_a_tir_that_is_destroyed(hca, driver, rq, td, steer):
    """It is about what comes after it."""
    tirn = create_direct_tir(driver, td, rq.rqn, **LRO)
    steer(tirn)
    send(hca, packet(0), packet(1))
    steer(create_direct_tir(driver, td, rq.rqn))
    driver.must(Op.DESTROY_TIR, tirn=tirn)
    assert counts(rq) == [2]


def test_a_tir_that_changes(hca, clock, driver, lro):
    """What is held was received as the TIR was: it comes before anything else."""
    send(hca, packet(0), packet(1))
    driver.must(
        Op.MODIFY_TIR, tirn=lro.tirn, bitmask={"packet_merge": 1}, ctx={"packet_merge_mask": 0}
    )
    send(hca, packet(2), packet(3))
    assert counts(lro) == [2, 1, 1]


def test_teardown_ends_all(hca, clock, driver, lro):
    send(hca, packet(0), packet(1))
    before = lro.region.read(lro.headroom, 4096)
    driver.must(Op.TEARDOWN_HCA, profile=1)
    assert not hca.sessions.open
    assert lro.region.read(lro.headroom, 4096) == before
    assert not clock.waiting()


def test_room_for_what_is_held(hca, clock, lro):
    """A link lets its peer wait by it: nothing is dropped for want of requests."""
    mtu = hca.nic_vport.oper_mtu
    before = lro.object.frames(mtu)
    send(hca, packet(0), packet(1))
    assert lro.object.frames(mtu) < before - 2
    clock.advance(PERIOD_NS)
    counted, sent = lro.object.frames(mtu), 0
    while lro.object.frames(mtu):
        # The end of a request is too short for every second of these.
        send(
            hca,
            packet(sent, port=sent // 23, flags=PSH | ACK if sent % 23 == 22 else ACK, size=1442),
        )
        sent += 1
        clock.budget.begin()
    assert sent >= counted * 3 // 4
    clock.advance(PERIOD_NS)
    assert sum(counts(lro)) == sent + 2


@pytest.mark.hostile
def test_no_more_streams_than_there_is_room_for(hca, clock, lro):
    send(hca, *(packet(0, port=n) for n in range(MAX_SESSIONS * 2)))
    assert len(hca.sessions.open) == MAX_SESSIONS
    assert len(counts(lro)) == MAX_SESSIONS
    clock.advance(PERIOD_NS)
    assert len(counts(lro)) == MAX_SESSIONS


@pytest.mark.hostile
def test_no_more_packets_than_there_is_room_for(hca, clock, node, lro):
    """The oldest stream goes first."""
    for number in range(100):
        send(hca, *(packet(number, port=port, size=64) for port in range(8)))
        assert hca.sessions.packet_count <= MAX_HELD
        node.settle()
    clock.advance(PERIOD_NS)
    assert sum(counts(lro)) == 800


@pytest.mark.hostile
def test_what_is_due_at_once_goes_in_several_rounds(hca, clock, node, lead):
    rq = SplitQueue(node, log_size=3, log_count=9, log_reservation=16, log_packets=6,
                    log_entries=9, timeout=32, cq=CompletionQueue(node, log_size=10))  # fmt: skip
    lead(rq.rqn)
    rq.post_more(7)
    for number in range(7):
        send(hca, *(packet(number, port=port, size=64) for port in range(60)))
        node.settle()
    clock.ns += PERIOD_NS
    clock.budget.begin()
    clock.budget.charge(POLL_BUDGET - 600)
    hca.sessions.timer.callback()
    assert 0 < hca.sessions.packet_count < 420
    assert clock.budget.steps < POLL_BUDGET + 100
    clock.advance(PERIOD_NS)
    assert not hca.sessions.packet_count
    assert len([piece for piece in rq.pieces() if not piece.is_filler]) == 420


def test_queues_that_split_headers_match_in_a_row(hca, clock, node, lead):
    """Two streams by turns: one behind the other, so that the driver can merge each."""
    rq = SplitQueue(node, log_size=3, log_count=9, log_reservation=16, log_packets=6, timeout=32)
    lead(rq.rqn)
    rq.post_more(7)
    send(hca, *(packet(n, port=port) for n in range(3) for port in range(2)))
    clock.advance(PERIOD_NS)
    assert [piece.match for piece in rq.pieces()] == [False, True, True] * 2


def test_a_padded_frame_does_not_match(hca, clock, node, lead):
    """Bytes behind the IP packet are no payload, however long the frame is."""
    rq = SplitQueue(node, log_size=3, log_count=9, log_reservation=16, log_packets=6, timeout=32)
    lead(rq.rqn)
    rq.post_more(7)
    send(hca, packet(0), packet(1) + bytes(20), packet(2))
    clock.advance(PERIOD_NS)
    assert [piece.match for piece in rq.pieces()] == [False] * 3
