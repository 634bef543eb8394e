"""Flow counters."""

import pytest
from helpers.device.refusals import missing

from emu.device.objects.eth.flow_counter import FlowCounter
from layouts.enums import Op, Status
from layouts.function.vport import traffic_counter


@pytest.fixture
def number(driver):
    return driver.must(Op.ALLOC_FLOW_COUNTER).flow_counter_id


def query(driver, number, **fields):
    answer = driver.must(
        Op.QUERY_FLOW_COUNTER, out_extra=traffic_counter.size, flow_counter_id=number, **fields
    )
    (found,) = answer.flow_statistics
    return found.packets, found.octets


def test_starts_at_zero_and_counts_until_it_is_cleared(driver, function, number):
    assert number
    assert query(driver, number) == (0, 0)
    counter = function.hca.flow_counters.get(number)
    counter.packets, counter.octets = 3, 1 << 40
    assert query(driver, number, num_of_counters=1, clear=1) == (3, 1 << 40)
    assert query(driver, number) == (0, 0)


def test_freed_counter_is_gone(driver, number, refused):
    driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=number)
    for wrong in (number, 0, 0xFFFFFFFF):
        for op in (Op.DEALLOC_FLOW_COUNTER, Op.QUERY_FLOW_COUNTER):
            refused(missing(op), op, flow_counter_id=wrong)


@pytest.mark.parametrize("fields", [{"flow_counter_bulk": 1}, {"flow_counter_bulk_log_size": 3}])
def test_no_bulks_are_offered(driver, refused, fields):
    assert driver.caps.flow_counter_bulk_alloc == 0
    refused(Status.BAD_PARAM_ERR, Op.ALLOC_FLOW_COUNTER, **fields)


def test_query_of_more_than_there_is_room_for(driver, number, refused):
    most = 1 << driver.caps.log_max_flow_counter_bulk
    for count, status in ((most + 1, Status.BAD_PARAM_ERR), (2, Status.BAD_OUTP_LEN_ERR)):
        refused(status, Op.QUERY_FLOW_COUNTER, flow_counter_id=number, num_of_counters=count)
    refused(Status.BAD_OUTP_LEN_ERR, Op.QUERY_FLOW_COUNTER, flow_counter_id=number)


def test_a_range_may_have_numbers_that_are_no_counter(driver, function, number):
    """mlx5_fc_stats_query_counter_range asks for four at least, from a multiple of four on."""
    other = driver.must(Op.ALLOC_FLOW_COUNTER).flow_counter_id
    counters = [function.hca.flow_counters.get(one) for one in (number, other)]
    counters[0].packets, counters[1].octets = 3, 5
    driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=number)
    answer = driver.must(
        Op.QUERY_FLOW_COUNTER, out_extra=4 * traffic_counter.size, flow_counter_id=0,
        num_of_counters=4, clear=1,
    )  # fmt: skip
    found = {n: (one.packets, one.octets) for n, one in enumerate(answer.flow_statistics)}
    assert found == {n: (0, 5) if n == other else (0, 0) for n in range(4)}
    assert query(driver, other) == (0, 0)


def test_there_are_as_many_as_advertised(driver, function, refused):
    most = driver.caps.max_flow_counter_31_16 << 16 | driver.caps.max_flow_counter_15_0
    for _ in range(most - 1):
        function.hca.flow_counters.add(FlowCounter())
    driver.must(Op.ALLOC_FLOW_COUNTER)
    refused(Status.NO_RES_ERR, Op.ALLOC_FLOW_COUNTER)
