"""Bonds of two switches whose ports flow tables choose, and multi-port E-Switches."""

import pytest
from helpers.device.boards import remap
from helpers.device.port_selection import (
    BY_TABLES,
    KIND,
    MACS,
    MODEL,
    PORTS,
    SPLIT,
    PortTables,
    definer_fields,
)
from helpers.device.shared_fdb import NATIVE, UPLINK, VPORT, SharedBoard, queue, send
from helpers.device.snapshot import snapshot

from emu.driver.ethernet.flow_fields import group_fields, table_fields, to_table, to_vport
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.lag import LagPortSelect, ModifyLag
from layouts.steering import match_definer as layout

WRONG, GONE = Status.BAD_PARAM_ERR, Status.BAD_RES_ERR
FLOWS = 40
MPESW = {"port_select_mode": LagPortSelect.PORT_SELECT_MPESW}


@pytest.fixture
def both(clock):
    """Whatever vPort a packet comes from, the FDB leads it to the first cable."""
    return Board(clock)


class Board(SharedBoard):
    def __init__(self, clock):
        super().__init__(clock, MODEL)
        to_cable = to_vport(UPLINK, vhca=0)
        sources = ((0, VPORT, to_cable), (1, VPORT, to_cable), (0, 0, to_cable))
        self.table = self.by_source(*sources)


def bond(both, ctx=BY_TABLES):
    both.first.driver.must(Op.CREATE_LAG, ctx=ctx | NATIVE)
    assert both.share(both.table).status == Status.OK


@pytest.fixture
def tables(both):
    found = PortTables(both.first.driver, [port.id for port in both.ports])
    bond(both)
    return found


def frame(number=0, **parts):
    return EthPacket(ports=(1000 + number).to_bytes(2, "big") + b"\0\x50", **parts).frame()


def leave_by(both, sq, member, frames):
    """How many of these frames leave by each port."""
    for each in frames:
        send(member, sq, each)
    return [port.sent() for port in both.ports]


def test_flows_are_spread_over_the_ports_and_each_keeps_its_own(both, tables):
    for port in both.ports:
        sq = queue(port.other)
        spread = leave_by(both, sq, port.other, [frame(n) for n in range(FLOWS)])
        assert sum(spread) == FLOWS
        assert min(spread) > FLOWS // 5
        for number in range(4):
            assert sorted(leave_by(both, sq, port.other, [frame(number)] * 5)) == [0, 5]


def test_when_a_port_goes_down_its_entries_lead_to_the_other(both, tables):
    sq = queue(both.first.other)
    frames = [frame(n) for n in range(FLOWS)]
    for port in (1, 2):
        tables.lead(port, port)
        assert leave_by(both, sq, both.first.other, frames)[port - 1] == FLOWS


def test_what_the_hash_is_over(both):
    """Ports do not count for one over MAC addresses; all of a packet's flows go one way."""
    PortTables(both.first.driver, [port.id for port in both.ports], **MACS)
    bond(both)
    sq = queue(both.first.other)
    assert 0 in leave_by(both, sq, both.first.other, [frame(n) for n in range(FLOWS)])


def test_packets_without_the_fields_leave_as_well(both, tables):
    sq = queue(both.first.other)
    sent = leave_by(
        both,
        sq,
        both.first.other,
        [frame(version=6), b"\xff" * 6 + frame()[6:12] + b"\x88\xb5" + bytes(50)],
    )
    assert sum(sent) == 2


def test_a_strict_queue_keeps_its_port(both, tables):
    """An interface talks to its own link partner (LACP)."""
    sq = queue(both.first.manager, strict_lag_tx_port_affinity=1)
    frames = [frame(n) for n in range(8)]
    assert leave_by(both, sq, both.first.manager, frames) == [8, 0]


def test_an_affinity_counts_only_where_a_driver_has_asked_for_it(both, tables):
    frames = [frame(n) for n in range(FLOWS)]
    sq = queue(both.first.manager, lag_tx_port_affinity=2)
    assert min(leave_by(both, sq, both.first.manager, frames)) > 0
    caps = both.first.manager.hca.caps.port_selection
    refused = both.first.driver.command(
        Op.MODIFY_LAG, field_select=ModifyLag.ACTIVE_PORT, ctx={"active_port": 3}
    )
    assert refused.status == WRONG
    caps.port_select_flow_table_bypass = 1
    must = both.first.driver.must
    must(Op.MODIFY_LAG, field_select=ModifyLag.ACTIVE_PORT, ctx={"active_port": 3})
    assert must(Op.QUERY_LAG).ctx.active_port == 3
    assert leave_by(both, sq, both.first.manager, frames) == [0, FLOWS]
    must(Op.MODIFY_LAG, field_select=ModifyLag.ACTIVE_PORT, ctx={"active_port": 1})
    assert min(leave_by(both, sq, both.first.manager, frames)) > 0, "its port is not active"


def test_without_tables_packets_leave_where_they_are_led(both):
    bond(both)
    sq = queue(both.first.other)
    assert leave_by(both, sq, both.first.other, [frame(n) for n in range(8)]) == [8, 0]


def test_the_order_in_which_a_driver_ends_it(both, tables):
    both.first.driver.must(Op.DESTROY_LAG)
    tables.destroy()
    sq = queue(both.first.other)
    assert leave_by(both, sq, both.first.other, [frame(n) for n in range(8)]) == [8, 0]


def test_switches_that_share_nothing(both):
    """Each packet passes the FDB of the port that the tables choose."""
    own = to_vport(UPLINK, vhca=1)
    both.by_source((0, VPORT, own), (1, VPORT, own), port=both.second)
    PortTables(both.first.driver, [port.id for port in both.ports])
    both.first.driver.must(Op.CREATE_LAG, ctx=BY_TABLES)
    sq = queue(both.first.other)
    spread = leave_by(both, sq, both.first.other, [frame(n) for n in range(FLOWS)])
    assert min(spread) > FLOWS // 5


def test_a_multi_port_switch_has_no_choice_of_ports(both):
    """Packets leave by the cable that the entry names, whatever their queue says."""
    bond(both, MPESW)
    ctx = both.second.driver.must(Op.QUERY_LAG).ctx
    assert (ctx.port_select_mode, ctx.lag_state) == (LagPortSelect.PORT_SELECT_MPESW, 1)
    sq = queue(both.first.manager, lag_tx_port_affinity=2)
    assert leave_by(both, sq, both.first.manager, [frame()]) == [1, 0]
    refused = both.first.driver.command(Op.MODIFY_LAG, field_select=1, ctx=remap(2, 2))
    assert refused.status == WRONG
    both.first.driver.must(Op.DESTROY_LAG)


def test_the_other_function_may_come_later(both):
    both.second.driver.must(Op.TEARDOWN_HCA)
    both.first.driver.must(Op.CREATE_LAG, ctx=MPESW | NATIVE)


def test_the_driver_asks_for_the_bypass(both):
    caps = both.first.manager.hca.caps
    most = caps.page(CapType.PORT_SELECTION, CapMode.MAX)
    now = caps.page(CapType.PORT_SELECTION, CapMode.CUR)
    assert [page[2] >> 5 & 1 for page in (most, now)] == [1, 0]
    caps.set(CapType.PORT_SELECTION, most)
    assert caps.port_selection.port_select_flow_table_bypass


def test_a_definer_stays_while_a_group_names_it(both, tables):
    driver = both.first.driver
    held = {"op_mod": definer_fields()["op_mod"], "obj_id": tables.definer}
    refused = driver.command(Op.DESTROY_GENERAL_OBJECT, **held)
    assert refused.status == Status.BAD_RES_STATE_ERR
    other = driver.must(Op.CREATE_GENERAL_OBJECT, **definer_fields(**PORTS)).obj_id
    driver.must(Op.DESTROY_GENERAL_OBJECT, **held | {"obj_id": other})


@pytest.mark.hostile
@pytest.mark.parametrize(
    "fields",
    [
        definer_fields(number=61),
        definer_fields(number=0xFFFF),
        definer_fields(port_number=1),
        definer_fields(layout.match_definer_format_0, 0, metadata_reg_c_0=1),
        {**definer_fields(), "extra": b"\0" * 56 + b"\xff" * 64},
    ],
    ids=["any", "none", "port", "register", "reserved"],
)
def test_definers_that_are_not_known(both, fields):
    driver, before = both.first.driver, snapshot(both.first.manager.hca)
    assert driver.command(Op.CREATE_GENERAL_OBJECT, **fields).status == WRONG
    assert snapshot(both.first.manager.hca) == before


@pytest.mark.hostile
def test_groups_that_cannot_be(both, tables):
    driver, hca = both.first.driver, both.first.manager.hca
    other = both.first.fdb.table(3)
    before = snapshot(hca)
    free = group_fields(tables.table, 4, 5)
    for status, fields in (
        (GONE, {**SPLIT, **free, "match_definer_id": 77}),
        (GONE, {**SPLIT, **free}),
        (WRONG, {**SPLIT, **free, "group_type": 2, "match_definer_id": tables.definer}),
        (WRONG, {**KIND, **free, "match_definer_id": tables.definer}),
        (WRONG, {**SPLIT, **group_fields(tables.table, 1, 5), "match_definer_id": tables.definer}),
    ):
        assert driver.command(Op.CREATE_FLOW_GROUP, **fields).status == status
    of_fdb = {**SPLIT, **group_fields(other, 0, 1), "match_definer_id": tables.definer}
    of_fdb["table_type"] = FlowTableType.FDB
    assert driver.command(Op.CREATE_FLOW_GROUP, **of_fdb).status == WRONG
    assert snapshot(hca) == before


@pytest.mark.hostile
def test_entries_that_cannot_be(both, tables):
    """They lead to cables and to tables of their own type, and do nothing else."""
    driver, hca = both.first.driver, both.first.manager.hca
    driver.must(Op.DELETE_FLOW_TABLE_ENTRY, **KIND, table_id=tables.table, flow_index=0)
    before = snapshot(hca)
    for destination in (to_vport(VPORT), to_vport(UPLINK), to_table(both.table)):
        refused = driver.command(Op.SET_FLOW_TABLE_ENTRY, **tables.change(extra=destination))
        assert refused.status in (WRONG, GONE)
    for action in (FlowAction.DROP, FlowAction.ALLOW):
        fields = tables.change(extra=b"")
        fields["flow_context"] |= {"action": action, "destination_list_size": 0}
        assert driver.command(Op.SET_FLOW_TABLE_ENTRY, **fields).status == WRONG
    assert snapshot(hca) == before


@pytest.mark.hostile
@pytest.mark.parametrize("ctx", [BY_TABLES | {"active_port": 1}, {"port_select_mode": 3}])
def test_bonds_that_cannot_be(both, ctx):
    refused = both.first.driver.command(Op.CREATE_LAG, ctx=ctx | remap(1, 2))
    assert refused.status == WRONG
    assert both.board.lag is None


@pytest.mark.hostile
def test_ports_that_are_none(both, tables):
    both.first.manager.hca.caps.port_selection.port_select_flow_table_bypass = 1
    refused = both.first.driver.command(
        Op.MODIFY_LAG, field_select=ModifyLag.ACTIVE_PORT, ctx={"active_port": 4}
    )
    assert refused.status == WRONG
    refused = both.first.driver.command(Op.MODIFY_LAG, field_select=1, ctx=remap(2, 2))
    assert refused.status == WRONG


@pytest.mark.hostile
def test_not_without_the_option(clock):
    both = SharedBoard(clock)
    driver = both.first.driver
    fields = {**KIND, **table_fields(0)}
    assert driver.command(Op.CREATE_FLOW_TABLE, **fields).status == WRONG
    assert driver.command(Op.CREATE_GENERAL_OBJECT, **definer_fields(**PORTS)).status == WRONG
    assert not any(both.first.manager.hca.caps.page(CapType.PORT_SELECTION, CapMode.CUR))
