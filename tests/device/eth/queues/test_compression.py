"""Compressed completions: sessions, mini CQEs, holes, owners (core/en_rx.c, DPDK's mlx5_rx.c)."""

from functools import partial
from typing import Any

import pytest
from helpers.device.eth_nodes import node_alone
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.driver.ethernet.compressed_queue import VALIDITY, CompressedQueue
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    create_tis,
    rss,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.nodes.roce import on_one_segment
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.cq import CompressionLayout
from layouts.enums.cqe import CqeFormat, CqeOpcode, MiniCqeFormat
from layouts.enums.eqe import EventType
from layouts.enums.wq import RqState
from layouts.rings.cqe import cqe64
from layouts.rings.mini_cqe import mini_cqe_csum

HASH, CSUM, FTAG, STRIDX, L34H = MiniCqeFormat
BASIC, ENHANCED = CompressionLayout
UNUSED = bytes(63) + b"\xf1"
TAGS = (0, 0x10203, 0xFFFFFE)
ALL = pytest.mark.parametrize("form", list(MiniCqeFormat), ids=lambda form: form.name)
BOTH = pytest.mark.parametrize("layout", list(CompressionLayout), ids=lambda layout: layout.name)


MODEL = "connectx6dx"


@pytest.fixture
def base_model():
    return LINKS[MODEL][PortType.ETH]


class Batch:
    """What comes together, as from one turn of a sender or one reading of a socket."""

    def __init__(self, hca):
        self.budget = hca.budget

    def __enter__(self):
        self.budget.is_gathering = True

    def __exit__(self, *_):
        self.budget.release()


@pytest.fixture
def batch(hca):
    return lambda: Batch(hca)


def lead_to(driver, *rqns):
    """Lead all packets to each of some queues; the flow's tag is of its destination port."""
    flows, td = Flows(driver), alloc_td(driver)
    table = flows.table(0, log_size=3)
    flows.set_root(table)
    targets = [
        to_tir(create_indirect_tir(driver, td, create_rqt(driver, [rqn]), **rss())) for rqn in rqns
    ]
    by_port = flows.group(table, 0, 2, ip_protocol=0xFF, udp_dport=0xFFFF)
    for index, tag in enumerate(TAGS[1:]):
        values = {"ip_protocol": UDP, "udp_dport": 81 + index}
        flows.entry(table, index, by_port, *targets, tag=tag, **values)
    flows.entry(table, 7, flows.group(table, 7, 7), *targets)


@pytest.fixture
def lead(driver):
    return partial(lead_to, driver)


def make_queue(node, form, layout=BASIC, log_size=6, cqe_sz=0, **options):
    """A receive queue with a request for each packet, and 2 KiB of memory for all of them."""
    cq = CompressedQueue(node, log_size, form=form, layout=layout, cqe_sz=cqe_sz)
    rq = ReceiveQueue(node, cq=cq, log_size=7, log_stride=4, **options)
    region = node.region(2048)
    for _ in range(128):
        rq.post(region.sge(0, 2048), update_record=False)
    rq.write_record()
    return rq


def frame(size=60, port=80, **parts):
    parts = {"protocol": UDP, "ports": (1000 << 16 | port).to_bytes(4, "big")} | parts
    return Frame(EthPacket(payload=bytes(size - 42), **parts).frame())


def slots(cq, count):
    return [cq.entry(index) for index in range(count)]


# The layouts, byte by byte.


@pytest.mark.parametrize("cqe_sz", [0, 1, 2], ids=["narrow", "wide", "padded"])
def test_basic_layout(hca, node, lead, batch, cqe_sz):
    """A title, eight mini CQEs behind it, the rest eight behind the title; holes as they were."""
    rq = make_queue(node, CSUM, cqe_sz=cqe_sz)
    lead(rq.rqn)
    with batch():
        for size in range(60, 71):
            arrive(hca, frame(size))
        assert slots(rq.cq, 11) == [UNUSED] * 11
    title, first, *holes = slots(rq.cq, 12)
    second = holes.pop(6)
    assert holes == [UNUSED] * 9
    assert cqe64.view(title).byte_cnt == 11
    assert title[63] == CqeOpcode.RESP_SEND << 4 | CqeFormat.COMPRESSED << 2
    minis = [mini_cqe_csum.view(first, at) for at in range(0, 64, 8)]
    minis += [mini_cqe_csum.view(second, at) for at in range(0, 24, 8)]
    assert [mini.byte_cnt for mini in minis] == list(range(60, 71))
    assert second[24:] == bytes(40)
    assert cqe64.view(title).check_sum == minis[0].checksum
    assert (len(rq.cq.drain()), rq.cq.sessions, rq.cq.compressed) == (11, 1, 11)


@pytest.mark.parametrize("cqe_sz", [0, 1], ids=["narrow", "wide"])
def test_enhanced_layout(hca, node, lead, batch, cqe_sz):
    """A plain title, blocks of seven and three; the entries that these take are of this lap."""
    rq = make_queue(node, CSUM, ENHANCED, cqe_sz=cqe_sz)
    lead(rq.rqn)
    with batch():
        for size in range(60, 71):
            arrive(hca, frame(size))
    found = slots(rq.cq, 12)
    assert [entry[VALIDITY] for entry in found] == [0] * 11 + [0xFF]
    assert found[0][63] == CqeOpcode.RESP_SEND << 4
    assert cqe64.view(found[0]).byte_cnt == 60
    assert [found[at][63] for at in (1, 8)] == [6 << 4 | 3 << 2, 2 << 4 | 3 << 2]
    assert [found[at][56:62] for at in (1, 8)] == [bytes(6)] * 2
    sizes = [mini_cqe_csum.view(found[1], at).byte_cnt for at in range(0, 56, 8)]
    sizes += [mini_cqe_csum.view(found[8], at).byte_cnt for at in range(0, 24, 8)]
    assert sizes == list(range(61, 71))
    assert (len(rq.cq.drain()), rq.cq.sessions, rq.cq.compressed) == (11, 1, 10)


def test_every_completion_of_the_enhanced_layout_counts_laps(hca, node, lead):
    """Plain ones, too, and errors; of a queue that is not compressed as well."""
    cq = node.completion_queue(2, cqe_compression_layout=ENHANCED)
    rq = ReceiveQueue(node, cq=cq, log_size=6, log_stride=4)
    lead(rq.rqn)
    region = node.region(2048)
    for lap in range(0x103):
        for _ in range(4):
            rq.post(region.sge(0, 2048))
            arrive(hca, frame())
        node.settle()  # the round ends
        laps = {(entry[VALIDITY], entry[63]) for entry in slots(cq, 4)}
        assert laps == {(lap & 0xFF, CqeOpcode.RESP_SEND << 4 | lap & 1)}
        cq.drain()
    rq.post(region.sge(0, 2048))
    rq.modify(RqState.ERR)
    node.settle()
    assert cq.entry(0)[62:] == bytes((0x103 & 0xFF, CqeOpcode.RESP_ERR << 4 | 1))


@BOTH
def test_one_packet_alone_is_not_compressed(hca, node, lead, batch, layout):
    rq = make_queue(node, CSUM, layout)
    lead(rq.rqn)
    for _ in range(3):
        with batch():
            arrive(hca, frame())
    assert [entry[63] for entry in slots(rq.cq, 3)] == [CqeOpcode.RESP_SEND << 4] * 3
    assert (len(rq.cq.drain()), rq.cq.sessions) == (3, 0)


@BOTH
def test_what_does_not_come_together_is_not_compressed(hca, node, lead, layout):
    rq = make_queue(node, CSUM, layout)
    lead(rq.rqn)
    for number in range(3):
        arrive(hca, frame())
        assert len(rq.cq.drain()) == 1, number
    assert rq.cq.sessions == 0


@pytest.mark.parametrize(
    ("limits", "layout", "count"),
    [({}, BASIC, 1), ({}, ENHANCED, 1), ({"cqe_compression_max_num": 16}, BASIC, 4)],
)
def test_longest_session(hca, node, lead, batch, layout, count):
    rq = make_queue(node, CSUM, layout)
    lead(rq.rqn)
    with batch():
        for _ in range(64):
            arrive(hca, frame())
    assert (len(rq.cq.drain()), rq.cq.sessions) == (64, count)


@BOTH
@pytest.mark.parametrize("first", [60, 61, 62, 63])
def test_no_session_goes_over_the_end_of_the_ring(hca, node, lead, batch, layout, first):
    """DPDK's vectorized functions look at what follows without a look at the ring's size."""
    rq = make_queue(node, STRIDX, layout)
    lead(rq.rqn)
    for _ in range(first):
        arrive(hca, frame())
    rq.cq.drain()
    with batch():
        for size in range(60, 70):
            arrive(hca, frame(size))
    now = [rq.cq.entry(index) for index in range(first, 64)]
    if layout is BASIC:
        if first < 63:
            assert cqe64.view(now[0]).byte_cnt == 64 - first
        assert cqe64.view(rq.cq.entry(64)).byte_cnt == 10 - (64 - first)
    else:
        assert rq.cq.entry(64)[63] >> 2 & 3 != CqeFormat.COMPRESSED or first == 63
        assert {entry[VALIDITY] for entry in now} == {0}
    assert [found.byte_cnt for found in rq.cq.drain()] == list(range(60, 70))


def test_title_is_written_last(hca, node, lead, batch):
    """A driver that sees the title's owner bit sees all of the session."""
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    written = []

    def look(address, length, is_write):
        if is_write:
            written.append((address, length))

    with batch():
        for _ in range(20):
            arrive(hca, frame())
        node.memory.watch(look)
    base = rq.cq.pages[0]
    assert written == [
        (base + 64, 64), (base + 8 * 64, 64), (base + 16 * 64, 64), (base, 63), (base + 63, 1),
    ]  # fmt: skip


# What ends a session.


def end_by(name):
    """Two packets that differ in one thing, which ends a session except in some formats."""
    plain = frame()
    other = {
        "size": frame(61),
        "flow": frame(ports=(1001 << 16 | 80).to_bytes(4, "big")),
        "tag": frame(port=81),
        "protocol": frame(protocol=TCP, size=72),
        "version": frame(
            version=6, source=bytes(15) + b"\1", destination=bytes(15) + b"\2", chain=UDP
        ),
        "vlan": frame(tags=((0x8100, 5),)),
        "checksum": Frame(plain.data[:40] + b"\xbe\xef" + plain.data[42:]),
        "congestion": frame(tos=3),
        "no ip": Frame(MACS + b"\x08\x06" + bytes(46)),
    }[name]
    return plain, other


SPARES = {
    "size": set(MiniCqeFormat), "flow": set(MiniCqeFormat), "tag": {FTAG},
    "protocol": {L34H}, "version": {L34H},
}  # fmt: skip


@ALL
@BOTH
@pytest.mark.parametrize(
    "name",
    ["size", "flow", "tag", "protocol", "version", "vlan", "checksum", "congestion", "no ip"],
)
def test_what_the_title_says_holds_for_all(hca, node, lead, batch, form, layout, name):
    rq = make_queue(node, form, layout, vsd=0)
    lead(rq.rqn)
    plain, other = end_by(name)
    with batch():
        for one in (plain, plain, other, other):
            arrive(hca, one)
    assert len(rq.cq.drain()) == 4
    assert rq.cq.sessions == (1 if form in SPARES.get(name, ()) else 2)


def test_error_ends_a_session(hca, node, lead, batch):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
        rq.object.queue._fetched.clear()
        rq.object.queue._consumed = 128
        rq.post((2048, 0x1234500, 0))
        arrive(hca, frame())
        # It is written at once, and nothing before it waits any longer.
        assert [rq.cq.poll().opcode for _ in range(4)] == [CqeOpcode.RESP_SEND] * 3 + [
            CqeOpcode.RESP_ERR
        ]
    assert rq.cq.sessions == 1
    assert rq.query().state == RqState.ERR


@BOTH
def test_striding_queue(hca, node, lead, batch, layout):
    """A session has one request: of wqe_id, the title speaks for all. Fillers are plain."""
    rq = StridingQueue(node, cq=CompressedQueue(node, form=STRIDX, layout=layout), log_size=3)
    lead(rq.rqn)
    rq.post_more(5)
    wanted = [frame(size) for size in (60, 130, 64, 100, 200, 100, 60, 60, 500, 60)]
    # Strides: 1 3 1 2, a filler of 1; 4 2 1 1; 8; 1.
    with batch():
        for one in wanted:
            arrive(hca, one)
    pieces = rq.drain()
    assert [piece.data for piece in pieces if not piece.is_filler] == [one.data for one in wanted]
    fillers = [(piece.wqe_id, piece.strides) for piece in pieces if piece.is_filler]
    assert fillers == [(0, 1)]
    completions: Any = rq.cq
    assert completions.sessions == 2


# Events.


@BOTH
def test_a_batch_is_one_event(hca, node, lead, batch, layout):
    rq = make_queue(node, CSUM, layout)
    lead(rq.rqn)
    rq.cq.arm()
    with batch():
        for _ in range(20):
            arrive(hca, frame())
        assert rq.cq.events() == 0
    assert rq.cq.events() == 1
    rq.cq.drain()
    rq.cq.arm()
    assert rq.cq.events() == 0
    with batch():
        arrive(hca, frame())
    assert rq.cq.events() == 1


def test_moderation_counts_packets(hca, node, lead, batch, driver):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    context = {"cq_period": 50, "cq_max_count": 12}
    driver.must(
        Op.MODIFY_CQ, cqn=rq.cq.cqn, modify_field_select_resize_field_select=3, cq_context=context
    )
    rq.cq.arm()
    for count, events in ((6, 0), (5, 0), (2, 1)):
        with batch():
            for _ in range(count):
                arrive(hca, frame())
        assert rq.cq.events() == events


def test_packets_of_a_large_send(hca, node, lead, batch):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    header = EthPacket(payload=b"x").header()
    whole = unsegmented(header, bytes(20 * 1000), 1000)
    with batch():
        arrive(hca, Frame(whole, 1000, checked=True))
    assert len(rq.cq.drain()) == 20
    assert (rq.cq.sessions, rq.cq.compressed) == (1, 20)


@BOTH
def test_what_a_turn_of_a_sender_sends(clock, layout):
    """Another function's queue: its turn is the share, and the driver is told at its end."""
    left, right = on_one_segment(clock)
    rq = make_queue(right, CSUM, layout)
    flows = Flows(right.driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(right.driver, alloc_td(right.driver), rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    rq.cq.arm()
    sq = SendQueue(left, tisn=create_tis(left.driver, alloc_td(left.driver)))
    region = left.region(64)
    region.write(b"\xff" * 6 + left.mac + b"\x08\x06" + bytes(46))
    for _ in range(20):
        sq.send(region.sge(0, 60), ring=False)
    sq.ring_doorbell()
    left.settle()
    assert rq.cq.events() == 1
    assert len(rq.cq.drain()) == 20
    assert rq.cq.sessions == 1


# Nothing is written later than it may be.


@pytest.mark.parametrize("state", [RqState.ERR, RqState.RST])
def test_state_changes_come_after_what_is_held(hca, node, lead, batch, state):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
        rq.modify(state)
        assert len([rq.cq.poll() for _ in range(3)]) == 3
        rest = slots(rq.cq, 64)
    if state is RqState.RST:
        assert slots(rq.cq, 64) == rest


def test_destroyed_queues_write_nothing(hca, node, lead, batch, driver, function):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
        hca.cqs.need(rq.cq.cqn).waiting *= 1
        held = rq.object.cq
        function.restart("test")
        before = slots(rq.cq, 64)
    assert slots(rq.cq, 64) == before == [UNUSED] * 64
    assert not held.waiting


def test_a_function_that_fails_writes_nothing(hca, node, lead, batch, caplog):
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
        try:
            raise RuntimeError("on purpose")
        except RuntimeError:
            hca.health.fail()
    assert slots(rq.cq, 64) == [UNUSED] * 64
    caplog.clear()


# A ring that is full, or gone.


@BOTH
def test_overrun(hca, node, lead, batch, layout):
    """What there is room for is written, then the queue breaks, as without compression."""
    rq = make_queue(node, CSUM, layout, log_size=4)
    lead(rq.rqn)
    with batch():
        for _ in range(18):
            arrive(hca, frame())
    node.settle()
    assert (EventType.CQ_ERROR, rq.cq.cqn) in node.events()
    assert len(rq.cq.drain()) == 16
    assert rq.query().state == RqState.ERR
    assert hca.cqes.overruns == 1


@BOTH
def test_room_that_the_driver_has_made(hca, node, lead, batch, layout):
    rq = make_queue(node, CSUM, layout, log_size=4)
    lead(rq.rqn)
    for _ in range(5):
        with batch():
            for _ in range(16):
                arrive(hca, frame())
        assert len(rq.cq.drain()) == 16
    assert hca.cqes.overruns == 0


@BOTH
def test_a_page_that_is_gone(hca, node, lead, batch, layout):
    rq = make_queue(node, CSUM, layout, log_size=7)
    lead(rq.rqn)
    for _ in range(60):
        arrive(hca, frame())
    rq.cq.drain()
    node.memory.revoke(rq.cq.pages[1])
    with batch():
        for _ in range(10):
            arrive(hca, frame())
    node.settle()
    assert any(event[0] == EventType.CQ_ERROR for event in node.events())
    assert rq.query().state == RqState.ERR


# Who may compress, and who does not.


@pytest.mark.parametrize("limits", [{"cqe_compression": 0}])
def test_an_adapter_that_cannot(hca, node, lead, batch):
    """DPDK's driver allows it without asking."""
    rq = make_queue(node, CSUM)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
    assert (len(rq.cq.drain()), rq.cq.sessions) == (3, 0)


@pytest.mark.parametrize(
    ("limits", "form", "cqe_sz"),
    [
        ({"mini_cqe_resp_stride_index": 0}, STRIDX, 0),
        ({"mini_cqe_resp_flow_tag": 0}, FTAG, 0),
        ({"mini_cqe_resp_l3_l4_tag": 0}, L34H, 0),
        ({"cqe_compression_128": 0}, CSUM, 1),
    ],
)
def test_a_form_that_the_adapter_has_not(hca, node, lead, batch, form, cqe_sz):
    rq = make_queue(node, form, cqe_sz=cqe_sz)
    lead(rq.rqn)
    with batch():
        for _ in range(3):
            arrive(hca, frame())
    assert (len(rq.cq.drain()), rq.cq.sessions) == (3, 0)


@pytest.mark.parametrize(
    ("limits", "layout"), [({}, 2), ({}, 3), ({"enhanced_cqe_compression": 0}, ENHANCED)]
)
def test_layouts_that_there_are_not(driver, refused, layout):
    fields = driver.cq_fields(driver.create_eq(), cqe_comp_en=1, cqe_compression_layout=layout)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **fields)


@pytest.mark.parametrize("ext", [2, 3])
def test_unknown_forms_are_not_compressed(driver, function, ext):
    cqn = driver.create_cq(driver.create_eq(), cqe_comp_en=1, mini_cqe_res_format_ext=ext)
    assert function.hca.cqs.need(cqn).compression is None


# Against the same traffic without compression.

packets = st.builds(
    frame,
    st.integers(60, 400),
    st.sampled_from([80, 80, 80, 81, 82]),
    tos=st.sampled_from([0, 0, 0, 3]),
    protocol=st.sampled_from([UDP, UDP, TCP]),
    tags=st.sampled_from([(), (), ((0x8100, 7),)]),
).filter(lambda one: len(one.data) <= 512)
steps = st.lists(st.lists(packets, min_size=1, max_size=20), min_size=1, max_size=12)
LOST = {
    HASH: ("check_sum",),
    CSUM: ("rss_hash_result", "rss_hash_type"),
    STRIDX: ("rss_hash_result", "rss_hash_type"),
    FTAG: ("rss_hash_result", "rss_hash_type", "check_sum"),
    L34H: ("rss_hash_result", "rss_hash_type", "check_sum"),
}
"""What a format does not tell of each packet."""


def told(raw, form):
    fields = cqe64.view(raw).as_dict()
    for name in (*LOST[form], "timestamp_h", "timestamp_l", "signature", "op_own"):
        del fields[name]
    return fields, raw[63] >> 4


@settings(deadline=None)
@given(
    steps=steps, form=st.sampled_from(MiniCqeFormat), layout=st.sampled_from(CompressionLayout),
    is_striding=st.booleans(), log_size=st.sampled_from([5, 6]),
)  # fmt: skip
def test_any_traffic_is_told_as_without(steps, form, layout, is_striding, log_size):
    """Each packet goes to two queues, of which one is compressed."""
    node = node_alone(MODEL)
    twins = []
    for cq in (CompressedQueue(node, log_size, form=form, layout=layout),
               node.completion_queue(log_size)):  # fmt: skip
        if is_striding:
            rq = StridingQueue(node, cq=cq, log_size=4, log_count=4, vsd=0)
            rq.post_more(15)
        else:
            rq = ReceiveQueue(node, cq=cq, log_size=6, log_stride=4, vsd=0)
        twins.append(rq)
    lead_to(node.driver, *(rq.rqn for rq in twins))
    region = node.region(2048)
    for step in steps:
        if not is_striding:
            for rq in twins:
                for _ in step:
                    rq.post(region.sge(0, 2048))
        before = slots(twins[0].cq, 1 << log_size), twins[0].cq.ci
        with Batch(node.hca):
            for one in step:
                arrive(node.hca, one)
        _check_ring(twins[0].cq, *before)
        found = [_all(rq.cq) for rq in twins]
        assert len(found[0]) == len(found[1])
        for zipped, plain in zip(*found):
            assert told(zipped, form) == told(plain, form)
        node.settle()  # the round ends
    for rq in twins:
        driver = node.driver
        assert driver.must(Op.QUERY_RQ, rqn=rq.rqn).rq_context.state == RqState.RDY


def _all(cq):
    found = []
    while (raw := cq.peek()) is not None:
        found.append(raw)
        cq.poll()
    return found


def _check_ring(cq, before, first):
    """Which entries of the ring have been written, by a plain reading of the two layouts."""
    size, at = len(before), first
    while True:
        raw, lap = cq.entry(at), at // size
        if cq.layout is ENHANCED:
            if raw[VALIDITY] != lap & 0xFF or raw == before[at % size]:
                return
            count = (raw[63] >> 4) + 1 if raw[63] >> 2 & 3 == 3 else 1
            assert {cq.entry(at + n)[VALIDITY] for n in range(count)} == {lap & 0xFF}
            assert 1 <= count <= 7
        else:
            if raw[63] >> 4 == CqeOpcode.INVALID or raw[63] & 1 != lap & 1:
                return
            is_title = raw[63] >> 2 & 3 == 3
            count = cqe64.view(raw).byte_cnt if is_title else 1
            arrays = {0, 1, *range(8, count, 8)} if is_title else {0}
            assert count >= 2 or not is_title
            for behind in set(range(count)) - arrays:
                assert cq.entry(at + behind) == before[(at + behind) % size]
        assert at % size + count <= size
        at += count
