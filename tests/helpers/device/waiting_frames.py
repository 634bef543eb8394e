"""Ethernet queues and frames in every state in which they wait (``helpers.device.waiting``)."""

from __future__ import annotations

from emu.device.engine import pulses
from emu.device.objects.pins import PinMode
from emu.driver.command.words import pack64
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import HairpinPair
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    create_tis,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.sniffer import Sniffer
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.keys import umr
from helpers.device.waiting import case, in_a_round_that_is_over
from layouts.enums.cmd import Op
from layouts.enums.cq import CqPeriodMode
from layouts.enums.wq import RqState, SqState
from layouts.enums.wqe import Opcode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import wqe_umr_ctrl_seg

MSS, PACKETS = 1000, 20
MERGED = {"packet_merge_mask": 3, "lro_max_ip_payload_size": 16}
"""Four packets become one."""
BEGUN = PACKETS * 4 + 40
"""Steps of a round that a large send takes, and a few of its packets at their queue."""
SHORT = 1000


def sender(node, **options):
    return SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)), **options)


def broadcast(node, size=SHORT):
    """A frame in memory; the segment that names it."""
    region = node.region(4096)
    region.write(b"\xff" * 6 + node.mac + b"\x08\x00")
    return region.sge(0, size)


def lead(node, *rqs, **context):
    """All frames go to each of the queues."""
    driver, td = node.driver, alloc_td(node.driver)
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirs = [to_tir(create_direct_tir(driver, td, rq.rqn, **context)) for rq in rqs]
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs)


def posted(node, count=8):
    """A queue with a request for each packet."""
    rq = ReceiveQueue(node)
    region = node.region(2048 * count)
    for number in range(count):
        rq.post(region.sge(2048 * number, 2048))
    return rq


def striding(node, **options):
    """Two requests of 64 KiB; LRO merges into them."""
    rq = StridingQueue(node, log_size=2, log_count=6, log_stride_size=10, **options)
    rq.post_more(2)
    return rq


def send_large(sq):
    """A TCP stream of many packets, by one request."""
    node = sq.node
    header = b"\xff" * 6 + node.mac + EthPacket(payload=b"").frame()[12:]
    payload = node.region(MSS * PACKETS)
    sq.send(payload.sge(), opcode=Opcode.LSO, mss=MSS, headers=header)


# -- links, states, turns


@case
def frames_of_an_interface_on_a_link(world):
    world.segment().linked(delay="50ms")
    for node in world.nodes:
        ReceiveQueue(node)
        sender(node).send(broadcast(node))
    world.settle()


@case
def ethernet_queues_in_error(world):
    world.segment()
    for node in world.nodes:
        sq = sender(node)
        sq.modify(SqState.ERR)
        ReceiveQueue(node).modify(RqState.ERR)
    world.settle()


@case
def ethernet_queue_that_had_no_turn_yet(world):
    world.segment()
    for node in world.nodes:
        sender(node).nop()


@case
def packet_in_a_hairpin(world):
    """Its send queue is not there yet."""
    world.segment()
    pair = HairpinPair(world.right.driver, world.right.driver)
    pair.stop_sending()
    lead(world.right, pair)
    sender(world.left).send(broadcast(world.left))
    world.settle()
    assert len(world.right.hca.rqs.need(pair.rqn).hairpin) == 1


@case
def stream_of_an_interface_on_a_link(world):
    world.segment().linked(delay="50ms")
    lead(world.right, striding(world.right), **MERGED)
    send_large(sender(world.left))
    world.settle()


@case
def striding_queue_in_use(world):
    world.segment()
    queues = [striding(node) for node in world.nodes]
    for node, rq in zip(world.nodes, queues):
        lead(node, rq)
        sender(node).send(broadcast(node))
    world.settle()
    assert all(rq.object.strides.used for rq in queues)


@case
def striding_queues_in_error(world):
    striding_queue_in_use(world)
    for node in world.nodes:
        for rq in node.hca.rqs:
            node.driver.must(
                Op.MODIFY_RQ, rqn=rq.handle, rq_state=RqState.RDY, ctx={"state": RqState.ERR}
            )
    world.settle()
    assert all(rq.timer is not None for node in world.nodes for rq in node.hca.rqs)


@case
def striding_queues_in_error_and_seldom_looked_at(world):
    striding_queues_in_error(world)
    for _ in range(12):
        world.clock.advance(1_000_000_000)
        world.settle()


@case
def map_of_a_receive_request_that_had_no_turn_yet(world):
    """An internal send queue with a UMR (core/en_rx.c: mlx5e_alloc_rx_mpwqe)."""
    world.segment()
    for node in world.nodes:
        key = umr.FastRegKey(node)
        pages = pack64(node.memory.pages(4096)).ljust(64, b"\0")
        ctrl = wqe_umr_ctrl_seg.new(flags=umr.INLINE, xlt_octowords=4, mkey_mask=umr.FREE)
        body = bytes(ctrl.buf) + bytes(mkc.new().buf) + pages
        SendQueue(node, reg_umr=1).post(Opcode.UMR, body, imm=key.key)


@case
def event_that_each_entry_of_a_cq_holds_back_anew(world):
    """A period that begins with each entry, and whose timer has found a newer one."""
    world.segment()
    queues = []
    for node in world.nodes:
        cq = node.completion_queue(
            cq_period=4000, cq_max_count=50, cq_period_mode=CqPeriodMode.START_FROM_CQE
        )
        queues.append(sender(node, cq=cq))
        cq.arm()
    for _ in range(2):
        for sq in queues:
            sq.nop()
        world.settle()
        world.clock.advance(3_000_000)
    assert all(
        cq.moderation.timer is not None
        for node in world.nodes for cq in node.hca.cqs if cq.moderation is not None
    )  # fmt: skip


# -- the next round


@case
def frame_for_the_next_round(world):
    world.segment()
    ReceiveQueue(world.right)
    sender(world.left).send(broadcast(world.left))
    in_a_round_that_is_over(world)


@case
def frames_of_one_request_for_the_next_round(world):
    world.segment()
    lead(world.right, posted(world.right))
    frame = broadcast(world.left, 60)
    sender(world.left).send(*[frame] * 8, opcode=Opcode.ENHANCED_MPSW)
    in_a_round_that_is_over(world, most=20)


@case
def frame_that_some_queues_have_got(world):
    world.segment()
    rqs = [posted(world.right) for _ in range(4)]
    lead(world.right, *rqs)
    sender(world.left).send(broadcast(world.left))
    in_a_round_that_is_over(world, most=16)
    assert 0 < sum(len(rq.cq.drain()) for rq in rqs) < 4


@case
def copies_for_a_sniffer(world):
    world.segment()
    for node in world.nodes:
        Sniffer(node)
    sender(world.left).send(broadcast(world.left))
    in_a_round_that_is_over(world)
    assert len(world.left.hca.backlogs.sniffed)


def _half_received(kind, **context):
    """A super-frame some of whose packets have come to a queue."""

    def make(world):
        world.segment()
        rq = kind(world.right)
        lead(world.right, rq, **context)
        send_large(sender(world.left))
        in_a_round_that_is_over(world, BEGUN)
        assert rq.cq.peek() is not None

    what = "merged" if context else "single"
    make.__name__ = f"{what}_packets_of_half_a_stream_in_a_{kind.__name__}_queue"
    return case(make)


_half_received(posted)
_half_received(striding)
_half_received(striding, **MERGED)


@case
def half_a_stream_for_one_queue_of_a_table(world):
    world.segment()
    node = world.right
    rqtn = create_rqt(node.driver, [posted(node).rqn])
    flows = Flows(node.driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_indirect_tir(node.driver, alloc_td(node.driver), rqtn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    send_large(sender(world.left))
    in_a_round_that_is_over(world, BEGUN)


# -- the clock


@case
def pulse_that_goes_out_later(world):
    for node in world.segment().nodes:
        pin = node.hca.pins[1]
        pin.is_on, pin.mode = True, PinMode.OUT
        pin.time_stamp = node.hca.clock.now_ns() + 3_000_000_000
        pulses.pin_changed(node.hca, pin)


@case
def send_queue_that_waits_for_its_time(world):
    for node in world.segment().nodes:
        node.driver.must(Op.SET_PP_RATE_LIMIT, rate_limit_index=1, ctx={"rate_limit": 1})
        sq = sender(node, packet_pacing_rate_limit_index=1)
        for _ in range(3):
            sq.send(broadcast(node))
    world.settle()
