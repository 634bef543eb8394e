"""Flow meters: entries of the FDB have packets coloured, later tables match the colours."""

from itertools import pairwise

import pytest
from helpers.device.meters import (
    ASO,
    create,
    metered,
    parameters,
    post,
    request,
    set_meter,
)
from helpers.device.snapshot import snapshot
from helpers.device.switches import UPLINK, Switch

from emu.device.objects.eth.flow_meter import FlowMeter, FlowMeterAso
from emu.device.port.eth.frame import Frame
from emu.device.rounds.costs import STEPS_PER_ASO
from emu.driver.ethernet.flow_fields import entry_fields, match_misc, to_table, to_vport
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.general_object import MeterColor, MeterMode
from layouts.objects.flow_meter import flow_meter_aso_obj, flow_meter_parameters
from layouts.rings.aso_wqe import READ_EN

RED, YELLOW, GREEN, UNDEFINED = MeterColor
FRAME = EthPacket(payload=bytes(146)).frame()
LENGTH = 200
MISC_2 = 1 << 3
MAX_METERS = 8
"""How many meters one packet may pass, as emu/device/engine/eth/README.md says."""
SECOND_NS = 1_000_000_000
EXECUTE = FlowAction.EXECUTE_ASO
AT_1_KBYTE = (1, 20)
"""A rate: about 954 bytes a second."""


class Metering(Switch):
    """Its first table has a meter, its second one drops what is not green."""

    def __init__(self, clock):
        super().__init__(clock)
        self.aso_sq = SendQueue(self.manager.node)
        self.object = create(self.driver, self.manager.node.pdn)
        self.clock = clock

    def meter(self, register=5, color=GREEN, place=0):
        """Counters of what is green, yellow and red."""
        counters = {color: self.fdb.counter() for color in (GREEN, YELLOW, RED)}
        criteria = match_misc({register: 0xFF})
        group = self.fdb.group(self.second, 0, 15, enable=MISC_2, match_criteria=criteria)
        for index, (mark, counter) in enumerate(counters.items()):
            to = [to_vport(UPLINK)] if mark is GREEN else []
            action = FlowAction.FWD_DEST if mark is GREEN else FlowAction.DROP
            value = match_misc({register: mark})
            self.fdb.entry(
                self.second, index, group, *to, action=action, value=value, counters=[counter]
            )
        self.entry(
            to_table(self.second), also=EXECUTE,
            beside=metered(self.object, place, register, color),
        )  # fmt: skip
        self.counters = counters

    def colors(self, number=1):
        """Send so many frames: how many packets have been green, yellow and red by then."""
        for _ in range(number):
            self.passes(FRAME)
        return self.counted()

    def counted(self):
        return [self.fdb.query_counter(counter)[0] for counter in self.counters.values()]


@pytest.fixture
def switch(clock):
    return Metering(clock)


def test_packets_above_the_burst_are_red(switch):
    assert len(FRAME) == LENGTH
    set_meter(switch.aso_sq, switch.object, burst=512)
    switch.meter()
    assert switch.colors(4) == [2, 0, 2]


def test_the_rate_fills_the_bucket(switch):
    set_meter(switch.aso_sq, switch.object, burst=512, rate=AT_1_KBYTE)
    switch.meter()
    assert switch.colors(3) == [2, 0, 1]
    switch.clock.advance(SECOND_NS // 10)
    assert switch.colors(2) == [3, 0, 2]
    switch.clock.advance(100 * SECOND_NS)
    assert switch.colors(3) == [5, 0, 3]


def test_a_meter_that_is_not_valid_leaves_packets_green(switch):
    switch.meter()
    assert switch.colors(3) == [3, 0, 0]


@pytest.mark.parametrize(
    ("mode", "burst", "green"),
    [
        (MeterMode.BYTES_IP_LENGTH, LENGTH - 14, 1),
        (MeterMode.BYTES_CALC_WITH_L2, LENGTH, 1),
        (MeterMode.BYTES_CALC_WITH_L2_IPG, LENGTH + 20, 1),
        (MeterMode.NUM_PACKETS, 128, 1),
        (MeterMode.NUM_PACKETS, 512, 4),
    ],
)
def test_what_is_counted(switch, mode, burst, green):
    set_meter(switch.aso_sq, switch.object, mode=mode, burst=burst - 1 if burst < 256 else burst)
    switch.meter()
    short = burst < 256
    assert switch.colors(5) == [green - short, 0, 5 - green + short]
    if short:
        set_meter(switch.aso_sq, switch.object, mode=mode, burst=burst)
        assert switch.colors(1)[0] == green


def test_the_excess_bucket_makes_packets_yellow(switch):
    set_meter(switch.aso_sq, switch.object, burst=255, ebs_mantissa=255)
    switch.meter()
    assert switch.colors(4) == [1, 1, 2]


@pytest.mark.parametrize(
    ("color", "seen"), [(YELLOW, [0, 1, 2]), (RED, [0, 0, 3]), (UNDEFINED, [1, 1, 1])]
)
def test_colours_from_before(switch, color, seen):
    set_meter(switch.aso_sq, switch.object, burst=255, ebs_mantissa=255)
    switch.meter(color=color)
    assert switch.colors(3) == seen


def test_the_two_meters_of_an_object_are_their_own(switch):
    set_meter(switch.aso_sq, switch.object, 0, burst=0)
    set_meter(switch.aso_sq, switch.object, 1, burst=255)
    switch.meter(place=1)
    assert switch.colors(2) == [1, 0, 1]
    set_meter(switch.aso_sq, switch.object, 0, burst=512)
    assert switch.colors(1) == [1, 0, 2]


def test_the_colour_is_in_the_register_that_the_entry_names(switch):
    set_meter(switch.aso_sq, switch.object, burst=255)
    switch.meter(register=3)
    assert switch.colors(2) == [1, 0, 1]


def test_super_frames_are_metered_by_the_packet(switch):
    set_meter(switch.aso_sq, switch.object, mode=MeterMode.NUM_PACKETS, burst=1024)
    switch.meter()
    whole = EthPacket(payload=bytes(10 * 100)).frame()
    switch.manager.hca.switch.forward(switch.manager.hca, Frame(whole, 100, checked=True))
    assert switch.counted() == [8, 0, 2]
    assert len(switch.wire.sent()) == 8


def test_more_meters_than_a_packet_may_pass(switch):
    tables = [switch.first, switch.second, *map(switch.fdb.table, range(2, MAX_METERS + 1))]
    for table, after in pairwise(tables):
        switch.entry(to_table(after), table=table, also=EXECUTE, beside=metered(switch.object))
    switch.entry(table=tables[-1])
    assert len(switch.passes(FRAME)) == 1
    one_more = switch.fdb.table(MAX_METERS + 1)
    switch.entry(table=one_more)
    group = switch.fdb.group(tables[-1], 1, 1)
    switch.fdb.delete(tables[-1], 0)
    switch.fdb.entry(
        tables[-1], 1, group, to_table(one_more), also=EXECUTE, beside=metered(switch.object)
    )
    assert not switch.passes(FRAME)


class TestObjects:
    def test_a_range_has_numbers_in_a_row(self, switch):
        pdn = switch.manager.node.pdn
        first, other = (create(switch.driver, pdn, log_range=6) for _ in range(2))
        assert abs(other - first) >= 64
        set_meter(switch.aso_sq, first + 63, burst=255)
        assert switch.aso_sq.cq.poll().syndrome == 0
        for number in (first, other, switch.object):
            switch.driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=ASO, obj_id=number)
        assert not len(switch.manager.hca.objects[FlowMeterAso])

    def test_parameters_at_creation(self, switch):
        obj = bytes(flow_meter_aso_obj.new(meter_aso_access_pd=switch.manager.node.pdn))
        given = obj[:-64] + parameters(burst=255) + bytes(32)
        answer = switch.driver.must(Op.CREATE_GENERAL_OBJECT, op_mod=ASO, extra=given)
        switch.object = answer.obj_id
        switch.meter()
        assert switch.colors(2) == [1, 0, 1]

    def test_a_meter_in_use_stays(self, switch):
        switch.meter()
        held = {"op_mod": ASO, "obj_id": switch.object}
        refused(switch, Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **held)
        switch.fdb.delete(switch.first, 0)
        switch.driver.must(Op.DESTROY_GENERAL_OBJECT, **held)

    def test_an_entry_gets_another_meter(self, switch):
        switch.meter()
        other = create(switch.driver, switch.manager.node.pdn)
        group = switch.driver.must(
            Op.QUERY_FLOW_TABLE_ENTRY, table_type=FlowTableType.FDB, table_id=switch.first
        ).flow_context.group_id
        switch.fdb.modify(
            switch.first, 0, group, to_table(switch.second), also=EXECUTE, beside=metered(other)
        )
        switch.driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=ASO, obj_id=switch.object)
        set_meter(switch.aso_sq, other, burst=255)
        assert switch.colors(2) == [1, 0, 1]

    def test_what_is_refused(self, switch):
        pdn = switch.manager.node.pdn
        new, away = Op.CREATE_GENERAL_OBJECT, Op.DESTROY_GENERAL_OBJECT
        refused(switch, Status.LIM_ERR, new, op_mod=ASO, log_obj_range=7)
        refused(switch, Status.BAD_RES_ERR, new, op_mod=ASO, extra=bytes(20))
        middle = create(switch.driver, pdn, log_range=2) + 1
        refused(switch, Status.BAD_RES_STATE_ERR, away, op_mod=ASO, obj_id=middle)
        refused(switch, Status.BAD_RES_STATE_ERR, away, op_mod=ASO, obj_id=0xFFFF_FFFF)

    def test_as_many_as_advertised(self, switch):
        hca = switch.manager.hca
        most = 1 << hca.caps.qos.log_max_num_meter_aso
        table = hca.objects[FlowMeterAso]
        assert (table.limit << hca.caps.qos.log_meter_aso_max_alloc) == most


def refused(switch, status, op, **fields):
    before = snapshot(switch.manager.hca)
    assert switch.driver.command(op, **fields).status == status
    assert snapshot(switch.manager.hca) == before


class TestEntries:
    @pytest.mark.parametrize(
        ("beside", "status"),
        [
            ({}, Status.BAD_PARAM_ERR),
            ({"valid": 0}, Status.BAD_PARAM_ERR),
            ({"aso_object_id": 0xFFFFFF}, Status.BAD_RES_ERR),
            ({"exe_aso_ctrl": bytes.fromhex("51000004")}, Status.BAD_PARAM_ERR),
            ({"exe_aso_ctrl": bytes.fromhex("82000004")}, Status.BAD_PARAM_ERR),
        ],
        ids=["nothing", "not valid", "no object", "another type", "no register"],
    )
    def test_what_is_refused(self, switch, beside, status):
        group = switch.fdb.group(switch.first, 0, 0)
        fields = entry_fields(
            switch.first, 0, group, to_table(switch.second), also=EXECUTE,
            beside=metered(switch.object, **beside) if beside else {},
        )  # fmt: skip
        refused(switch, status, Op.SET_FLOW_TABLE_ENTRY, table_type=FlowTableType.FDB, **fields)

    def test_an_object_behind_the_range(self, switch):
        group = switch.fdb.group(switch.first, 0, 0)
        fields = entry_fields(
            switch.first, 0, group, to_table(switch.second), also=EXECUTE,
            beside=metered(switch.object + 1),
        )  # fmt: skip
        fields["table_type"] = FlowTableType.FDB
        refused(switch, Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)


class TestRequests:
    def test_a_read_returns_what_was_there(self, switch):
        node = switch.manager.node
        set_meter(switch.aso_sq, switch.object, burst=255)
        region = node.region(4096)
        va = region.va
        body = request(bytes(64), va_h=va >> 32, va_l=va & 0xFFFF_FFFF | READ_EN, l_key=region.key)
        post(switch.aso_sq, switch.object, body)
        assert region.read(0, 64) == parameters(burst=255) + bytes(32)
        data = switch.manager.hca.objects[FlowMeterAso].get(switch.object >> 6).data(switch.object)
        assert data == bytes(64)

    @pytest.mark.hostile
    def test_is_charged(self, switch):
        budget = switch.manager.hca.budget
        before = budget.steps
        post(switch.aso_sq, switch.object, request(bytes(64)))
        assert budget.steps - before >= STEPS_PER_ASO

    def test_a_condition_that_never_holds_writes_nothing(self, switch):
        body = request(parameters(burst=255).ljust(64, b"\0"), condition_1_0_operand=0)
        post(switch.aso_sq, switch.object, body)
        switch.meter()
        assert switch.colors(2) == [2, 0, 0]

    @pytest.mark.parametrize(
        ("body", "opmod", "offset"),
        [
            (request(bytes(64)), 0, 0),
            (request(bytes(64))[:32], 2, 0),
            (request(), 2, 0),
            (request(bytes(64)), 2, 1),
            (request(bytes(64)), 2, 1 << 20),
            (request(bytes(64), data_mask_mode=0), 2, 0),
            (request(bytes(64), condition_1_0_operand=2), 2, 0),
            (request(bytes(64), data_offset_condition_operand=0xFF), 2, 0),
        ],
        ids=["type", "short", "no data", "behind the range", "object", "mask", "condition", "join"],
    )
    def test_what_is_wrong_stops_the_queue(self, switch, body, opmod, offset):
        set_meter(switch.aso_sq, switch.object, burst=255)
        assert switch.aso_sq.cq.poll().syndrome == 0
        post(switch.aso_sq, switch.object + offset, body, opmod)
        assert switch.aso_sq.cq.poll().syndrome == CqeSyndrome.LOCAL_QP_OP_ERR
        switch.meter()
        assert switch.colors(2) == [1, 0, 1]

    def test_a_read_to_nowhere(self, switch):
        body = request(parameters(burst=255).ljust(64, b"\0"), va_l=READ_EN, l_key=0x123400)
        post(switch.aso_sq, switch.object, body)
        assert switch.aso_sq.cq.poll().syndrome == CqeSyndrome.LOCAL_PROT_ERR
        switch.meter()
        assert switch.colors(2) == [2, 0, 0]

    def test_a_queue_of_another_domain(self, switch):
        pdn = switch.driver.must(Op.ALLOC_PD).pd
        other = SendQueue(switch.manager.node, wq={"pd": pdn})
        set_meter(other, switch.object, burst=255)
        assert other.cq.poll().syndrome == CqeSyndrome.LOCAL_QP_OP_ERR


def meter(**fields):
    return FlowMeter(flow_meter_parameters.view(bytearray(parameters(**fields))))


def test_what_the_committed_bucket_has_no_room_for_fills_the_other():
    one = meter(burst=200, rate=AT_1_KBYTE, ebs_mantissa=200, bucket_overflow=1)
    assert [one.color(GREEN, 200, 14, 0) for _ in range(3)] == [GREEN, YELLOW, RED]
    assert [one.color(GREEN, 200, 14, SECOND_NS) for _ in range(3)] == [GREEN, YELLOW, RED]


def test_green_packets_may_take_from_both():
    one = meter(burst=255, ebs_mantissa=255, both_buckets_on_green=1)
    assert [one.color(GREEN, 200, 14, 0) for _ in range(2)] == [GREEN, RED]


def test_time_that_stands_still_or_goes_back_fills_nothing():
    one = meter(burst=255, rate=(0xFF, 0))
    assert one.color(GREEN, 255, 14, SECOND_NS) is GREEN
    assert one.color(GREEN, 255, 14, 0) is RED
