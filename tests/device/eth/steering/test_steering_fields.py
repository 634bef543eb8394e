"""Commands of the Ethernet objects with a few bytes that are anything: taken or refused whole."""

from typing import Any

import pytest
from helpers.device.snapshot import snapshot
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.cmdif.registry import COMMANDS
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet import flow_fields, interfaces
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    group_fields,
    table_fields,
    to_table,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status

pytestmark = pytest.mark.hostile

FRAME = Frame(EthPacket().frame())
HEADER_BYTES = 8
RQT, RQT_ENTRIES = interfaces.rqt_context([1, 2])
BASES: dict[Op, dict[str, Any]] = {
    Op.CREATE_TIS: {"ctx": {"transport_domain": 1}},
    Op.MODIFY_TIS: {"tisn": 1, "bitmask": {"prio": 1}},
    Op.QUERY_TIS: {"tisn": 1},
    Op.CREATE_RQT: {"rqt_context": RQT, "extra": RQT_ENTRIES},
    Op.MODIFY_RQT: {"rqtn": 1, "bitmask": {"rqn_list": 1}, "ctx": RQT, "extra": RQT_ENTRIES},
    Op.QUERY_RQT: {"rqtn": 1},
    Op.CREATE_TIR: {
        "ctx": {"disp_type": 1, "transport_domain": 1, "indirect_table": 1} | interfaces.rss()
    },
    Op.MODIFY_TIR: {"tirn": 1, "bitmask": {"hash": 1}, "ctx": interfaces.rss()},
    Op.DESTROY_TIR: {"tirn": 2},
    Op.CREATE_FLOW_TABLE: table_fields(1, log_size=4, miss=2),
    Op.MODIFY_FLOW_TABLE: {
        "table_id": 1, "modify_field_select": 1, "flow_table_context": flow_fields.miss_fields(2),
    },
    Op.QUERY_FLOW_TABLE: {"table_id": 1},
    Op.SET_FLOW_TABLE_ROOT: {"table_id": 1},
    Op.CREATE_FLOW_GROUP: group_fields(1, 4, 5, tcp_dport=0xFFFF),
    Op.QUERY_FLOW_GROUP: {"table_id": 1, "group_id": 1},
    Op.SET_FLOW_TABLE_ENTRY: entry_fields(1, 1, 1, to_tir(1), to_table(2), counters=[1]),
    Op.QUERY_FLOW_TABLE_ENTRY: {"table_id": 1},
    Op.DELETE_FLOW_TABLE_ENTRY: {"table_id": 1},
    Op.DESTROY_FLOW_GROUP: {"table_id": 1, "group_id": 1},
    Op.DESTROY_FLOW_TABLE: {"table_id": 2},
    Op.QUERY_FLOW_COUNTER: {"flow_counter_id": 1, "clear": 1},
}  # fmt: skip
"""A command that is taken of each kind, or was the first time."""


@pytest.fixture
def furnished(driver):
    """One of everything, each with the number 1, and a second flow table above the first."""
    td = interfaces.alloc_td(driver)
    rqns = [interfaces.create_rq(driver) for _ in range(2)]
    interfaces.create_tis(driver, td)
    rqtn = interfaces.create_rqt(driver, rqns)
    interfaces.create_direct_tir(driver, td, rqns[0])
    interfaces.create_indirect_tir(driver, td, rqtn, **interfaces.rss())
    tables = Flows(driver)
    tables.counter()
    first, second = tables.table(1), tables.table(5)
    group = tables.group(first, 0, 3, ip_protocol=0xFF)
    tables.entry(first, 0, group, to_tir(1), to_table(second), ip_protocol=6)
    tables.set_root(first)
    return driver


@settings(
    max_examples=examples(600),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    op=st.sampled_from(sorted(BASES)),
    spoiled=st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 255)), max_size=3),
    cut=st.sampled_from([0, 0, 0, 0, 4, 8, 100]),
)
def test_any_fields(furnished, function, op, spoiled, cut):
    layout = COMMANDS[op].layout_in
    fields = dict(BASES[op])
    extra = fields.pop("extra", b"")
    data = bytearray(bytes(layout.new(opcode=op, **fields)) + extra)
    for at, value in spoiled:
        # Mostly where the fields are: the first bytes, and those behind what is reserved.
        data[HEADER_BYTES + at % (len(data) - HEADER_BYTES)] = value
    data = data[: max(len(data) - cut, 16)]
    before = snapshot(function.hca)
    delivery, raw = furnished.execute(bytes(data), COMMANDS[op].layout_out.size + 64)
    status = Status(raw[0])
    assert (delivery, function.hca.health.internal_errors) == (0, 0)
    assert status != Status.INT_ERR
    if status != Status.OK:
        assert int.from_bytes(raw[4:8], "big"), "no syndrome"
        assert snapshot(function.hca) == before
    arrive(function.hca, FRAME)
    assert not function.hca.health.has_failed
