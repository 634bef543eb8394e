"""Hairpin queues of one function: pairs, states, what passes, what is refused (core/transobj.c)."""

import pytest
from helpers.device.credits import credits_of

from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.rounds.sizes import FRAMES_PER_POLL
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import (
    HairpinPair,
    create_hairpin_rq,
    create_hairpin_sq,
    receiver_for,
    sender_of,
    sizes,
)
from emu.driver.ethernet.interfaces import create_direct_tir, create_rq, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.verbs.segments import PAGE
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.wq import ModifyRq, RqState, SqState

FRAME = EthPacket(payload=bytes(range(200))).frame()


@pytest.fixture
def pair(driver):
    return HairpinPair(driver, driver)


@pytest.fixture
def lead(driver, td, flows):
    """Make every frame go to a receive queue."""

    def to(rqn, **context):
        table = flows.table(level=0)
        group = flows.group(table, 0, 0)
        flows.entry(table, 0, group, to_tir(create_direct_tir(driver, td, rqn, **context)))
        flows.set_root(table)

    return to


@pytest.fixture
def through(hca, driver, eth_wire):
    """Bring frames; what has left since then."""

    def bring(*frames):
        for data in frames:
            arrive(hca, data if isinstance(data, Frame) else Frame(data))
        driver.bar.settle()
        return [frame.data for frame in eth_wire.sent()]

    return bring


def test_a_packet_is_sent_on_as_it_is(pair, lead, through, hca, clock):
    lead(pair.rqn)
    tagged = EthPacket(tags=((0x8100, 5),)).frame()
    assert through(FRAME, tagged) == [FRAME, tagged]
    assert hca.nic_vport.sent.unicast.packets == 2
    assert credits_of(hca, clock) == NO_LIMIT


def test_a_packet_to_the_functions_own_address_leaves_as_well(pair, lead, through, hca):
    lead(pair.rqn)
    own = hca.nic_vport.permanent_address + FRAME[6:]
    group = b"\x01\0\x5e\0\0\1" + FRAME[6:]
    assert through(own, group) == [own, group]


def test_it_may_leave_through_a_tis_at_a_rate(driver, td, lead, through, clock, eth_wire):
    """As DPDK's queues have a TIS; packet pacing holds for all send queues."""
    driver.must(Op.SET_PP_RATE_LIMIT, rate_limit_index=1, ctx={"rate_limit": 8})
    pair = HairpinPair.__new__(HairpinPair)
    pair.one = pair.other = driver
    pair.vhcas = (0, 0)
    pair.rqn = create_hairpin_rq(driver)
    pair.sqn = create_hairpin_sq(
        driver, tis_lst_sz=1, tis_num_0=create_tis(driver, td), packet_pacing_rate_limit_index=1
    )
    pair.begin_sending()
    pair.begin_receiving()
    lead(pair.rqn)
    assert len(through(*[FRAME] * 40)) < 40
    clock.advance(10**9)
    driver.bar.settle()
    assert eth_wire.sent()


def test_a_super_frame_stays_whole(driver, pair, lead, hca, eth_wire):
    lead(pair.rqn)
    large = large_frame()
    arrive(hca, large)
    driver.bar.settle()
    (left,) = eth_wire.sent()
    assert (left.data, left.gso_size, left.checked) == (large.data, 1000, True)
    assert hca.nic_vport.sent.unicast.packets == 5


def test_what_has_no_room_is_counted(driver, counter, lead, hca, eth_wire):
    pair = HairpinPair.__new__(HairpinPair)
    pair.one = pair.other = driver
    pair.vhcas = (0, 0)
    small = sizes(13, 2)
    pair.rqn = create_hairpin_rq(driver, small, counter_set_id=counter)
    pair.sqn = create_hairpin_sq(driver, small)
    pair.begin_sending()
    pair.begin_receiving()
    lead(pair.rqn)
    for _ in range(7):
        arrive(hca, Frame(FRAME))
    driver.bar.settle()
    assert len(eth_wire.sent()) == 4
    assert driver.must(Op.QUERY_Q_COUNTER, counter_set_id=counter).out_of_buffer == 3


def test_without_its_peer_packets_are_dropped_until_there_is_one(driver, pair, lead, through):
    lead(pair.rqn)
    pair.stop_sending()
    assert through(FRAME) == []
    driver.must(Op.DESTROY_SQ, sqn=pair.sqn)
    assert through(FRAME) == []
    pair.stop_receiving()
    pair.sqn = create_hairpin_sq(driver)
    pair.begin_sending()
    pair.begin_receiving()
    assert through(FRAME) == [FRAME]


def test_packets_that_wait_leave_when_the_sender_is_ready_again(
    driver, pair, lead, through, eth_wire
):
    lead(pair.rqn)
    pair.stop_sending()
    assert through(FRAME) == []
    pair.begin_sending()
    driver.bar.settle()
    assert [frame.data for frame in eth_wire.sent()] == [FRAME]


def test_the_receiver_may_go_first(driver, pair, lead, through, flows):
    lead(pair.rqn)
    assert through(FRAME) == [FRAME]
    pair.stop_receiving()
    assert through(FRAME) == []
    pair.stop_sending()
    driver.must(Op.DESTROY_SQ, sqn=pair.sqn)


def test_a_query_shows_the_peer(driver, pair):
    rqc = driver.must(Op.QUERY_RQ, rqn=pair.rqn).rq_context
    sqc = driver.must(Op.QUERY_SQ, sqn=pair.sqn).sq_context
    assert (rqc.state, rqc.hairpin, rqc.hairpin_peer_sq) == (RqState.RDY, 1, pair.sqn)
    assert (sqc.state, sqc.hairpin, sqc.hairpin_peer_rq) == (SqState.RDY, 1, pair.rqn)
    pair.stop_receiving()
    pair.stop_sending()
    assert driver.must(Op.QUERY_RQ, rqn=pair.rqn).rq_context.hairpin_peer_sq == 0
    assert driver.must(Op.QUERY_SQ, sqn=pair.sqn).sq_context.hairpin_peer_rq == 0


def test_objects_tell_of_it(hca, pair, lead, through):
    assert hca.rqs.need(pair.rqn).about() == {
        "hairpin": True, "peer_vhca": 0, "peer": pair.sqn, "waiting": 0
    }  # fmt: skip
    assert hca.sqs.need(pair.sqn).about()["peer"] == pair.rqn


def test_in_error_nothing_passes_and_nothing_is_flushed(driver, pair, lead, through):
    lead(pair.rqn)
    driver.must(
        Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.RDY,
        ctx={"state": RqState.ERR, "flush_in_error_en": 1},
    )  # fmt: skip
    driver.must(Op.MODIFY_SQ, sqn=pair.sqn, sq_state=SqState.RDY, ctx={"state": SqState.ERR})
    assert through(FRAME) == []
    ctx = {"state": RqState.RST}
    driver.must(Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.ERR, ctx=ctx)
    driver.must(Op.MODIFY_SQ, sqn=pair.sqn, sq_state=SqState.ERR, ctx={"state": SqState.RST})
    pair.begin_sending()
    pair.begin_receiving()
    assert through(FRAME) == [FRAME]


def test_one_in_error_is_not_polled_for_requests_to_flush(driver, clock):
    rqn = create_hairpin_rq(driver, flush_in_error_en=1)
    ctx = {"state": RqState.ERR}
    driver.must(Op.MODIFY_RQ, rqn=rqn, rq_state=RqState.RST, ctx=ctx)
    assert not clock.waiting()


def large_frame():
    packet = EthPacket(payload=b"").frame()[:54]
    return Frame(unsegmented(packet, bytes(5000), 1000), 1000, True)


def test_in_error_no_large_one_waits_either(driver, pair, lead, through, hca):
    lead(pair.rqn)
    ctx = {"state": RqState.ERR}
    driver.must(Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.RDY, ctx=ctx)
    assert through(large_frame()) == []
    assert hca.rqs.need(pair.rqn).about()["waiting"] == 0


def test_packets_that_wait_stay_when_the_receiver_is_in_error(driver, pair, lead, hca, eth_wire):
    lead(pair.rqn)
    for _ in range(2 * FRAMES_PER_POLL):
        arrive(hca, Frame(FRAME))
    ctx = {"state": RqState.ERR}
    driver.must(Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.RDY, ctx=ctx)
    driver.bar.settle()
    assert len(eth_wire.sent()) == FRAMES_PER_POLL, "those of the poll before the command"


@pytest.mark.parametrize("limits", [{"log_max_qp": 7, "log_max_rq": 7, "log_max_sq": 7}])
def test_the_receiver_is_destroyed_and_its_number_used_again(driver, pair, through):
    pair.stop_receiving()
    driver.must(Op.DESTROY_RQ, rqn=pair.rqn)
    driver.must(Op.MODIFY_SQ, sqn=pair.sqn, **sender_of(0, 0, SqState.RDY))
    assert through() == []
    while create_hairpin_rq(driver) != (1 << 7) - 1:
        pass  # until all numbers have been used once
    assert create_rq(driver) == pair.rqn
    driver.must(Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.RST, ctx={"state": RqState.RDY})
    driver.must(Op.MODIFY_SQ, sqn=pair.sqn, **sender_of(0, 0, SqState.RDY))
    assert through() == []


@pytest.mark.hostile
def test_a_doorbell_posts_nothing(pair, lead, through, driver):
    lead(pair.rqn)
    data = bytes(4) + (pair.sqn << 8).to_bytes(4, "big")
    driver.bar.write(driver.uar * PAGE + 0x800, data)
    assert through(FRAME) == [FRAME]


@pytest.mark.hostile
def test_options_of_queues_that_tell_the_driver_do_nothing(driver, pair, lead, through):
    lead(pair.rqn)
    driver.must(
        Op.MODIFY_RQ, rqn=pair.rqn, rq_state=RqState.RDY, modify_bitmask=ModifyRq.SCATTER_FCS,
        ctx={"state": RqState.RDY, "scatter_fcs": 1},
    )  # fmt: skip
    assert through(FRAME) == [FRAME]


@pytest.mark.hostile
def test_a_loop_takes_turns(driver, td, pair, lead, function, hca, eth_wire):
    """A packet that comes back again and again: each turn of it is a bounded one."""
    lead(pair.rqn)
    arrive(hca, Frame(FRAME))
    for _ in range(100):
        function.run()
        for frame in eth_wire.sent():
            arrive(hca, frame)
    assert hca.nic_vport.sent.unicast.packets <= 101
    pair.stop_receiving()
    assert len(eth_wire.sent()) == 1, "the frame that came before the command"
    driver.bar.settle()
    assert not eth_wire.sent()


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("wq", "context", "status"),
    [
        (sizes(17), {}, Status.LIM_ERR),
        (sizes(12), {}, Status.LIM_ERR),
        (sizes(16, 15), {}, Status.LIM_ERR),
        ({}, {"state": 1}, Status.BAD_PARAM_ERR),
    ],
)
def test_sizes_are_those_advertised(refused, wq, context, status):
    ctx = {"hairpin": 1, "wq": sizes() | wq} | context
    refused(status, Op.CREATE_RQ, ctx=ctx)
    refused(status, Op.CREATE_SQ, ctx=ctx)


@pytest.mark.hostile
def test_what_is_no_context_of_a_hairpin(refused):
    wrong = {"hairpin": 1, "wq": sizes()}
    refused(Status.BAD_PARAM_ERR, Op.CREATE_RQ, ctx=wrong | {"mem_rq_type": 1})
    refused(Status.BAD_RES_ERR, Op.CREATE_RQ, ctx=wrong | {"counter_set_id": 77})
    refused(Status.BAD_RES_ERR, Op.CREATE_SQ, ctx=wrong | {"tis_lst_sz": 1, "tis_num_0": 77})
    refused(Status.BAD_PARAM_ERR, Op.CREATE_SQ, ctx=wrong | {"packet_pacing_rate_limit_index": 9})


@pytest.mark.hostile
@pytest.mark.parametrize("limits", [{"hairpin": 0}])
def test_adapters_without_them_refuse(refused):
    ctx = {"hairpin": 1, "wq": sizes()}
    refused(Status.BAD_PARAM_ERR, Op.CREATE_RQ, ctx=ctx)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_SQ, ctx=ctx)


@pytest.mark.hostile
def test_peers_have_to_be_hairpins_that_are_free(node, driver, pair, sq, refused):
    """Refused, a queue stays as it was."""
    rq = ReceiveQueue(node)
    one, two = create_hairpin_rq(driver), create_hairpin_sq(driver)
    for number, status in (
        (0xABCDE, Status.BAD_RES_ERR), (sq.sqn, Status.BAD_RES_ERR), (one, Status.BAD_RES_ERR),
        (pair.sqn, Status.BAD_RES_STATE_ERR),
    ):  # fmt: skip
        refused(status, Op.MODIFY_RQ, rqn=one, **receiver_for(number, 0))
    for number, status in (
        (0xABCDE, Status.BAD_RES_ERR), (rq.rqn, Status.BAD_RES_ERR), (two, Status.BAD_RES_ERR),
        (pair.rqn, Status.BAD_RES_STATE_ERR),
    ):  # fmt: skip
        refused(status, Op.MODIFY_SQ, sqn=two, **sender_of(number, 0))
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_SQ, sqn=two, **sender_of(one, 7))
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_RQ, rqn=one, **receiver_for(two, 7))
    assert driver.must(Op.QUERY_RQ, rqn=one).rq_context.state == RqState.RST
    assert driver.must(Op.QUERY_SQ, sqn=two).sq_context.state == SqState.RST


@pytest.mark.hostile
def test_another_users_queue_is_no_peer(driver, refused):
    uid = driver.must(Op.CREATE_UCTX).uid
    ctx = {"hairpin": 1, "wq": sizes()}
    sqn = driver.must(Op.CREATE_SQ, uid=uid, ctx=ctx).sqn
    rqn = create_hairpin_rq(driver)
    refused(Status.BAD_RES_ERR, Op.MODIFY_SQ, uid=uid, sqn=sqn, **sender_of(rqn, 0))


def test_the_functions_teardown_ends_it(driver, pair, lead, hca, eth_wire):
    lead(pair.rqn)
    for _ in range(2 * FRAMES_PER_POLL):
        arrive(hca, Frame(FRAME))
    driver.must(Op.TEARDOWN_HCA)
    driver.bar.settle()
    assert len(eth_wire.sent()) == FRAMES_PER_POLL, "those of the poll before the command"


def test_which_models_have_them():
    have = {name: links[PortType.ETH].general.get("hairpin", 0) for name, links in LINKS.items()
            if PortType.ETH in links}  # fmt: skip
    assert {name for name, has in have.items() if not has} == {"connectx4lx", "connectx4lx-vf"}
