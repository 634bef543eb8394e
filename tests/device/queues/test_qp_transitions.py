"""The state machine of a queue pair as the driver's modify commands see it (IBTA 10.3.1)."""

import pytest

from emu.driver.verbs.parts import INIT, RTR, RTS, Parts
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpState, QpType, RqType

S = QpState
STATES = (S.RST, S.INIT, S.RTR, S.RTS, S.SQER, S.SQD, S.ERR)
LEGAL = {
    Op.RST2INIT_QP: {S.RST: S.INIT},
    Op.INIT2INIT_QP: {S.INIT: S.INIT},
    Op.INIT2RTR_QP: {S.INIT: S.RTR},
    Op.RTR2RTS_QP: {S.RTR: S.RTS},
    Op.RTS2RTS_QP: {S.RTS: S.RTS},
    Op.SQERR2RTS_QP: {S.SQER: S.RTS},
    Op.SQD_RTS_QP: {S.SQD: S.RTS},
    Op._2ERR_QP: dict.fromkeys(STATES, S.ERR),
    Op._2RST_QP: dict.fromkeys(STATES, S.RST),
}

HONEST = {Op.RST2INIT_QP: INIT, Op.INIT2RTR_QP: RTR}
"""What a transition cannot do without."""

# Bits of opt_param_mask, qp.h: mlx5_qp_optpar.
RRE, RAE, RWE, PKEY_INDEX, Q_KEY, RNR_TIMEOUT = 1, 2, 3, 4, 5, 6
PM_STATE, DRAIN_SIGERR, LAG_TX_AFF, PRI_PORT, COUNTER_SET = 10, 11, 15, 16, 25


@pytest.fixture
def parts(driver):
    return Parts(driver)


def in_state(function, parts, state):
    """A queue pair in any state; the device itself leads to SQER and SQD, no command does."""
    qpn = parts.make(S.RTS if state in (S.SQER, S.SQD) else state)
    function.hca.qps.get(qpn).state = state
    return qpn


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
@pytest.mark.parametrize("op", LEGAL, ids=lambda op: op.name)
def test_every_command_in_every_state(driver, function, parts, refused, state, op):
    qpn = in_state(function, parts, state)
    target = LEGAL[op].get(state)
    if target is None:
        refused(Status.BAD_QP_STATE_ERR, op, qpn=qpn)
        target = state
    else:
        honest = {"qpc": HONEST[op]} if op in HONEST else {}
        driver.must(op, qpn=qpn, **honest)
    assert parts.query(qpn).state == target


def test_reset_queue_pair_starts_over(driver, parts):
    qpn = parts.make(S.RTS)
    driver.must(Op._2RST_QP, qpn=qpn)
    driver.must(Op.RST2INIT_QP, qpn=qpn, qpc=INIT)
    driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc={**RTR, "next_rcv_psn": 1})
    driver.must(Op.RTR2RTS_QP, qpn=qpn, qpc={**RTS, "next_send_psn": 2})
    context = parts.query(qpn)
    assert (context.next_rcv_psn, context.next_send_psn) == (1, 2)


def test_connection_as_the_driver_built_it(parts):
    """What each step carries is still there after the last: RTR2RTS must not wipe the path."""
    context = parts.query(parts.make(S.RTS)).as_dict()
    path = context["primary_address_path"]
    for given in (INIT, RTR, RTS):
        for name, value in given["primary_address_path"].items():
            assert path[name] == value, name
        for name in given.keys() - {"primary_address_path"}:
            assert context[name] == given[name], name


def test_step_takes_only_its_own_fields(driver, parts):
    """A modify carries a whole qpc; what is neither required nor selected is not looked at."""
    qpn = parts.make(S.RTR)
    before = parts.query(qpn).as_dict()
    stray = dict.fromkeys(("remote_qpn", "q_key", "pd", "cqn_snd", "dbr_addr"), 0xBAD)
    stray_path = {"rlid": 0xBAD, "pkey_index": 5}
    driver.must(Op.RTR2RTS_QP, qpn=qpn, qpc={**stray, "primary_address_path": stray_path})
    after = parts.query(qpn).as_dict()
    for name in stray:
        assert after[name] == before[name], name
    for name in (*stray_path, "sl", "rgid_rip"):
        path = "primary_address_path"
        assert after[path][name] == before[path][name], name


OPTIONS: dict[QpState, list[tuple[int, dict]]] = {
    S.RTS: [
        (RRE, {"rre": 0}),
        (RAE, {"rae": 1, "atomic_mode": 1}),
        (RWE, {"rwe": 0}),
        (Q_KEY, {"q_key": 0x1234}),
        (RNR_TIMEOUT, {"min_rnr_nak": 20}),
        (PM_STATE, {"pm_state": 1}),
    ],
    S.INIT: [
        (DRAIN_SIGERR, {"drain_sigerr": 1}),
        (PKEY_INDEX, {"primary_address_path": {"pkey_index": 4}}),
        (PRI_PORT, {"primary_address_path": {"vhca_port_num": 1}}),
    ],
}
STAYS = {S.RTS: Op.RTS2RTS_QP, S.INIT: Op.INIT2INIT_QP}


@pytest.mark.parametrize(
    ("state", "bit", "qpc"), [(state, *option) for state in OPTIONS for option in OPTIONS[state]]
)
def test_option_is_taken_when_selected_and_only_then(driver, parts, state, bit, qpc):
    qpn = parts.make(state)
    before = bytes(parts.query(qpn))
    driver.must(STAYS[state], qpn=qpn, qpc=qpc)
    assert bytes(parts.query(qpn)) == before
    driver.must(STAYS[state], qpn=qpn, qpc=qpc, opt_param_mask=1 << bit)
    after = parts.query(qpn)
    for name, value in qpc.items():
        if name == "primary_address_path":
            for field, wanted in value.items():
                assert getattr(after.primary_address_path, field) == wanted
        else:
            assert getattr(after, name) == value


def test_lag_affinity_is_kept_with_one_port_too(driver, parts):
    """Where it means nothing, any value is taken."""
    qpn = parts.make(S.RTS)
    before = parts.query(qpn)
    fields = {"qpc": {"lag_tx_port_affinity": 9}, "opt_param_mask": 1 << LAG_TX_AFF}
    driver.must(Op.RTS2RTS_QP, qpn=qpn, **fields)
    before.lag_tx_port_affinity = 9
    assert bytes(parts.query(qpn)) == bytes(before)


def test_datagram_queue_pair_gets_its_mtu_with_the_first_step(driver, parts):
    """A connected one gets it with INIT2RTR; a 0 there means "as before"."""
    qpn = parts.make(st=QpType.UD)
    qpc = {"mtu": 5, "log_msg_max": 12, "q_key": 0x11}
    driver.must(Op.RST2INIT_QP, qpn=qpn, qpc={**INIT, **qpc})
    driver.must(Op.INIT2RTR_QP, qpn=qpn)
    context = parts.query(qpn)
    assert (context.mtu, context.log_msg_max, context.q_key) == (5, 12, 0x11)


# In ERR the device looks for receives from time to time (IBTA 10.3.1).


def test_flush_takes_one_ring_at_a_look(driver, function, parts):
    """A counter that lies far ahead of the ring must not keep the device busy."""
    qpn = parts.make(S.ERR, log_rq_size=2)
    completions = function.hca.cqs.get(parts.cqn)
    driver.memory.write(function.hca.qps.get(qpn).ctx.dbr_addr, (0x8000).to_bytes(4, "big"))
    driver.bar.write(driver.uar * 4096 + 0x800, (qpn << 8).to_bytes(8, "big"))
    driver.bar.settle()
    assert completions.pi == 4


def test_doorbells_in_error_do_not_pile_up_timers(driver, clock, parts):
    qpn = parts.make(S.ERR)
    for _ in range(10):
        driver.bar.write(driver.uar * 4096 + 0x800, (qpn << 8).to_bytes(8, "big"))
        driver.bar.settle()
    assert clock.waiting() == 1
    driver.must(Op._2RST_QP, qpn=qpn)
    assert clock.waiting() == 0


# The counter set, which a modify may change.


@pytest.fixture
def counters(driver):
    return [driver.must(Op.ALLOC_Q_COUNTER).counter_set_id for _ in range(2)]


def test_counter_set_moves_with_the_queue_pair(driver, parts, counters, refused):
    """The set counted into cannot go; the one left behind can (rdma statistic qp bind)."""
    qpn = parts.make()
    driver.must(Op.RST2INIT_QP, qpn=qpn, qpc={**INIT, "counter_set_id": counters[0]})
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, counter_set_id=counters[0])
    driver.must(Op.INIT2RTR_QP, qpn=qpn, qpc=RTR)
    driver.must(Op.RTR2RTS_QP, qpn=qpn, qpc=RTS)
    fields = {"qpc": {"counter_set_id": counters[1]}, "opt_param_mask": 1 << COUNTER_SET}
    driver.must(Op.RTS2RTS_QP, qpn=qpn, **fields)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=counters[0])
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, counter_set_id=counters[1])
    driver.must(Op.DESTROY_QP, qpn=qpn)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=counters[1])


def test_counter_set_of_another_user_context_stays(driver, counters):
    """A process moves its queue pair on, whose set the driver has chosen."""
    uid = driver.must(Op.CREATE_UCTX).uid
    pd = driver.must(Op.ALLOC_PD, uid=uid).pd
    context = {"st": QpType.RC, "pd": pd, "no_sq": 1, "rq_type": RqType.ZERO_LEN_RQ}
    qpn = driver.must(Op.CREATE_QP, uid=uid, qpc=context).qpn
    driver.must(Op.RST2INIT_QP, qpn=qpn, qpc={**INIT, "counter_set_id": counters[0]})
    driver.must(Op.INIT2RTR_QP, uid=uid, qpn=qpn, qpc=RTR)
    found = driver.must(Op.QUERY_QP, qpn=qpn).qpc
    assert (found.state, found.counter_set_id) == (S.RTR, counters[0])


def test_counter_set_that_is_refused_changes_nothing(driver, parts, refused):
    qpn = parts.make(S.RTS)
    before = bytes(driver.must(Op.QUERY_QP, qpn=qpn).qpc)
    fields = {"qpc": {"counter_set_id": 0x77, "min_rnr_nak": 25}}
    mask = 1 << COUNTER_SET | 1 << RNR_TIMEOUT
    refused(Status.BAD_RES_ERR, Op.RTS2RTS_QP, qpn=qpn, **fields, opt_param_mask=mask)
    assert bytes(driver.must(Op.QUERY_QP, qpn=qpn).qpc) == before


def test_counter_set_that_does_not_exist(parts, refused):
    qpn = parts.make()
    refused(Status.BAD_RES_ERR, Op.RST2INIT_QP, qpn=qpn, qpc={**INIT, "counter_set_id": 0x77})
    qpn = parts.make(S.RTS)
    fields = {"qpc": {"counter_set_id": 0x77}, "opt_param_mask": 1 << COUNTER_SET}
    refused(Status.BAD_RES_ERR, Op.RTS2RTS_QP, qpn=qpn, **fields)
