"""Two switches of a board with one forwarding database (FDB): packets, failover, how it ends."""

import pytest
from helpers.device.boards import remap
from helpers.device.reachable import owned, still_reached
from helpers.device.shared_fdb import (
    FRAME,
    MANAGER,
    MISC,
    UPLINK,
    VPORT,
    SharedBoard,
    queue,
    send,
)
from helpers.device.snapshot import snapshot

from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    match_misc,
    table_fields,
    to_table,
    to_vport,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.steering_entries import SoftwareTables, entry
from emu.driver.nodes.roce import RoceNode, ipv4
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.qp import QpType

FDB, EGRESS = FlowTableType.FDB, FlowTableType.ESW_EGRESS_ACL
LAG_TX_AFF = 15
"""Bit of opt_param_mask, qp.h: mlx5_qp_optpar."""
STRICT = {"strict_lag_tx_port_affinity": 1}


@pytest.fixture
def both(clock):
    return SharedBoard(clock)


@pytest.fixture
def shared(both):
    """All packets of cables go to the second switch's other vPort, all others to the cables."""
    to_other = to_vport(VPORT, vhca=1)
    table = both.by_source(
        (0, UPLINK, to_other), (1, UPLINK, to_other),
        (0, VPORT, to_vport(UPLINK, vhca=0)), (1, VPORT, to_vport(UPLINK, vhca=1)),
        (0, MANAGER, to_vport(UPLINK, vhca=0)), (1, MANAGER, to_vport(UPLINK, vhca=1)),
    )  # fmt: skip
    both.by_source((1, UPLINK, to_vport(MANAGER)), port=both.second)
    both.bond()
    assert both.share(table).status == Status.OK
    both.table = table
    return both


def test_a_frame_goes_where_the_masters_entries_say_whatever_port_it_comes_by(shared):
    for count, port in enumerate((shared.first, shared.second), 1):
        port.takes()
        assert shared.second.received() == [0, count]
    assert shared.first.received() == [0, 0]


def test_entries_lead_from_one_switch_to_the_other_without_a_bond(both):
    both.by_source((0, UPLINK, to_vport(MANAGER, vhca=1), to_vport(VPORT)))
    both.first.takes()
    assert both.second.received() == [1, 0]
    assert both.first.received() == [0, 1]
    both.second.takes()
    assert both.second.received() == [2, 0], "its own switch has no tables"


def test_packets_of_a_cable_may_leave_by_the_other_one(both):
    both.by_source((0, UPLINK, to_vport(UPLINK, vhca=1)))
    both.first.takes()
    assert [port.sent() for port in both.ports] == [0, 1]


@pytest.mark.parametrize("name", ["first", "second"])
def test_what_a_function_sends_leaves_by_its_own_port(shared, name):
    port = getattr(shared, name)
    for member in (port.manager, port.other):
        send(member, queue(member))
    assert [each.sent() for each in shared.ports] == [
        2 if each is port else 0 for each in shared.ports
    ]


def test_failover(shared):
    """The map says by which port packets leave; a strict queue's stay with their own."""
    other = queue(shared.first.other)
    own = queue(shared.first.manager, **STRICT)
    shared.first.driver.must(Op.MODIFY_LAG, field_select=1, ctx=remap(2, 2))
    send(shared.first.other, other)
    assert [port.sent() for port in shared.ports] == [0, 1]
    send(shared.first.manager, own)
    assert [port.sent() for port in shared.ports] == [1, 0]
    shared.first.driver.must(Op.MODIFY_LAG, field_select=1, ctx=remap(1, 1))
    send(shared.second.other, queue(shared.second.other))
    assert [port.sent() for port in shared.ports] == [1, 0]
    passed = [port.adapter.port_traffic()[0].unicast.packets for port in shared.ports]
    assert passed == [2, 1]


def test_queues_with_an_affinity(shared):
    sq = queue(shared.first.manager, lag_tx_port_affinity=2)
    send(shared.first.manager, sq)
    assert [port.sent() for port in shared.ports] == [0, 1]
    shared.first.driver.must(Op.MODIFY_LAG, field_select=1, ctx=remap(1, 1))
    send(shared.first.manager, sq)
    assert [port.sent() for port in shared.ports] == [1, 0]


@pytest.mark.parametrize("affinity", [1, 2])
def test_queue_pairs_with_an_affinity(shared, affinity):
    """RoCE leaves by the port of its queue pair's (hw/mlx5/qp.c: get_tx_affinity)."""
    manager = shared.first.manager
    node = RoceNode(manager.function, manager.driver)
    peer = node.path_to_address(bytes.fromhex("020000000099"), ipv4(99))
    node.path_to = lambda _: peer
    channel = Channel(QpType.UC, node, node)
    fields = {"opt_param_mask": 1 << LAG_TX_AFF, "qpc": {"lag_tx_port_affinity": affinity}}
    manager.driver.must(Op.RTS2RTS_QP, qpn=channel.sender.qpn, **fields)
    channel.write((channel.right.region(8).key, 0), channel.left.region(8).sge())
    channel.settle()
    assert (shared.first.sent(), shared.second.sent()) == (affinity == 1, affinity == 2)


def test_leaving_the_bond_restores_both(shared):
    shared.second.takes()
    assert shared.second.received() == [0, 1]
    own = shared.second.fdb.table(0)
    group = shared.second.fdb.group(own, 0, 0)
    shared.second.fdb.entry(own, 0, group, to_vport(MANAGER))
    shared.second.fdb.set_root(own)
    shared.first.driver.must(Op.DESTROY_LAG)
    shared.second.takes()
    assert shared.second.received() == [1, 1]
    shared.first.takes()
    assert shared.second.received() == [1, 2], "the first one's FDB is as before"


def test_what_the_acls_of_the_vports_own_switch_say(shared):
    """The ingress ACL is that of the port where a frame comes in, the egress ACL the receiver's."""
    acl = Flows(shared.second.driver, FlowTableType.ESW_INGRESS_ACL, UPLINK)
    table = acl.table(0)
    acl.entry(table, 0, acl.group(table, 0, 0), action=2)
    acl.set_root(table)
    shared.second.takes()
    assert shared.second.received() == [0, 0]
    shared.first.takes()
    assert shared.second.received() == [0, 1]


def bounce(both, to, owner=1):
    """An egress ACL of the master's vPort that sends what has come by the other cable on."""
    acl = Flows(both.first.driver, EGRESS)
    table = acl.table(0)
    criteria = match_misc(source_port=0xFFFF, source_eswitch_owner_vhca_id=0xFFFF)
    group = acl.group(table, 0, 3, enable=MISC, match_criteria=criteria)
    value = match_misc(source_port=UPLINK, source_eswitch_owner_vhca_id=owner)
    acl.entry(table, 0, group, *to, value=value)
    acl.set_root(table)
    return table


def test_the_masters_egress_acl_sends_frames_of_the_other_port_back(both):
    """Each representor of an uplink gets what no entry is for (esw_set_master_egress_rule)."""
    to_manager = to_vport(MANAGER, vhca=0)
    table = both.by_source((0, UPLINK, to_manager), (1, UPLINK, to_manager))
    both.bond()
    both.share(table)
    bounce(both, [to_vport(MANAGER, vhca=1)])
    for port in both.ports:
        port.takes()
    assert both.first.received() == [1, 0]
    assert both.second.received() == [1, 0]


def test_egress_acls_that_lead_to_each_other(both):
    """A frame is sent on once, so there is no circle."""
    both.by_source((0, UPLINK, to_vport(MANAGER)), (0, VPORT, to_vport(MANAGER)))
    bounce(both, [to_vport(MANAGER, vhca=0), to_vport(MANAGER, vhca=1)], owner=0)
    acl = Flows(both.second.driver, EGRESS)
    table = acl.table(0)
    acl.entry(table, 0, acl.group(table, 0, 0), to_vport(MANAGER, vhca=0))
    acl.set_root(table)
    both.first.takes()
    assert both.first.received() == [1, 0]
    assert both.second.received() == [1, 0]


def test_an_egress_acl_sends_no_more_copies_than_an_fdb(both):
    both.by_source((0, UPLINK, *[to_vport(VPORT)] * 64))
    acl = Flows(both.first.driver, EGRESS, VPORT)
    table = acl.table(0)
    acl.entry(table, 0, acl.group(table, 0, 0), *[to_vport(MANAGER, vhca=1)] * 64)
    acl.set_root(table)
    both.first.takes()
    assert both.second.received() == [256, 0]


def test_the_root_that_the_master_changes(shared):
    """Its driver names the new one to both; the table before it may go then."""
    new = shared.by_source((1, UPLINK, to_vport(MANAGER, vhca=0)))
    shared.second.takes()
    assert shared.second.received() == [0, 1], "the table that was named decides"
    shared.share(new)
    shared.second.takes()
    assert shared.first.received() == [1, 0]


def test_entries_that_change(shared):
    """What has been decided about frames of the other port is not kept over a change."""
    shared.second.takes()
    shared.first.fdb.delete(shared.table, 1)
    shared.second.takes()
    assert shared.second.received() == [1, 1], "what no entry matches is the manager's"


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (Status.BAD_PARAM_ERR, {"table_eswitch_owner_vhca_id": 9}),
        (Status.BAD_PARAM_ERR, {"table_eswitch_owner_vhca_id": 2}),
        (Status.BAD_PARAM_ERR, {"table_eswitch_owner_vhca_id": 0xFFFF}),
        (Status.BAD_PARAM_ERR, {"op_mod": 1}),
        (Status.BAD_PARAM_ERR, {"op_mod": 2}),
        (Status.BAD_PARAM_ERR, {"table_type": FlowTableType.NIC_RX}),
        (Status.BAD_PARAM_ERR, {"table_type": EGRESS}),
        (Status.BAD_PARAM_ERR, {"underlay_qpn": 5}),
        (Status.BAD_RES_ERR, {"table_id": 0x77}),
        (Status.BAD_RES_ERR, {"table_id": 0}),
    ],
)
def test_roots_that_are_none(shared, status, fields):
    """vhca id 2 is the other function of the first port, which manages nothing."""
    before = snapshot(shared.second.manager.hca)
    assert shared.share(shared.table, **fields).status == status
    assert snapshot(shared.second.manager.hca) == before
    shared.second.takes()
    assert shared.second.received() == [0, 1]


@pytest.mark.hostile
def test_roots_that_are_not_the_drivers_or_of_another_type(shared):
    driver = shared.first.driver
    nic = Flows(driver).table(0)
    assert shared.share(nic).status == Status.BAD_RES_ERR
    uid = driver.must(Op.CREATE_UCTX).uid
    fields = {"table_type": FDB, **table_fields(0), "uid": uid}
    table = driver.must(Op.CREATE_FLOW_TABLE, **fields).table_id
    assert shared.share(table).status == Status.BAD_RES_ERR


@pytest.mark.hostile
@pytest.mark.parametrize(
    "to", [to_vport(MANAGER, vhca=9), to_vport(MANAGER, vhca=2), to_vport(6, vhca=1),
           to_vport(UPLINK, vhca=0xFFFF)],
)  # fmt: skip
@pytest.mark.parametrize("kind", [FDB, EGRESS])
def test_destinations_that_are_not_there(both, to, kind):
    flows = Flows(both.first.driver, kind)
    table = flows.table(0)
    group = flows.group(table, 0, 0)
    before = snapshot(both.first.manager.hca)
    with pytest.raises(AssertionError, match="BAD_PARAM_ERR"):
        flows.entry(table, 0, group, to)
    assert snapshot(both.first.manager.hca) == before


def end(both, port, how, caplog):
    function = both.ports[port].manager.function
    if how == "teardown":
        both.ports[port].driver.must(Op.TEARDOWN_HCA)
    elif how == "reset":
        function.reset()
    else:
        function.hca.health.fail()
        caplog.clear()


@pytest.mark.parametrize("how", ["teardown", "reset", "failure"])
def test_the_master_ends(shared, how, caplog):
    """The other switch begins nowhere, so its manager has the cable to itself."""
    end(shared, 0, how, caplog)
    eswitch = shared.second.manager.hca.eswitch
    assert eswitch.foreign_root is None
    assert shared.board.lag is None
    shared.second.takes()
    assert shared.second.received() == [1, 0]


@pytest.mark.parametrize("how", ["teardown", "reset", "failure"])
def test_the_other_ends(shared, how, caplog):
    """The master's entries for it lead nowhere then; its own packets go on."""
    send(shared.first.other, queue(shared.first.other))
    end(shared, 1, how, caplog)
    shared.first.takes()
    send(shared.first.other, queue(shared.first.other))
    assert shared.first.sent() == 2
    if how != "failure":
        assert shared.second.manager.hca.eswitch.foreign_root is None


def test_the_table_goes_that_is_the_root(shared):
    fdb = shared.first.fdb
    table = fdb.table(3)
    assert shared.share(table).status == Status.OK
    group = fdb.group(table, 0, 0)
    fdb.entry(table, 0, group, action=FlowAction.DROP)
    shared.second.takes()
    assert shared.second.received() == [0, 0]
    fdb.delete(table, 0)
    groups = {"table_type": FDB, "table_id": table}
    shared.first.driver.must(Op.DESTROY_FLOW_GROUP, group_id=group, **groups)
    shared.first.driver.must(Op.DESTROY_FLOW_TABLE, **groups)
    assert shared.second.manager.hca.eswitch.foreign_root is None
    shared.second.takes()
    assert shared.second.received() == [1, 0]


def test_circles_of_the_masters_tables(shared):
    """Frames of the other port pass as many tables as the master's own."""
    fdb = shared.first.fdb
    tables = [fdb.table(level) for level in (1, 1)]
    for table, other in (tables, tables[::-1]):
        group = fdb.group(table, 0, 0)
        fields = entry_fields(table, 0, group, to_table(other))
        shared.first.driver.must(
            Op.SET_FLOW_TABLE_ENTRY, table_type=FDB, ignore_flow_level=1, **fields
        )
    shared.share(tables[0])
    shared.second.takes()
    assert shared.second.received() == [0, 0]


def test_counters_are_those_of_the_fdbs_owner(shared):
    fdb = shared.first.fdb
    counters = [port.fdb.counter() for port in shared.ports]
    assert counters[0] == counters[1]
    table = fdb.table(0)
    to = to_vport(MANAGER, vhca=1)
    fdb.entry(table, 0, fdb.group(table, 0, 0), to, counters=[counters[0]])
    shared.share(table)
    shared.second.takes()
    assert fdb.query_counter(counters[0])[0] == 1
    assert shared.second.fdb.query_counter(counters[1])[0] == 0
    caps = shared.first.manager.hca.caps.eswitch
    assert caps.counter_eswitch_affinity == 1


def test_a_lag_tells_of_what_it_is(shared):
    ctx = shared.second.driver.must(Op.QUERY_LAG).ctx
    assert (ctx.lag_state, ctx.fdb_selection_mode) == (1, 1)


def test_a_lag_without_native_selection(both):
    """The map tells whose FDB a vPort's frames pass; those of a strict queue pass their own."""
    for port in both.ports:
        ways = [(owner, vport, to_vport(UPLINK)) for owner in (0, 1) for vport in (MANAGER, VPORT)]
        both.by_source(*ways, (port.id, UPLINK, to_vport(MANAGER)), port=port)
    both.first.driver.must(Op.CREATE_LAG, ctx=remap(1, 1))
    sq = queue(both.second.other)
    send(both.second.other, sq)
    assert [port.sent() for port in both.ports] == [1, 0]
    send(both.second.manager, queue(both.second.manager, **STRICT))
    assert [port.sent() for port in both.ports] == [0, 1]
    both.first.driver.must(Op.MODIFY_LAG, field_select=1, ctx=remap(1, 2))
    send(both.second.other, sq)
    assert [port.sent() for port in both.ports] == [0, 1]
    for port in both.ports:
        port.takes()
        assert port.received() == [1, 0]
    ctx = both.first.driver.must(Op.QUERY_LAG).ctx
    assert (ctx.lag_state, ctx.fdb_selection_mode) == (1, 0)


def test_frames_are_the_same(shared):
    send(shared.second.other, queue(shared.second.other))
    assert [frame.data for frame in shared.second.wire.sent()] == [FRAME]


class TestSoftware:
    """Tables that drivers write themselves, as mlx5_core does by default."""

    @pytest.fixture
    def tables(self, both):
        return SoftwareTables(both.first.manager.node)

    def addresses(self, port, number):
        return port.driver.must(
            Op.QUERY_ESW_VPORT_CONTEXT, vport_number=number, other_vport=int(number > 0)
        ).esw_vport_context

    def root(self, both, tables, *entries):
        """For packets of both cables and of all vPorts."""
        first = tables.place(entries[0])
        table = tables.table(first, FDB, first)
        both.first.fdb.set_root(table)
        both.bond()
        assert both.share(table).status == Status.OK

    def test_entries_lead_to_vports_of_both(self, both, tables):
        to = self.addresses(both.second, VPORT).sw_steering_vport_icm_address_rx
        assert to != self.addresses(both.first, VPORT).sw_steering_vport_icm_address_rx
        self.root(both, tables, entry(hit=to))
        for count, port in enumerate(both.ports, 1):
            port.takes()
            assert both.second.received() == [0, count]

    @pytest.mark.parametrize("number", [0, 1])
    def test_entries_lead_to_either_cable(self, both, tables, number):
        port = both.ports[number]
        caps = port.manager.hca.caps.eswitch_tables
        self.root(both, tables, entry(hit=caps.sw_steering_uplink_icm_address_tx))
        send(both.first.other, queue(both.first.other))
        assert [each.sent() for each in both.ports] == [int(each is port) for each in both.ports]

    def test_by_source(self, both, tables):
        """The vhca id of the second port's other function, and of its manager for the cable."""
        to = self.addresses(both.first, MANAGER).sw_steering_vport_icm_address_rx
        drop = tables.place(entry(hit=icm_address(IcmKind.FDB_RX_DROP)))
        tag = both.second.id.to_bytes(4, "big")
        self.root(both, tables, entry(0x0104, mask=b"\0\0\xff\xff", tag=tag, miss=drop, hit=to))
        both.first.takes()
        assert both.first.received() == [0, 0]
        both.second.takes()
        assert both.first.received() == [1, 0]

    @pytest.mark.hostile
    @pytest.mark.parametrize("number", [2 << 16, 0xFF << 16 | 5, 1 << 16 | 6, 1 << 16 | 0xFFFE])
    def test_vports_that_are_not_there(self, both, tables, number, caplog):
        self.root(both, tables, entry(hit=icm_address(IcmKind.VPORT_RX, number)))
        both.second.takes()
        assert both.first.received() == both.second.received() == [0, 0]
        caplog.clear()


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_leads_to_what_is_gone(shared, number):
    """Neither the board, nor the other port's function, nor what waits there."""
    function = shared.ports[number].manager.function
    old, other = function.hca, shared.ports[1 - number].manager
    shared.second.takes()
    gone = [*owned(old, other.hca), old]
    assert len(gone) > 1
    function.reset()
    while function.deferred_free:
        function.deferred_free.free_some()
    assert still_reached([shared.board, other.function, function], gone) == []
