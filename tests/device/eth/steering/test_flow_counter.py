"""Flow counters."""

from struct import iter_unpack

import pytest
from helpers.device.refusals import missing

from emu.driver.ethernet.flows import Flows
from layouts.enums.cmd import Op, Status
from layouts.enums.fte import FlowAction
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


@pytest.mark.parametrize("fields", [
    {"flow_counter_bulk": 1}, {"flow_counter_bulk": 0xFF}, {"flow_counter_bulk_log_size": 3},
])  # fmt: skip
def test_bulks_of_another_size(driver, refused, fields):
    refused(Status.BAD_PARAM_ERR, Op.ALLOC_FLOW_COUNTER, **fields)


class TestBulk:
    """512 counters by one command, each of which an entry can count in."""

    SIZE = 512

    @pytest.fixture
    def first(self, driver):
        assert driver.caps.flow_counter_bulk_alloc * 128 == self.SIZE
        return driver.must(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4).flow_counter_id

    def test_each_has_a_number(self, driver, function, number, first):
        other = driver.must(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4).flow_counter_id
        assert abs(other - first) >= self.SIZE
        assert number not in range(first, first + self.SIZE)
        counters = [function.hca.flow_counters.get(first + at) for at in range(self.SIZE)]
        counters[0].packets, counters[-1].octets = 3, 5
        assert query(driver, first) == (3, 0)
        assert query(driver, first + self.SIZE - 1, clear=1) == (0, 5)
        assert query(driver, first + self.SIZE - 1) == (0, 0)
        answer = driver.must(
            Op.QUERY_FLOW_COUNTER, out_extra=self.SIZE * traffic_counter.size,
            flow_counter_id=first, num_of_counters=self.SIZE,
        )  # fmt: skip
        assert [one.packets for one in answer.flow_statistics] == [3] + [0] * (self.SIZE - 1)

    def test_all_go_together(self, driver, first, refused):
        for at in (1, self.SIZE - 1):
            refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_FLOW_COUNTER, flow_counter_id=first + at)
        driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=first)
        for at in (0, 1, self.SIZE - 1):
            refused(Status.BAD_RES_ERR, Op.QUERY_FLOW_COUNTER, flow_counter_id=first + at)
        refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_FLOW_COUNTER, flow_counter_id=first)

    def test_none_goes_while_an_entry_counts_in_one(self, driver, first, refused):
        flows = Flows(driver)
        table = flows.table(0)
        group = flows.group(table, 0, 0)
        flows.entry(table, 0, group, action=FlowAction.DROP, counters=[first + 7])
        refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_FLOW_COUNTER, flow_counter_id=first)
        flows.delete(table, 0)
        driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=first)

    def test_numbers_are_used_again(self, driver):
        most = (driver.caps.max_flow_counter_31_16 << 16 | driver.caps.max_flow_counter_15_0) // 2
        made = [
            driver.must(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4).flow_counter_id
            for _ in range(most // self.SIZE)
        ]
        assert len({*made}) == len(made)
        assert max(made) + self.SIZE <= 2 * most + 1
        answer = driver.command(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4)
        assert answer.status == Status.LIM_ERR
        driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=made[5])
        assert driver.must(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4).flow_counter_id == made[5]

    def test_counters_beside_bulks(self, driver, function, first):
        """A counter of its own is there as long as half of the numbers are not."""
        numbers = {function.hca.flow_counters.add() for _ in range(1000)}
        assert not numbers & {*range(first, first + self.SIZE)}


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
    for _ in range(most // 2 - 2):  # the other half is of bulks
        function.hca.flow_counters.add()
    driver.must(Op.ALLOC_FLOW_COUNTER)
    refused(Status.LIM_ERR, Op.ALLOC_FLOW_COUNTER)


class TestDump:
    """Counters that are written into memory (DPDK's mlx5_devx_cmd_flow_counter_query)."""

    SIZE = 512

    @pytest.fixture
    def first(self, driver, function):
        number = driver.must(Op.ALLOC_FLOW_COUNTER, flow_counter_bulk=4).flow_counter_id
        for at in range(self.SIZE):
            counter = function.hca.flow_counters.get(number + at)
            counter.packets, counter.octets = at, 100 * at
        return number

    @pytest.fixture
    def region(self, node):
        return node.region(self.SIZE * traffic_counter.size)

    def fields(self, first, region, **others):
        return {
            "flow_counter_id": first, "num_of_counters": self.SIZE, "dump_to_memory": 1,
            "mkey": region.key, "address": region.va,
        } | others  # fmt: skip

    def found(self, region):
        data = region.read()
        return list(iter_unpack(">QQ", data))

    def test_a_bulk(self, driver, first, region):
        driver.must(Op.QUERY_FLOW_COUNTER, **self.fields(first, region))
        assert self.found(region) == [(at, 100 * at) for at in range(self.SIZE)]
        driver.must(Op.QUERY_FLOW_COUNTER, **self.fields(first, region, clear=1))
        assert query(driver, first + 7) == (0, 0)

    def test_one(self, driver, first, region):
        one = {"num_of_counters": 0, "address": region.va + 16}
        driver.must(Op.QUERY_FLOW_COUNTER, **self.fields(first + 5, region, **one))
        assert self.found(region)[:3] == [(0, 0), (5, 500), (0, 0)]

    @pytest.mark.hostile
    @pytest.mark.parametrize("shift", [16, -16, 1 << 40])
    def test_memory_that_the_key_does_not_have(self, driver, first, region, refused, shift):
        """Refused, they are not cleared either."""
        wrong = self.fields(first, region, address=region.va + shift & (1 << 64) - 1, clear=1)
        refused(Status.BAD_PARAM_ERR, Op.QUERY_FLOW_COUNTER, **wrong)
        assert query(driver, first + 7) == (7, 700)
        assert not any(region.read())

    @pytest.mark.hostile
    def test_keys_that_do_not_allow_it(self, node, driver, first, region, refused):
        readable = node.region(self.SIZE * traffic_counter.size, lw=0)
        wrong = Op.QUERY_FLOW_COUNTER, self.fields(first, readable)
        refused(Status.BAD_PARAM_ERR, wrong[0], **wrong[1])
        refused(Status.BAD_PARAM_ERR, wrong[0], **self.fields(first, region, mkey=region.key ^ 1))
        refused(Status.BAD_RES_ERR, wrong[0], **self.fields(first, region, mkey=0xABCDEF00))

    @pytest.mark.hostile
    def test_a_user_has_only_its_own_keys(self, driver, first, region, refused):
        uid = driver.must(Op.CREATE_UCTX).uid
        number = driver.must(Op.ALLOC_FLOW_COUNTER, _uid=uid).flow_counter_id
        wrong = self.fields(number, region, num_of_counters=1)
        refused(Status.BAD_RES_ERR, Op.QUERY_FLOW_COUNTER, _uid=uid, **wrong)

    @pytest.mark.parametrize("limits", [{"flow_counters_dump": 0}])
    def test_adapters_without_it(self, driver, first, region, refused):
        refused(Status.BAD_PARAM_ERR, Op.QUERY_FLOW_COUNTER, **self.fields(first, region))
