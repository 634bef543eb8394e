"""Packets that a queue with LRO or data merging gets alone, and at once."""

import pytest
from helpers.device.lro import LRO, PERIOD_NS

from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import set_field, to_tir
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.split_queue import SplitQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.modify_header import ModifyField
from layouts.enums.wq import RqState

ACK, FIN = 0x10, 0x01
SIZE = 1000
V6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


@pytest.fixture
def base_model():
    return LINKS["connectx7"][PortType.ETH]


@pytest.fixture
def lead(driver, td, flows):
    """Send all frames to a TIR that is made for a queue; ``actions`` are those of the entry."""

    def to(rqn, actions=None, **context):
        table = flows.table(0, log_size=0)
        tir = to_tir(create_direct_tir(driver, td, rqn, **LRO | context))
        flows.entry(table, 0, flows.group(table, 0, 0), tir, **actions or {})
        flows.set_root(table)

    return to


@pytest.fixture
def make_queue(node):
    def make(**options):
        rq = StridingQueue(node, log_size=3, log_count=9, log_stride_size=8, **options)
        rq.post_more(7)
        return rq

    return make


@pytest.fixture
def lro(make_queue, lead):
    rq = make_queue()
    lead(rq.rqn)
    return rq


@pytest.fixture
def split(node):
    rq = SplitQueue(node, log_size=3, log_count=9, log_reservation=16, log_packets=6, timeout=32)
    rq.post_more(7)
    return rq


def packet(number, port=0, flags=ACK, **parts):
    return EthPacket(
        ports=bytes((4, port, 0, 80)), sequence=1000 + number * SIZE, flags=flags,
        identifier=number, payload=bytes(SIZE), **parts,
    ).frame()  # fmt: skip


def send(hca, *frames):
    for data in frames:
        arrive(hca, Frame(data))


def segments(rq):
    """lro_num_seg of each completion: 0 for a packet that was not merged."""
    return [piece.entry.srqn >> 24 for piece in rq.drain() if not piece.is_filler]


def test_packets_that_a_table_changes(hca, flows, split, lead):
    lead(split.rqn, {"modify": flows.context(set_field(ModifyField.OUT_IP_TTL, 9, length=8))})
    send(hca, packet(0), packet(1))
    assert len(split.pieces()) == 2


def test_packets_with_metadata_of_the_switch(hca, lro):
    for number in range(2):
        arrive(hca, Frame(packet(number), registers={int(ModifyField.METADATA_REG_C_0): 7}))
    assert segments(lro) == [0, 0]


def test_packets_with_their_frame_check_sequence(hca, make_queue, lead):
    rq = make_queue(scatter_fcs=1)
    lead(rq.rqn)
    send(hca, packet(0), packet(1))
    assert segments(rq) == [0, 0]


def test_packets_of_another_version(hca, make_queue, lead):
    rq = make_queue()
    lead(rq.rqn, packet_merge_mask=1)  # IPv4
    send(hca, packet(0, **V6), packet(1, **V6))
    assert segments(rq) == [0, 0]


def test_a_queue_without_strides(hca, node, lead):
    rq = ReceiveQueue(node)
    buffers = Buffers(rq)
    lead(rq.rqn)
    send(hca, packet(0), packet(1))
    assert [entry.srqn >> 24 for entry, _ in buffers.drain()] == [0, 0]


def test_a_queue_in_error_holds_none(hca, clock, lro):
    hca.rqs.need(lro.rqn).state = RqState.ERR
    send(hca, packet(0), packet(1))
    assert not hca.sessions.packet_count
    assert not clock.waiting()


def test_a_fragment_lets_the_others_go(hca, clock, lro):
    """Without ports its stream is unknown, so it comes behind all."""
    send(hca, packet(0), packet(1), packet(0, fragment=0x2000))
    assert segments(lro) == [2, 0]


def test_a_packet_that_was_held_in_vain(hca, clock, lro):
    send(hca, packet(0))
    clock.advance(PERIOD_NS)
    assert segments(lro) == [0]


def test_a_later_stream_does_not_prolong_the_period(hca, clock, lro):
    send(hca, packet(0), packet(1))
    clock.advance(PERIOD_NS - 1000)
    send(hca, packet(0, port=1), packet(1, port=1))
    clock.advance(1000)
    assert segments(lro) == [2]
    clock.advance(PERIOD_NS)
    assert segments(lro) == [2]


def test_the_end_of_a_stream_is_merged_by_the_driver_only(hca, lro, split, lead):
    """LRO leaves a packet with FIN alone; header split tells the driver that it belongs."""
    frames = [packet(0), packet(1), packet(2, flags=ACK | FIN)]
    send(hca, *frames)
    assert segments(lro) == [2, 0]
    lead(split.rqn)
    send(hca, *frames)
    assert [piece.match for piece in split.pieces()] == [False, True, True]


def test_copies_that_wait_for_a_round(hca, node, driver, td, flows, make_queue):
    """The rest of the queues, which merge nothing."""
    queues = [make_queue() for _ in range(6)]
    table = flows.table(0, log_size=0)
    tirs = [to_tir(create_direct_tir(driver, td, rq.rqn)) for rq in queues]
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs)
    flows.set_root(table)
    hca.budget.steps = hca.budget.limit - 10
    send(hca, packet(0))
    at_once = sum(len(segments(rq)) for rq in queues)
    assert 0 < at_once < len(queues)
    node.settle()
    assert at_once + sum(len(segments(rq)) for rq in queues) == len(queues)
