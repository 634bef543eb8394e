"""Striding receive queues: strides, fillers, states (core/en_rx.c: mlx5e_handle_rx_cqe_mpwrq)."""

import pytest
from helpers.device.credits import credits_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.rings import rq_fields
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType
from layouts.enums.wq import RqState, WqType

ERR, RST, RDY = RqState.ERR, RqState.RST, RqState.RDY
BOTH_KINDS = pytest.mark.parametrize("is_cyclic", [False, True], ids=["linked", "cyclic"])


def frame_of(size, fill=1):
    return MACS + b"\x08\x06" + bytes(fill + n & 0xFF for n in range(size - 14))


@pytest.fixture
def make(node, driver, td, counter):
    """A striding queue to which all frames go."""

    def of(**options):
        queue = StridingQueue(node, counter_set_id=counter, **options)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirn = create_direct_tir(driver, td, queue.rqn)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
        return queue

    return of


def out_of_buffer(driver, counter):
    return driver.must(Op.QUERY_Q_COUNTER, counter_set_id=counter).out_of_buffer


def shown(pieces):
    return [(p.wqe_id, p.first, p.strides, p.is_filler) for p in pieces]


@BOTH_KINDS
def test_a_packet_takes_as_many_strides_as_it_needs(hca, make, is_cyclic):
    rq = make(is_cyclic=is_cyclic)
    rq.post_more()
    wanted = [frame_of(60), frame_of(65), frame_of(128), frame_of(190)]
    for data in wanted:
        arrive(hca, Frame(data))
    pieces = rq.drain()
    assert shown(pieces) == [(0, 0, 1, False), (0, 1, 2, False), (0, 3, 2, False),
                             (0, 5, 3, False)]  # fmt: skip
    assert [piece.data for piece in pieces] == wanted


def test_as_mlx5e_has_it_by_default(hca, make):
    """MTU 1500: 128 strides of 2 KiB, packets 64 bytes into their stride, never a filler."""
    rq = make(log_size=2, log_count=7, log_stride_size=11, headroom=64)
    rq.post_more(2)
    wanted = [EthPacket(payload=bytes([n]) * 1460).frame() for n in range(200)]
    for data in wanted:
        arrive(hca, Frame(data))
    pieces = rq.drain()
    assert [piece.data for piece in pieces] == wanted
    assert {(piece.strides, piece.is_filler) for piece in pieces} == {(1, False)}
    assert [piece.wqe_id for piece in pieces] == [0] * 128 + [1] * 72


@BOTH_KINDS
def test_what_is_too_short_for_a_packet_is_filled(hca, make, is_cyclic):
    rq = make(is_cyclic=is_cyclic)
    rq.post_more(2)
    for size in (64 * 5, 64 * 4):
        arrive(hca, Frame(frame_of(size)))
    pieces = rq.drain()
    assert shown(pieces) == [(0, 0, 5, False), (0, 5, 3, True), (1, 0, 4, False)]
    filler = pieces[1].entry
    assert (filler.op_own >> 4, filler.byte_cnt & 0xFFFF) == (CqeOpcode.RESP_SEND, 0)


def test_nothing_is_taken_without_a_next_request(hca, driver, counter, make):
    rq = make()
    rq.post_more()
    arrive(hca, Frame(frame_of(64 * 5)))
    arrive(hca, Frame(frame_of(64 * 4)))
    assert shown(rq.drain()) == [(0, 0, 5, False)]
    assert out_of_buffer(driver, counter) == 1
    arrive(hca, Frame(frame_of(64 * 3)))
    rq.post_more()
    arrive(hca, Frame(frame_of(64 * 4)))
    assert shown(rq.drain()) == [(0, 5, 3, False), (1, 0, 4, False)]


def test_no_request_at_all(hca, driver, counter, make):
    rq = make()
    arrive(hca, Frame(frame_of(60)))
    assert rq.drain() == []
    assert out_of_buffer(driver, counter) == 1


def test_a_packet_that_no_request_can_hold(hca, make):
    rq = make()
    rq.post_more()
    arrive(hca, Frame(frame_of(64 * 8 + 1)))
    assert rq.drain() == []
    assert hca.nic_vport.wqe_too_small == 1
    arrive(hca, Frame(frame_of(64 * 8)))
    assert shown(rq.drain()) == [(0, 0, 8, False)]


def test_the_most_strides_are_filled_by_one_completion(hca, make):
    """Less than the longest packet needs: no driver reads more than 0x3fff (DPDK)."""
    hca.eth.admin_mtu = 9022
    rq = make(log_size=1, log_count=16)
    rq.post_more(2)
    pieces, longest = [], frame_of(9000)
    while not pieces or pieces[-1].wqe_id == 0:
        arrive(hca, Frame(longest))
        pieces += rq.drain()
    *packets, filler, last = pieces
    assert {(one.strides, one.is_filler) for one in packets} == {(141, False)}
    assert (filler.first, filler.strides) == (464 * 141, 65536 - 464 * 141)
    assert filler.is_filler
    assert (last.wqe_id, last.first, last.data) == (1, 0, longest)


def test_two_byte_shift(hca, make):
    rq = make(is_shifted=True)
    rq.post_more()
    for size in (62, 63):
        arrive(hca, Frame(frame_of(size)))
    pieces = rq.drain()
    assert shown(pieces) == [(0, 0, 1, False), (0, 1, 2, False)]
    assert [len(piece.data) for piece in pieces] == [62, 63]
    assert [piece.data for piece in pieces] == [frame_of(62), frame_of(63)]


def test_links_are_followed(hca, make):
    """mlx5e appends a request that is free again to the list's end (wq.h: mlx5_wq_ll_pop)."""
    rq = make(log_size=2)
    for index, following in ((0, 2), (2, 1), (1, 3)):
        rq._write(index, following)
    rq.post_more(3)
    for _ in range(3):
        arrive(hca, Frame(frame_of(64 * 8)))
    assert [piece.wqe_id for piece in rq.drain()] == [0, 2, 1]


@pytest.mark.parametrize("state", [ERR, RST])
def test_a_stopped_queue_takes_nothing_more(hca, node, make, state):
    rq = make()
    rq.post_more(2)
    arrive(hca, Frame(frame_of(60)))
    rq.drain()
    before = rq.region.read()
    rq.modify(state)
    arrive(hca, Frame(frame_of(60, 9)))
    node.settle()
    assert rq.region.read() == before
    flushed = [(p.entry.op_own >> 4, p.wqe_id, p.strides) for p in rq.drain()]
    assert flushed == ([(CqeOpcode.RESP_ERR, 0, 0)] * 2 if state is ERR else [])


def test_again_from_the_beginning(hca, node, make):
    """ERR, RST, RDY: both sides count from 0, and the request in use is forgotten."""
    rq = make()
    rq.post_more(2)
    arrive(hca, Frame(frame_of(60)))
    for state in (ERR, RST, RDY):
        rq.drain()
        rq.modify(state)
        node.settle()
    rq.post_more()
    arrive(hca, Frame(frame_of(64 * 8)))
    assert shown(rq.drain()) == [(0, 0, 8, False)]


def test_a_key_that_is_gone(hca, driver, node, make):
    rq = make()
    rq.post_more(2)
    driver.must(Op.DESTROY_MKEY, mkey_index=rq.region.index)
    arrive(hca, Frame(frame_of(60)))
    node.settle()
    failed, flushed = rq.drain()
    assert failed.entry.op_own >> 4 == CqeOpcode.RESP_ERR
    assert failed.entry.wqe_counter == 0
    assert flushed.entry.wqe_counter == 1
    assert rq.query().state == ERR


def test_memory_shorter_than_the_strides(hca, node, make):
    """The request's segment says 512 bytes, the context 8 strides of 128: an error, no overrun."""
    rq = make(log_stride_size=7)
    rq.request_bytes //= 2
    rq._write(0, 1)
    rq.post_more()
    for _ in range(5):
        arrive(hca, Frame(frame_of(128)))
    node.settle()
    *pieces, failed = rq.drain()
    assert [piece.first for piece in pieces] == [0, 1, 2, 3]
    assert failed.entry.op_own >> 4 == CqeOpcode.RESP_ERR
    assert rq.query().state == ERR


def test_a_link_out_of_the_ring(hca, node, make):
    rq = make(log_size=2)
    rq._write(0, 77)
    rq.post_more(2)
    arrive(hca, Frame(frame_of(60)))
    assert (EventType.WQ_CATAS_ERROR, rq.rqn) in [(e[0], rq.rqn) for e in node.events()]
    assert rq.query().state == ERR


def test_room_for_frames(hca, make, clock):
    """What pause frames tell the other side of a cable: frames, not requests."""
    rq = make(log_size=3, log_count=7, log_stride_size=11)
    rq.post_more(4)
    arrive(hca, Frame(frame_of(60)))
    assert credits_of(hca, clock) == 3 * 128 + 127


@pytest.mark.parametrize("limits", [{"striding_rq": 0}])
@pytest.mark.parametrize("kind", [WqType.LINKED_LIST_STRIDING_RQ, WqType.CYCLIC_STRIDING_RQ])
def test_an_adapter_without(node, cq, refused, kind):
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, wq={"wq_type": kind})
    refused(Status.BAD_PARAM_ERR, Op.CREATE_RQ, **fields)


@pytest.mark.parametrize("limits", [{"ext_stride_num_range": 0}])
@pytest.mark.parametrize(("raw", "status"), [(0, Status.OK), (7, Status.OK),
                                             (0xF, Status.BAD_PARAM_ERR),
                                             (0xA, Status.BAD_PARAM_ERR)])  # fmt: skip
def test_number_of_strides_without_the_wider_range(node, driver, cq, raw, status):
    wq = {"wq_type": WqType.LINKED_LIST_STRIDING_RQ, "log_wqe_num_of_strides": raw}
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, wq=wq)
    assert driver.command(Op.CREATE_RQ, **fields).status == status


class Model:
    """The driver's rules, read plainly: where each packet must be, and what must be filled."""

    def __init__(self, count, stride):
        self.count, self.stride = count, stride
        self.posted = self.taken = 0
        self.left = 0

    def packet(self, size):
        """What completions a packet brings: (strides, is filler)."""
        need = -(-size // self.stride)
        if need > self.count:
            return []
        if need <= self.left:
            self.left -= need
            return [(need, False)]
        if self.taken == self.posted:
            return []
        self.taken += 1
        filled = [(self.left, True)] if self.left else []
        self.left = self.count - need
        return [*filled, (need, False)]


steps = st.lists(
    st.one_of(st.integers(60, 700), st.just("post"), st.just("drain")), min_size=1, max_size=60
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=steps, is_cyclic=st.booleans(), log_count=st.integers(3, 5))
def test_any_sizes_against_the_drivers_rules(hca, node, driver, td, steps, is_cyclic, log_count):
    flows = Flows(driver)
    rq = StridingQueue(node, log_size=2, log_count=log_count, is_cyclic=is_cyclic)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(driver, td, rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    model, wanted, packets = Model(rq.count, rq.stride_bytes), [], []
    for step in steps:
        if step == "post" and model.posted - model.taken < 3:
            rq.post_more()
            model.posted += 1
        elif step == "drain":
            _compare(rq, wanted, packets)
        elif isinstance(step, int):
            if len(wanted) > 200:
                _compare(rq, wanted, packets)
            data = frame_of(step, len(packets))
            told = model.packet(step)
            arrive(hca, Frame(data))
            wanted += told
            packets += [data] if told else []
            _compare(rq, wanted, packets)  # a request that is free is written to again
    _compare(rq, wanted, packets)


def _compare(rq, wanted, packets):
    pieces = rq.drain()
    assert [(piece.strides, piece.is_filler) for piece in pieces] == wanted
    assert [piece.data for piece in pieces if not piece.is_filler] == packets
    wanted.clear()
    packets.clear()
