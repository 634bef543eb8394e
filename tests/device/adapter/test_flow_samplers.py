"""Flow samplers: entries of the FDB lead to them, and some packets go to another table as well."""

import pytest
from helpers.device.snapshot import snapshot
from helpers.device.switches import UPLINK, Switch

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import entry_fields, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, FlowDestination
from layouts.enums.general_object import GeneralObject
from layouts.steering.fte import dest_format_struct
from layouts.steering.sampler import sampler_obj

SAMPLER = GeneralObject.SAMPLER
FRAME = EthPacket(payload=bytes(64)).frame()
MANAGER = 0


def to_sampler(number):
    return bytes(
        dest_format_struct.new(destination_type=FlowDestination.FLOW_SAMPLER, destination_id=number)
    )


class Sampling(Switch):
    """All packets go to the cable, samples to the manager; both are counted."""

    def __init__(self, clock):
        super().__init__(clock)
        self.samples = self.fdb.table(1)
        self.counters = [self.fdb.counter() for _ in range(2)]
        self.entry(to_vport(UPLINK), table=self.second, counters=self.counters[:1])
        self.entry(to_vport(MANAGER), table=self.samples, counters=self.counters[1:])

    def fields(self, **obj):
        given = {
            "table_type": FlowTableType.FDB, "sample_ratio": 1, "sample_table_id": self.samples,
            "default_table_id": self.second, "level": 1, "ignore_flow_level": 1,
        } | obj  # fmt: skip
        return {"op_mod": SAMPLER, "extra": bytes(sampler_obj.new(**given))}

    def sampler(self, **obj):
        return self.driver.must(Op.CREATE_GENERAL_OBJECT, **self.fields(**obj)).obj_id

    def counted(self):
        return [self.fdb.query_counter(counter)[0] for counter in self.counters]


@pytest.fixture
def switch(clock):
    return Sampling(clock)


@pytest.fixture
def refused(switch):
    def check(status, op, **fields):
        before = snapshot(switch.manager.hca)
        assert switch.driver.command(op, **fields).status == status
        assert snapshot(switch.manager.hca) == before

    return check


@pytest.mark.parametrize(("ratio", "samples"), [(1, 8), (3, 2), (8, 1), (9, 0)])
def test_some_packets_are_samples(switch, ratio, samples):
    switch.entry(to_sampler(switch.sampler(sample_ratio=ratio)))
    for _ in range(8):
        assert len(switch.passes(FRAME)) == 1
    assert switch.counted() == [8, samples]


def test_super_frames_are_sampled_by_the_packet(switch):
    switch.entry(to_sampler(switch.sampler(sample_ratio=4)))
    whole = EthPacket(payload=bytes(10 * 100)).frame()
    hca = switch.manager.hca
    hca.switch.forward(hca, Frame(whole, 100, checked=True))
    assert switch.counted() == [10, 2]


def test_one_that_leads_back_to_itself_ends(switch):
    switch.entry(to_sampler(switch.sampler(default_table_id=switch.first)))
    assert not switch.passes(FRAME)
    assert switch.counted() == [0, 0]


def test_what_it_refers_to_stays(switch, refused):
    number = switch.sampler()
    switch.entry(to_sampler(number))
    held = {"op_mod": SAMPLER, "obj_id": number}
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **held)
    refused(
        Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_TABLE, table_type=FlowTableType.FDB,
        table_id=switch.second,
    )  # fmt: skip
    switch.fdb.delete(switch.first, 0)
    switch.driver.must(Op.DESTROY_GENERAL_OBJECT, **held)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, **held)


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        ({"sample_ratio": 0}, Status.BAD_PARAM_ERR),
        ({"table_type": FlowTableType.NIC_RX}, Status.BAD_PARAM_ERR),
        ({"ignore_flow_level": 0}, Status.BAD_PARAM_ERR),
        ({"sample_table_id": 0xFFFF}, Status.BAD_RES_ERR),
        ({"default_table_id": 0xFFFF}, Status.BAD_RES_ERR),
    ],
    ids=["ratio", "type", "level", "no sample table", "no default table"],
)
def test_what_is_refused(switch, refused, obj, status):
    refused(status, Op.CREATE_GENERAL_OBJECT, **switch.fields(**obj))


def test_a_table_of_another_type(switch, refused):
    other = Flows(switch.driver).table(1)
    fields = switch.fields(sample_table_id=other)
    refused(Status.BAD_RES_ERR, Op.CREATE_GENERAL_OBJECT, **fields)


def test_more_than_one(switch, refused):
    fields = switch.fields() | {"log_obj_range": 1}
    refused(Status.LIM_ERR, Op.CREATE_GENERAL_OBJECT, **fields)


def test_entries_that_may_not_lead_there(switch, refused):
    """One of another type of tables, one of a level that is not below, one without a sampler."""
    number = switch.sampler()
    rx = Flows(switch.driver)
    table = rx.table(0)
    cases = [
        (FlowTableType.NIC_RX, table, rx.group(table, 0, 0), number, Status.BAD_PARAM_ERR),
        (FlowTableType.FDB, switch.second, switch.fdb.group(switch.second, 1, 1), number,
         Status.BAD_PARAM_ERR),
        (FlowTableType.FDB, switch.first, switch.fdb.group(switch.first, 0, 1), number + 9,
         Status.BAD_RES_ERR),
    ]  # fmt: skip
    for table_type, table, group, sampler, status in cases:
        fields = entry_fields(
            table, 1 if table == switch.second else 0, group, to_sampler(sampler),
            action=FlowAction.FWD_DEST,
        )  # fmt: skip
        refused(status, Op.SET_FLOW_TABLE_ENTRY, table_type=table_type, **fields)
