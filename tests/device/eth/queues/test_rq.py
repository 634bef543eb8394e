"""Ethernet receive queues: what CREATE_RQ takes and refuses, states, flush (core/en_main.c)."""

import pytest
from helpers.device.unawaited import begin, by_round

from emu.device.port.eth.frame import Frame
from emu.device.rounds.sizes import FLUSHED_PER_POLL
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.rings import rq_fields
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.wq import MemRqType, ModifyRq, RqState, WqType

LIST_STRIDING, CYCLIC_STRIDING = WqType.LINKED_LIST_STRIDING_RQ, WqType.CYCLIC_STRIDING_RQ
RST, RDY, ERR = RqState.RST, RqState.RDY, RqState.ERR
MIN_POLL_NS, MAX_POLL_NS = 1_000_000, 1_000_000_000
"""How often a queue in ERR is looked at, first and after a long time."""


@pytest.fixture
def rq(node):
    return ReceiveQueue(node)


def test_query_shows_the_context(node, driver, cq):
    counter = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    rq = ReceiveQueue(node, cq=cq, ready=False, counter_set_id=counter)
    ctx = rq.query()
    assert (ctx.state, ctx.cqn, ctx.counter_set_id) == (RST, cq.cqn, counter)
    assert (ctx.wq.pd, ctx.wq.log_wq_sz, ctx.wq.dbr_addr) == (node.pdn, 4, rq.ring.record)
    rq.modify(RDY)
    assert rq.query().state == RDY


def test_query_shows_the_counters(node, rq):
    """What is posted, and what packets have taken (the kstats of OpenBSD's if_mcx.c)."""
    rq.post((64, node.region(64).key, 0))
    assert (rq.query().wq.sw_counter, rq.query().wq.hw_counter) == (1, 0)
    rq.object.queue.take()
    assert (rq.query().wq.sw_counter, rq.query().wq.hw_counter) == (1, 1)
    node.memory.revoke(rq.ring.record)
    assert (rq.query().wq.sw_counter, rq.query().wq.hw_counter) == (1, 1)


def test_drop_queue_without_a_domain(node):
    """As mlx5e_alloc_drop_rq makes one: one WQE, which is never posted."""
    rq = ReceiveQueue(node, log_size=0, log_stride=4, wq={"pd": 0})
    assert rq.query().state == RDY


def test_queue_holds_what_it_names(node, driver, cq, refused):
    counter = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    rq = ReceiveQueue(node, cq=cq, counter_set_id=counter)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=cq.cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=node.pdn)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, counter_set_id=counter)
    driver.must(Op.DESTROY_RQ, rqn=rq.rqn)
    driver.must(Op.DESTROY_CQ, cqn=cq.cqn)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=counter)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_RQ, rqn=rq.rqn)
    refused(Status.BAD_RES_ERR, Op.QUERY_RQ, rqn=rq.rqn)


def test_over_a_memory_pool(node, driver, cq, refused):
    rmp = node.shared_queue(form="ring")
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, mem_rq_type=MemRqType.RMP, rmpn=rmp.srqn)
    rqn = driver.must(Op.CREATE_RQ, **fields).rqn
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_RMP, rmpn=rmp.srqn)
    driver.must(Op.DESTROY_RQ, rqn=rqn)
    driver.must(Op.DESTROY_RMP, rmpn=rmp.srqn)


def test_number_that_is_no_memory_pool(node, cq, refused):
    srq = node.shared_queue(form="srq")
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, mem_rq_type=MemRqType.RMP, rmpn=srq.srqn)
    refused(Status.BAD_RES_ERR, Op.CREATE_RQ, **fields)


@pytest.mark.hostile
def test_all_of_memory_is_the_drivers(node, cq, refused):
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, rlky=1)
    uid = node.driver.must(Op.CREATE_UCTX).uid
    refused(Status.BAD_PARAM_ERR, Op.CREATE_RQ, uid=uid, **fields)
    node.driver.must(Op.CREATE_RQ, **fields)


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"cqn": 0x77}, Status.BAD_RES_ERR),
        ({"counter_set_id": 9}, Status.BAD_RES_ERR),
        ({"state": RDY}, Status.BAD_PARAM_ERR),
        ({"mem_rq_type": MemRqType.RMP, "rmpn": 9}, Status.BAD_RES_ERR),
        ({"mem_rq_type": 2}, Status.BAD_PARAM_ERR),
        ({"ts_format": 2}, Status.BAD_PARAM_ERR),
        ({"delay_drop_en": 1}, Status.BAD_PARAM_ERR),
        ({"hairpin": 1}, Status.LIM_ERR),
        ({"wq": {"pd": 0x77}}, Status.BAD_RES_ERR),
        ({"wq": {"wq_type": LIST_STRIDING, "log_wq_stride": 4}}, Status.BAD_PARAM_ERR),
        ({"wq": {"wq_type": LIST_STRIDING, "log_wqe_num_of_strides": 8}}, Status.BAD_PARAM_ERR),
        ({"wq": {"wq_type": CYCLIC_STRIDING, "log_wqe_num_of_strides": 9}}, Status.BAD_PARAM_ERR),
        ({"wq": {"wq_type": 15}}, Status.BAD_PARAM_ERR),
        ({"wq": {"log_wq_stride": 3}}, Status.BAD_PARAM_ERR),
        ({"wq": {"log_wq_stride": 10}}, Status.LIM_ERR),
        ({"wq": {"log_wq_sz": 16}}, Status.LIM_ERR),
        ({"wq": {"log_wq_sz": 15}}, Status.BAD_PARAM_ERR),  # the page list is too short for it
        ({"wq": {"dbr_addr": 4}}, Status.BAD_PARAM_ERR),
        ({"wq": {"shampo_enable": 1}}, Status.BAD_PARAM_ERR),
        ({"wq": {"end_padding_mode": 2}}, Status.BAD_PARAM_ERR),
        ({"wq": {"dbr_umem_valid": 1, "dbr_umem_id": 5}}, Status.BAD_RES_ERR),
    ],
)
def test_context_that_cannot_be(node, cq, refused, context, status):
    fields, _ = rq_fields(node.driver, node.pdn, context.pop("cqn", cq.cqn), **context)
    refused(status, Op.CREATE_RQ, **fields)


@pytest.mark.parametrize("limits", [{"log_max_rq": 2}])
def test_as_many_as_advertised(node, cq, refused):
    made = [ReceiveQueue(node, cq=cq) for _ in range(3)]
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn)
    refused(Status.LIM_ERR, Op.CREATE_RQ, **fields)
    node.driver.must(Op.DESTROY_RQ, rqn=made[0].rqn)
    ReceiveQueue(node, cq=cq)


@pytest.mark.parametrize("state", [RST, RDY, ERR])
@pytest.mark.parametrize("target", [RST, RDY, ERR])
def test_transitions(node, driver, state, target):
    rq = ReceiveQueue(node, ready=False)
    if state is not RST:
        rq.modify(state)
    allowed = (state, target) != (ERR, RDY)
    status = driver.command(Op.MODIFY_RQ, rqn=rq.rqn, rq_state=state, ctx={"state": target}).status
    assert status == (Status.OK if allowed else Status.BAD_PARAM_ERR)
    assert rq.query().state == (target if allowed else state)


@pytest.mark.parametrize("expected", [RST, ERR, 2, 15])
def test_state_that_the_driver_expects_wrongly(rq, refused, expected):
    refused(
        Status.BAD_RES_STATE_ERR, Op.MODIFY_RQ, rqn=rq.rqn, rq_state=expected, ctx={"state": ERR}
    )


def test_vlan_stripping_changes_by_the_bitmask(rq):
    """ethtool -K rxvlan (core/en_main.c: mlx5e_modify_rq_vsd)."""
    rq.modify(RDY, ctx={"vsd": 0})
    assert (rq.query().vsd, rq.object.strips) == (1, False)
    rq.modify(RDY, ctx={"vsd": 0}, modify_bitmask=ModifyRq.VSD)
    assert (rq.query().vsd, rq.object.strips) == (0, True)


def test_counter_set_changes_by_the_bitmask(node, driver, rq, refused):
    counter = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    mask = ModifyRq.RQ_COUNTER_SET_ID
    rq.modify(RDY, ctx={"counter_set_id": counter}, modify_bitmask=mask)
    assert rq.query().counter_set_id == counter
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, counter_set_id=counter)
    rq.modify(RDY, modify_bitmask=mask)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=counter)


@pytest.mark.parametrize(
    ("mask", "ctx", "status"),
    [
        (1 << 0, {}, Status.BAD_PARAM_ERR),
        (1 << 40, {}, Status.BAD_PARAM_ERR),
        (ModifyRq.RQ_COUNTER_SET_ID, {"counter_set_id": 9}, Status.BAD_RES_ERR),
    ],
)
def test_change_that_cannot_be(rq, refused, mask, ctx, status):
    ctx = {"state": RDY} | ctx
    refused(status, Op.MODIFY_RQ, rqn=rq.rqn, rq_state=RDY, modify_bitmask=mask, ctx=ctx)


def test_frame_check_sequences_that_are_not_chosen_or_not_wanted(rq):
    """core/en_main.c: mlx5e_modify_rq_scatter_fcs turns them off, too."""
    rq.modify(RDY, ctx={"scatter_fcs": 1})
    assert rq.query().scatter_fcs == 0
    rq.modify(RDY, modify_bitmask=ModifyRq.SCATTER_FCS)


@pytest.mark.parametrize("wq_type", [WqType.CYCLIC, WqType.LINKED_LIST])
def test_flush(node, clock, wq_type):
    """Also of what is posted later: that rings no doorbell."""
    rq = ReceiveQueue(node, wq={"wq_type": wq_type}, log_stride=6)
    for _ in range(3):
        rq.post((64, 0x100, 0))
    rq.modify(ERR)
    rq.post((64, 0x100, 0))
    clock.advance(MIN_POLL_NS)
    node.settle()
    found = [(done.opcode, done.wqe_counter, done.syndrome) for done in rq.cq.drain()]
    flushed = CqeOpcode.RESP_ERR, CqeSyndrome.WR_FLUSH_ERR
    assert found == [(flushed[0], index, flushed[1]) for index in range(4)]
    rq.modify(RST)
    assert not clock.waiting()
    rq.modify(RDY)
    rq.post((64, 0x100, 0))
    rq.modify(ERR)
    assert [done.wqe_counter for done in rq.cq.drain()] == [0]


@pytest.mark.hostile
def test_a_long_flush_is_bounded(node):
    count = 2 * FLUSHED_PER_POLL + 10
    rq = ReceiveQueue(node, log_size=10, cq=node.completion_queue(10))
    for _ in range(count):
        rq.post((64, 0x100, 0))
    fields = {"rqn": rq.rqn, "rq_state": RDY, "ctx": {"state": ERR}}
    begin(node.driver, (Op.MODIFY_RQ, fields))
    flushed = by_round(node, rq.cq)
    assert max(map(len, flushed)) == FLUSHED_PER_POLL
    assert sum(map(len, flushed)) == count


def test_the_state_that_it_is_in_changes_nothing(node, flows, td, rq):
    """Nor does a queue that has stopped by itself forget that: its completions tell."""
    table = flows.table(0, log_size=0)
    tir = create_direct_tir(node.driver, td, rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tir))
    flows.set_root(table)
    rq.post((64, 0x100, 0))
    arrive(node.hca, Frame(EthPacket().frame()))
    assert rq.query().state == ERR
    rq.state = ERR
    rq.modify(ERR)
    assert rq.object.has_failed
    node.settle()
    look = rq.object.poll_interval_ns
    rq.modify(ERR)
    assert (rq.object.poll_interval_ns, rq.object.has_failed) == (look, True)


def test_only_a_queue_in_error_is_flushed(hca, node, rq):
    """A turn may come when the queue has left ERR again."""
    rq.post((64, 0x100, 0))
    hca.scheduler.schedule(rq.object)
    node.settle()
    assert rq.cq.drain() == []
    assert rq.object.queue.posted() == 1


def test_looks_less_and_less_often(node, clock, rq):
    rq.modify(ERR)
    looks = 0
    for _ in range(10_000):
        clock.advance(MAX_POLL_NS // 1000)
        looks += bool(node.hca.scheduler.ready)
        node.settle()
    assert 10 <= looks <= 20
    assert clock.waiting() == 1
    node.driver.must(Op.DESTROY_RQ, rqn=rq.rqn)
    assert not clock.waiting()


def test_flush_only_if_wanted(node, clock):
    rq = ReceiveQueue(node, flush_in_error_en=0)
    rq.post((64, 0x100, 0))
    rq.modify(ERR)
    assert (rq.cq.drain(), clock.waiting()) == ([], 0)


def test_requests_of_a_pool_are_not_flushed(node, driver, clock, cq):
    rmp = node.shared_queue(form="ring")
    region = node.region(64)
    rmp.post(region.sge())
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, mem_rq_type=MemRqType.RMP, rmpn=rmp.srqn)
    rqn = driver.must(Op.CREATE_RQ, **fields).rqn
    driver.must(Op.MODIFY_RQ, rqn=rqn, rq_state=RST, ctx={"state": ERR})
    assert (cq.drain(), clock.waiting()) == ([], 0)


def test_teardown_with_a_timer_left(node, driver, clock, rq):
    rq.modify(ERR)
    driver.must(Op.TEARDOWN_HCA)
    assert not clock.waiting()
