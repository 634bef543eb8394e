"""Counter sets of queue pairs, and the vnic diagnostics."""

import pytest
from helpers.device.port_events import port_event_queue
from helpers.device.refusals import missing

from layouts.enums.cmd import Op, Status


@pytest.fixture
def number(driver):
    return driver.must(Op.ALLOC_Q_COUNTER).counter_set_id


def test_number_is_never_zero(number):
    """0 means "no set" in a qpc."""
    assert number


def test_values_count_until_they_are_cleared(driver, function, number):
    function.hca.counters.get(number).values.update(out_of_buffer=5, rx_read_requests=1 << 33 | 7)
    answer = driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number)
    assert (answer.out_of_buffer, answer.rx_read_requests) == (5, 7)
    driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number, clear=1)
    assert not any(driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number).raw)


def test_new_set_starts_at_zero(driver, number):
    assert not any(driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number).raw)


@pytest.mark.parametrize("fields", [{"other_vport": 1}, {"aggregate": 1}])
def test_only_own_sets_one_at_a_time(number, refused, fields):
    refused(Status.BAD_PARAM_ERR, Op.QUERY_Q_COUNTER, counter_set_id=number, **fields)


def test_freed_set_is_gone(driver, number, refused):
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=number)
    for op in (Op.DEALLOC_Q_COUNTER, Op.QUERY_Q_COUNTER):
        refused(missing(op), op, counter_set_id=number)


@pytest.mark.parametrize("number", [0, 0x77, 0xFF])
@pytest.mark.parametrize("op", [Op.DEALLOC_Q_COUNTER, Op.QUERY_Q_COUNTER])
def test_number_that_never_was(refused, op, number):
    refused(missing(op), op, counter_set_id=number)


def test_every_set_fits_into_the_contexts_eight_bits(driver, refused):
    made = [driver.must(Op.ALLOC_Q_COUNTER).counter_set_id for _ in range(driver.caps.max_qp_cnt)]
    assert len(set(made)) == driver.caps.max_qp_cnt
    assert max(made) <= 0xFF
    refused(Status.LIM_ERR, Op.ALLOC_Q_COUNTER)


def test_diagnostics_tell_overruns_of_both_kinds(driver, function):
    """devlink health diagnose shows these (core/diag/reporter_vnic.c)."""
    asynchronous = port_event_queue(driver, function, log_size=2)
    completion = function.hca.eqs.get(driver.create_eq(log_size=2))
    for _ in range(6):
        asynchronous.raise_one()
    completion.overruns = 7
    assert function.hca.eqs.get(asynchronous.eqn).overruns == 2
    env = driver.must(Op.QUERY_VNIC_ENV).vport_env
    assert (env.async_eq_overrun, env.comp_eq_overrun) == (2, 7)


def test_diagnostics_count_unknown_commands(driver):
    driver.execute(int(Op.CREATE_QOS_PARA_VPORT).to_bytes(2, "big") + bytes(14), 16)
    assert driver.must(Op.QUERY_VNIC_ENV).vport_env.invalid_command == 1


@pytest.mark.parametrize("fields", [{"other_vport": 1}, {"vport_number": 1}])
def test_diagnostics_of_another_vport(refused, fields):
    refused(Status.BAD_PARAM_ERR, Op.QUERY_VNIC_ENV, **fields)
