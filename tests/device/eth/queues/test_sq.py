"""Ethernet send queues: what CREATE_SQ takes and refuses, states, NOPs, flush (core/en_main.c)."""

from itertools import pairwise

import pytest
from helpers.device.unawaited import begin, by_round

from emu.device.rounds.costs import STEPS_PER_ERROR
from emu.device.rounds.sizes import FLUSHED_PER_POLL, FRAMES_PER_POLL, QUEUES_PER_ROUND
from emu.driver.command.words import pack64
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.rings import rq_fields, sq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.segments import SIGNALED
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.wq import SqState
from layouts.enums.wqe import Opcode

RST, RDY, ERR = SqState.RST, SqState.RDY, SqState.ERR


@pytest.fixture
def sq(node):
    return SendQueue(node)


def modify(driver, sqn, expected, state, **fields):
    return driver.command(
        Op.MODIFY_SQ, sqn=sqn, sq_state=expected, ctx={"state": state}, **fields
    ).status


def test_query_shows_the_context(node, cq):
    sq = SendQueue(node, cq=cq, ready=False, user_index=7)
    ctx = sq.query()
    assert (ctx.state, ctx.cqn, ctx.user_index, ctx.wq.pd) == (RST, cq.cqn, 7, node.pdn)
    sq.modify(RDY)
    for _ in range(3):
        sq.nop()
    node.settle()
    ctx = sq.query()
    assert (ctx.state, ctx.wq.hw_counter, ctx.wq.sw_counter) == (RDY, 3, 3)
    sq.nop(ring=False)
    assert (sq.query().wq.hw_counter, sq.query().wq.sw_counter) == (3, 4)


def test_record_by_its_second_word(node):
    """OpenBSD's if_mcx.c names the word that it writes its counter to."""
    sq = SendQueue(node, ready=False)
    fields, ring = sq_fields(node.driver, node.pdn, sq.cq.cqn)
    fields["ctx"]["wq"]["dbr_addr"] += 4
    sq.sqn, sq.ring = node.driver.must(Op.CREATE_SQ, **fields).sqn, ring
    sq.modify(RDY)
    sq.nop()
    node.settle()
    assert len(sq.cq.drain()) == 1


def test_counter_whose_memory_is_gone(node):
    sq = SendQueue(node)
    sq.nop()
    node.settle()
    node.memory.revoke(sq.ring.record)
    assert (sq.query().wq.hw_counter, sq.query().wq.sw_counter) == (1, 1)


def test_number_is_no_queue_pairs(node, cq):
    """A send doorbell names either by its number."""
    numbers = [SendQueue(node, cq=cq).sqn, node.queue_pair().qpn, SendQueue(node, cq=cq).sqn]
    assert len(set(numbers)) == 3


def test_queue_holds_what_it_names(node, driver, refused):
    sq = SendQueue(node)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=sq.cq.cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=node.pdn)
    driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
    driver.must(Op.DESTROY_CQ, cqn=sq.cq.cqn)
    refused(Status.BAD_RES_ERR, Op.QUERY_SQ, sqn=sq.sqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_SQ, sqn=sq.sqn)


def test_queue_holds_its_tis(node, driver, refused):
    """An ICOSQ has none (core/en_main.c: mlx5e_open_icosq)."""
    tisn = create_tis(driver, alloc_td(driver))
    sq = SendQueue(node, tisn=tisn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_TIS, tisn=tisn)
    driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
    driver.must(Op.DESTROY_TIS, tisn=tisn)


def test_ring_and_record_in_user_memory_that_may_only_be_read(node, driver, refused):
    """The device writes to neither, so a umem without the right is enough (UCX, DPDK)."""
    pages = node.memory.pages(2 * 4096)
    umem = driver.must(
        Op.CREATE_UMEM, umem={"num_of_mtt": 2}, extra=pack64([page | 1 for page in pages])
    ).umem_id
    cq = node.completion_queue()
    wq = {
        "wq_umem_valid": 1, "wq_umem_id": umem, "dbr_umem_valid": 1, "dbr_umem_id": umem,
        "dbr_addr": 4096 + 64,
    }  # fmt: skip
    fields, _ = sq_fields(driver, node.pdn, cq.cqn, wq=wq)
    fields.pop("extra")
    sqn = driver.must(Op.CREATE_SQ, **fields).sqn
    assert node.hca.sqs.need(sqn).buffer.address(0) == pages[0]
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_UMEM, umem_id=umem)
    fields, _ = rq_fields(driver, node.pdn, cq.cqn, wq=wq)
    fields.pop("extra")
    rqn = driver.must(Op.CREATE_RQ, **fields).rqn
    driver.must(Op.DESTROY_RQ, rqn=rqn)
    driver.must(Op.DESTROY_SQ, sqn=sqn)
    driver.must(Op.DESTROY_UMEM, umem_id=umem)


@pytest.mark.hostile
@pytest.mark.parametrize("option", ["rlky", "fre"])
def test_all_of_memory_is_the_drivers(node, cq, refused, option):
    """A process could read what it likes by physical addresses, or make a key for that."""
    fields, _ = sq_fields(node.driver, node.pdn, cq.cqn, **{option: 1})
    uid = node.driver.must(Op.CREATE_UCTX).uid
    refused(Status.BAD_PARAM_ERR, Op.CREATE_SQ, uid=uid, **fields)
    node.driver.must(Op.CREATE_SQ, **fields)


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"tis_lst_sz": 1, "tis_num_0": 7}, Status.BAD_RES_ERR),
        ({"tis_lst_sz": 2, "tis_num_0": 0}, Status.BAD_PARAM_ERR),
        ({"cqn": 0x77}, Status.BAD_RES_ERR),
        ({"state": RDY}, Status.BAD_PARAM_ERR),
        ({"ts_format": 2}, Status.BAD_PARAM_ERR),
        ({"min_wqe_inline_mode": 4}, Status.BAD_PARAM_ERR),
        ({"hairpin": 1}, Status.LIM_ERR),
        ({"packet_pacing_rate_limit_index": 1}, Status.BAD_PARAM_ERR),
        ({"wq": {"pd": 0}}, Status.BAD_RES_ERR),
        ({"wq": {"uar_page": 0x77}}, Status.BAD_RES_ERR),
        ({"wq": {"wq_type": 0}}, Status.BAD_PARAM_ERR),
        ({"wq": {"log_wq_stride": 4}}, Status.BAD_PARAM_ERR),
        ({"wq": {"log_wq_sz": 16}}, Status.LIM_ERR),
        ({"wq": {"log_wq_sz": 15}}, Status.BAD_PARAM_ERR),  # the page list is too short for it
        ({"wq": {"dbr_addr": 4}}, Status.BAD_PARAM_ERR),
        ({"wq": {"wq_signature": 1}}, Status.BAD_PARAM_ERR),
        ({"wq": {"wq_umem_valid": 1, "wq_umem_id": 5}}, Status.BAD_RES_ERR),
    ],
)
def test_context_that_cannot_be(node, cq, refused, context, status):
    fields, _ = sq_fields(node.driver, node.pdn, context.pop("cqn", cq.cqn), **context)
    refused(status, Op.CREATE_SQ, **fields)


@pytest.mark.parametrize("limits", [{"log_max_sq": 7}])
def test_as_many_as_advertised(node, cq, refused, limits):
    most = (1 << limits["log_max_sq"]) - 0x40
    for _ in range(most):
        SendQueue(node, cq=cq, log_size=0, ready=False)
    fields, _ = sq_fields(node.driver, node.pdn, cq.cqn)
    refused(Status.LIM_ERR, Op.CREATE_SQ, **fields)


@pytest.mark.parametrize("state", [RST, RDY, ERR])
@pytest.mark.parametrize("target", [RST, RDY, ERR])
def test_transitions(node, driver, state, target):
    sq = SendQueue(node, ready=False)
    if state is not RST:
        sq.modify(state)
    allowed = (state, target) != (ERR, RDY)
    status = modify(driver, sq.sqn, state, target)
    assert status == (Status.OK if allowed else Status.BAD_PARAM_ERR)
    assert sq.query().state == (target if allowed else state)


@pytest.mark.parametrize("expected", [RST, ERR, 2, 15])
def test_state_that_the_driver_expects_wrongly(sq, refused, expected):
    refused(
        Status.BAD_RES_STATE_ERR, Op.MODIFY_SQ, sqn=sq.sqn, sq_state=expected, ctx={"state": ERR}
    )


def test_state_that_does_not_exist(sq, refused):
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_SQ, sqn=sq.sqn, sq_state=RDY, ctx={"state": 2})


def test_rate_limit_is_refused(sq, refused):
    ctx = {"state": RDY, "packet_pacing_rate_limit_index": 1}
    fields = {"sqn": sq.sqn, "sq_state": RDY, "ctx": ctx}
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_SQ, modify_bitmask=1, **fields)


def test_rate_limit_that_is_not_chosen_or_none(sq, driver):
    """core/en_main.c: mlx5e_set_sq_maxrate chooses the index 0 to take a limit away."""
    ctx = {"state": RDY, "packet_pacing_rate_limit_index": 1}
    driver.must(Op.MODIFY_SQ, sqn=sq.sqn, sq_state=RDY, ctx=ctx)
    assert sq.query().packet_pacing_rate_limit_index == 0
    sq.modify(RDY, modify_bitmask=1)


# -- work


def test_nops_complete_when_asked(node, sq):
    """Others are for the end of a page (core/en/txrx.h: mlx5e_txqsq_get_next_pi)."""
    indices = [sq.nop(flags=flags) for flags in (0, SIGNALED, 0, 0, SIGNALED)]
    node.settle()
    found = sq.cq.drain()
    assert [done.wqe_counter for done in found] == [indices[1], indices[4]]
    assert {(done.opcode, done.qpn) for done in found} == {(CqeOpcode.REQ, sq.sqn)}


def test_counter_goes_over_65535(node):
    sq = SendQueue(node, log_size=6)
    for number in range(1025):
        for _ in range(63):
            sq.nop(flags=0, ring=False)
        index = sq.nop()
        node.settle()
        assert index == (64 * number + 63) & 0xFFFF
        (done,) = sq.cq.drain()
        assert done.wqe_counter == index


def test_nothing_happens_in_rst(node):
    sq = SendQueue(node, ready=False)
    sq.nop()
    node.settle()
    assert sq.cq.drain() == []
    sq.modify(RDY)
    node.settle()
    assert sq.cq.drain() == []
    sq.ring_doorbell()
    node.settle()
    assert len(sq.cq.drain()) == 1


@pytest.mark.parametrize("rung", [False, True])
def test_old_counter_in_the_record_after_a_recovery(node, sq, rung):
    """mlx5e counts from 0 again, and writes that into the record when it rings again."""
    for _ in range(5):
        sq.nop()
    node.settle()
    sq.cq.drain()
    if rung:  # and the queue waits for its turn
        sq.ring_doorbell()
    states = pairwise((RDY, ERR, RST, RDY))
    begin(node.driver, *[
        (Op.MODIFY_SQ, {"sqn": sq.sqn, "sq_state": before, "ctx": {"state": state}})
        for before, state in states
    ])  # fmt: skip
    node.settle()
    assert sq.cq.drain() == []
    sq.sent = 0
    assert sq.nop() == 0
    node.settle()
    assert [done.wqe_counter for done in sq.cq.drain()] == [0]


def test_one_doorbell_for_many(node, sq):
    indices = [sq.nop(ring=False) for _ in range(60)]
    sq.ring_doorbell()
    node.settle()
    assert [done.wqe_counter for done in sq.cq.drain()] == indices


def test_a_turn_is_bounded(node):
    count = 3 * FRAMES_PER_POLL + 10
    sq = SendQueue(node, log_size=8)
    for _ in range(count):
        sq.nop(ring=False)
    sq.ring_doorbell()
    done = by_round(node, sq.cq)
    assert max(map(len, done)) == FRAMES_PER_POLL
    assert sum(map(len, done)) == count


@pytest.mark.parametrize(
    "wrong",
    [
        {"opcode": Opcode.RDMA_WRITE},
        {"opcode": 0xFF},
        {"opcode": Opcode.UMR},
        {"sqn": 0x12345},
        {"ds": 0},
    ],
)
def test_bad_request_stops_the_queue(node, driver, sq, wrong):
    """The driver recovers from it: flush, ERR to RST to RDY (core/en/reporter_tx.c)."""
    good = sq.nop()
    bad = sq.post(**({"opcode": Opcode.NOP} | wrong))
    after = [sq.nop(), sq.nop()]
    node.settle()
    found = [(done.opcode, done.wqe_counter, done.syndrome, done.vendor) for done in sq.cq.drain()]
    assert found == [
        (CqeOpcode.REQ, good, 0, 0),
        (CqeOpcode.REQ_ERR, bad, CqeSyndrome.LOCAL_QP_OP_ERR, 0x68),
        *[(CqeOpcode.REQ_ERR, index, CqeSyndrome.WR_FLUSH_ERR, 0xF9) for index in after],
    ]
    assert sq.query().state == ERR
    sq.state = ERR
    sq.modify(RST)
    sq.modify(RDY)
    assert sq.nop() == 0
    node.settle()
    assert [done.opcode for done in sq.cq.drain()] == [CqeOpcode.REQ]


def test_flush_when_the_driver_stops_the_queue(node, sq):
    sq.modify(ERR)
    indices = [sq.nop() for _ in range(5)]
    node.settle()
    found = sq.cq.drain()
    assert [done.wqe_counter for done in found] == indices
    assert {(done.syndrome, done.vendor) for done in found} == {(CqeSyndrome.WR_FLUSH_ERR, 0xF5)}


def test_flush_only_if_wanted(node):
    sq = SendQueue(node, flush_in_error_en=0)
    sq.modify(ERR)
    sq.nop()
    node.settle()
    assert sq.cq.drain() == []


@pytest.mark.hostile
def test_a_long_flush_is_bounded(node):
    count = 2 * FLUSHED_PER_POLL + 10
    sq = SendQueue(node, log_size=10, cq=node.completion_queue(10))
    sq.modify(ERR)
    for _ in range(count):
        sq.nop(ring=False)
    sq.ring_doorbell()
    flushed = by_round(node, sq.cq)
    assert max(map(len, flushed)) == FLUSHED_PER_POLL
    assert sum(map(len, flushed)) == count


@pytest.mark.hostile
@pytest.mark.parametrize(("state", "steps"), [(ERR, STEPS_PER_ERROR), (RDY, 1)])
def test_requests_without_frames_are_charged(node, function, clock, state, steps):
    """Many queues do not flush all that is posted in one round, and NOPs take their share."""
    cq = node.completion_queue(12)
    queues = [SendQueue(node, log_size=10, cq=cq) for _ in range(QUEUES_PER_ROUND)]
    for sq in queues:
        if state is ERR:
            sq.modify(ERR)
        for _ in range(FLUSHED_PER_POLL):
            sq.nop(ring=False, flags=0)
    for sq in queues:
        sq.ring_doorbell()
    clock.budget.begin()
    assert function.poll()
    done = sum(sq.object.ring.ci for sq in queues)
    assert 0 < done < QUEUES_PER_ROUND * FLUSHED_PER_POLL
    assert clock.budget.steps >= done * steps


@pytest.mark.hostile
@pytest.mark.parametrize("jump", [65, 0x8000, 0xFFFF])
def test_counter_that_jumps(node, sq, jump):
    sq.sent += jump
    sq.write_record()
    sq.ring_doorbell()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, sq.sqn)]
    assert sq.query().state == ERR


@pytest.mark.hostile
def test_ring_that_is_gone(node, memory, sq):
    memory.revoke(sq.ring.pages[0])
    sq.sent += 1
    sq.write_record()
    sq.ring_doorbell()
    node.settle()
    assert node.events() == [(EventType.WQ_CATAS_ERROR, sq.sqn)]
    assert sq.query().state == ERR


@pytest.mark.hostile
def test_destroyed_with_work_left(node, driver):
    sq = SendQueue(node, log_size=8, cq=node.completion_queue(8))
    for _ in range(2 * FRAMES_PER_POLL):
        sq.nop()
    driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
    node.settle()
    assert len(sq.cq.drain()) == FRAMES_PER_POLL, "those of the poll before the command"


def test_cq_that_overruns_stops_the_queue(node):
    sq = SendQueue(node, cq=node.completion_queue(log_size=1))
    for _ in range(4):
        sq.nop()
    node.settle()
    assert {event for event, _ in node.events()} == {EventType.CQ_ERROR, EventType.WQ_CATAS_ERROR}
    assert sq.query().state == ERR


def test_event_when_armed(node, sq):
    sq.cq.arm()
    sq.nop()
    node.settle()
    assert sq.cq.events() == 1


def test_the_state_that_it_is_in_changes_nothing(node, driver, sq):
    """A queue that has stopped by itself does not forget that: its completions tell."""
    sq.post(0x55)
    node.settle()
    assert modify(driver, sq.sqn, ERR, ERR) == Status.OK
    sq.nop()
    node.settle()
    *_, flushed = sq.cq.drain()
    assert (flushed.syndrome, flushed.vendor) == (CqeSyndrome.WR_FLUSH_ERR, 0xF9)
