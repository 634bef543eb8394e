"""Flow tables, groups and entries by command: what the driver makes, and what is refused."""

import gc
import json
import tracemalloc

import pytest

from emu.device.errors import syndrome_of
from emu.device.models import LINKS
from emu.device.objects.eth.flow.action import FteAction, FteVerdict
from emu.device.objects.eth.flow.table import FlowEntry, FlowTable, Miss
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    group_fields,
    mac_fields,
    match,
    miss_fields,
    table_fields,
    to_table,
    to_tir,
)
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive
from emu.server.service.views import objects
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, SetFte
from layouts.steering.flow_table import flow_table_context
from layouts.steering.fte import set_fte_in

DROP = FlowAction.DROP
_BUILT = {
    FlowTableType.SNIFFER_RX, FlowTableType.SNIFFER_TX,
    FlowTableType.NIC_RX, FlowTableType.NIC_TX, FlowTableType.RDMA_RX, FlowTableType.RDMA_TX,
}  # fmt: skip
TYPES_NOT_BUILT = sorted(set(FlowTableType) - _BUILT)


@pytest.fixture
def queues(node):
    return [ReceiveQueue(node) for _ in range(4)]


@pytest.fixture
def tirs(driver, queues):
    td = alloc_td(driver)
    return [create_direct_tir(driver, td, rq.rqn) for rq in queues[:3]]


@pytest.fixture
def decide(driver, flows, queues, tirs):
    """Where a packet comes: ((TIR number, flow tag), ...).

    Its misses of ``table`` go on to a queue of their own: None says that this one got it.
    """
    buffers = [Buffers(rq) for rq in queues]
    rest = flows.table(60, log_size=0)
    other = create_direct_tir(driver, alloc_td(driver), queues[3].rqn)
    flows.entry(rest, 0, flows.group(rest, 0, 0), to_tir(other))

    def find(packet=None, table=None):
        if table is not None:
            flows.set_miss(table, rest)
        arrive(driver.bar.function.hca, Frame((packet or EthPacket()).frame()))
        driver.bar.settle()
        found = [one.drain() for one in buffers]
        for one, entries in zip(buffers, found):
            for _ in entries:
                one.post()
        *of_tirs, missed = [[entry.sop_drop_qpn for entry, _ in entries] for entries in found]
        if missed:
            return None
        return tuple((tirn, tag) for tirn, tags in zip(tirs, of_tirs) for tag in tags)

    return find


@pytest.fixture
def table(flows):
    return flows.table(5)


class TestTables:
    def test_anchor_is_above_max_ft_level(self, driver, flows):
        """The driver's last tables carry the levels 65 and 66 (fs_core.c: set_prio_attrs)."""
        props = driver.must(Op.QUERY_HCA_CAP, op_mod=7 << 1 | 1)
        assert props.capability[0x40] >> 7, "no flow tables at all"
        anchor = flows.table(66, log_size=0)
        flows.set_root(anchor)
        assert flows.table(65, log_size=16, miss=anchor) != anchor

    def test_query(self, driver, flows, table):
        lower = flows.table(3, log_size=7, miss=table)
        context = driver.must(Op.QUERY_FLOW_TABLE, table_id=lower).flow_table_context
        assert (context.level, context.log_size) == (3, 7)
        assert (context.table_miss_action, context.table_miss_id) == (1, table)
        flows.set_miss(lower, None)
        context = driver.must(Op.QUERY_FLOW_TABLE, table_id=lower).flow_table_context
        assert (context.table_miss_action, context.table_miss_id) == (0, 0)

    def test_large_tables_cost_nothing(self, function, flows):
        """mlx5e's aRFS, L2 and VLAN tables have 2**16 entries and more each."""
        for level in range(1, 20):
            flows.table(level, log_size=22)
        assert function.hca.ledger.accounts[FlowTable.kind] == 19 * FlowTable.BASE_BYTES

    @pytest.mark.parametrize("kind", TYPES_NOT_BUILT)
    def test_types_without_capability(self, driver, table, refused, kind):
        fields = table_fields(1)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, table_type=kind, **fields)
        for op in (Op.QUERY_FLOW_TABLE, Op.DESTROY_FLOW_TABLE, Op.SET_FLOW_TABLE_ROOT):
            refused(Status.BAD_PARAM_ERR, op, table_type=kind, table_id=table)

    @pytest.mark.parametrize(
        "option",
        ["sw_owner", "termination_table", "rtc_valid"],
    )
    def test_options_without_capability(self, refused, option):
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, **table_fields(1, **{option: 1}))

    def test_other_ports_tables(self, refused, table):
        for field in ("other_vport", "vport_number"):
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, **{field: 1}, **table_fields(1))
            refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=table, **{field: 1})
        wrong = {"table_eswitch_owner_vhca_id_valid": 1}
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=table, **wrong)
        refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=table, underlay_qpn=0x40)

    def test_longer_than_advertised(self, refused):
        refused(Status.LIM_ERR, Op.CREATE_FLOW_TABLE, **table_fields(1, log_size=23))
        refused(Status.LIM_ERR, Op.CREATE_FLOW_TABLE, **table_fields(1, log_size=255))

    def test_misses_lead_up(self, driver, flows, table, refused):
        """What would lead back is a loop."""
        for level in (5, 6, 255):
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, **table_fields(level, miss=table))
        refused(Status.BAD_RES_ERR, Op.CREATE_FLOW_TABLE, **table_fields(1, miss=table + 1))
        lower = flows.table(4, miss=table)
        for miss in (lower, table):
            refused(
                Status.BAD_PARAM_ERR, Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=1,
                flow_table_context=miss_fields(miss),
            )  # fmt: skip

    def test_option_of_the_command_that_is_not_there(self, refused):
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, op_mod=1, **table_fields(1))

    @pytest.mark.parametrize("action", [2, 3, 15])
    def test_other_misses(self, refused, action):
        fields = table_fields(1, table_miss_action=action)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, **fields)

    @pytest.mark.parametrize("select", [0, 2, 0x8000, 0x8001])
    def test_only_the_miss_is_modified(self, table, refused, select):
        refused(
            Status.BAD_PARAM_ERR, Op.MODIFY_FLOW_TABLE, table_id=table, modify_field_select=select
        )

    def test_destroyed_when_nothing_leads_there(self, driver, flows, table, refused):
        lower = flows.table(3, miss=table)
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_TABLE, table_id=table)
        flows.set_miss(lower, None)
        group = flows.group(lower, 0, 0)
        flows.entry(lower, 0, group, to_table(table))
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_TABLE, table_id=table)
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_TABLE, table_id=lower)
        flows.delete(lower, 0)
        driver.must(Op.DESTROY_FLOW_TABLE, table_id=table)
        for op in (Op.QUERY_FLOW_TABLE, Op.DESTROY_FLOW_TABLE, Op.MODIFY_FLOW_TABLE):
            refused(Status.BAD_RES_ERR, op, table_id=table)

    def test_root_may_go(self, driver, flows, table, decide, tirs):
        """The driver destroys its last table while it is the root (fs_core.c)."""
        group = flows.group(table, 0, 0)
        flows.entry(table, 0, group, to_tir(tirs[0]))
        flows.set_root(table)
        assert decide() == ((tirs[0], 0),)
        driver.must(Op.SET_FLOW_TABLE_ROOT, op_mod=1)
        assert decide() == ()
        flows.set_root(table)
        flows.delete(table, 0)
        driver.must(Op.DESTROY_FLOW_GROUP, table_id=table, group_id=group)
        driver.must(Op.DESTROY_FLOW_TABLE, table_id=table)
        assert decide() == ()

    def test_root_that_is_not_there(self, table, refused):
        refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=table + 1)
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=table, op_mod=2)

    def test_as_many_as_advertised(self, function, refused):
        for _ in range(1023):
            function.hca.flow_tables.add(FlowTable(flow_table_context.new(level=1), Miss.DEFAULT))
        refused(Status.LIM_ERR, Op.CREATE_FLOW_TABLE, **table_fields(1))

    def test_processes_have_tables_and_no_root(self, driver, table, refused):
        user = driver.must(Op.CREATE_UCTX).uid
        own = driver.must(Op.CREATE_FLOW_TABLE, uid=user, **table_fields(1)).table_id
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ROOT, table_id=own, _uid=user)
        fields = group_fields(table, 0, 0)
        refused(Status.BAD_RES_ERR, Op.CREATE_FLOW_GROUP, **fields, _uid=user)
        refused(Status.BAD_RES_ERR, Op.CREATE_FLOW_TABLE, uid=user, **table_fields(1, miss=table))
        driver.must(Op.CREATE_FLOW_GROUP, **group_fields(own, 0, 0), _uid=user)


class TestGroups:
    def test_query(self, driver, flows, table):
        group = flows.group(table, 2, 5, ip_protocol=0xFF, first_vid=0xFFF)
        found = driver.must(Op.QUERY_FLOW_GROUP, table_id=table, group_id=group)
        assert (found.start_flow_index, found.end_flow_index) == (2, 5)
        assert found.match_criteria_enable == 1
        assert bytes(found.match_criteria) == match(ip_protocol=0xFF, first_vid=0xFFF)

    @pytest.mark.parametrize(("first", "last"), [(0, 16), (5, 4), (16, 16), (0, 0xFFFFFFFF)])
    def test_outside_the_table(self, table, refused, first, last):
        fields = group_fields(table, first, last)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)

    @pytest.mark.parametrize(("first", "last"), [(4, 7), (0, 4), (7, 15), (5, 6), (0, 15)])
    def test_groups_that_overlap(self, flows, table, refused, first, last):
        flows.group(table, 4, 7)
        flows.group(table, 1, 1)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **group_fields(table, first, last))
        flows.group(table, 2, 3)
        flows.group(table, 8, 15)

    def test_fields_that_packets_cannot_be_matched_by(self, table, refused):
        inner = bytearray(512)
        inner[0x80] = 1
        fields = group_fields(table, 0, 0, enable=4, match_criteria=bytes(inner))
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)
        fields = group_fields(table, 0, 0, enable=0x80)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)
        reserved = bytearray(512)
        reserved[0x7F] = 1
        fields = group_fields(table, 0, 0, enable=2, match_criteria=bytes(reserved))
        refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)
        for name in ("group_type", "match_definer_id"):
            fields = group_fields(table, 0, 0) | {name: 1}
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)

    def test_destroyed_when_it_is_empty(self, driver, flows, table, refused):
        group, other = flows.group(table, 0, 3), flows.table(6)
        flows.entry(table, 1, group, action=DROP)
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_FLOW_GROUP, table_id=table, group_id=group)
        flows.delete(table, 1)
        refused(Status.BAD_RES_ERR, Op.DESTROY_FLOW_GROUP, table_id=other, group_id=group)
        driver.must(Op.DESTROY_FLOW_GROUP, table_id=table, group_id=group)
        refused(Status.BAD_RES_ERR, Op.DESTROY_FLOW_GROUP, table_id=table, group_id=group)
        refused(Status.BAD_RES_ERR, Op.QUERY_FLOW_GROUP, table_id=table, group_id=group)
        flows.group(table, 0, 15)


class TestEntries:
    @pytest.fixture
    def group(self, flows, table):
        return flows.group(table, 0, 7, ip_protocol=0xFF)

    @pytest.fixture(autouse=True)
    def root(self, flows, table):
        flows.set_root(table)

    def test_query(self, flows, table, group, tirs):
        above, counter = flows.table(9), flows.counter()
        flows.entry(
            table, 3, group, to_tir(tirs[0]), to_table(above), counters=[counter], tag=7,
            ip_protocol=UDP,
        )  # fmt: skip
        context, listed = flows.query_entry(table, 3)
        assert (context.group_id, context.flow_tag) == (group, 7)
        assert context.action == FlowAction.FWD_DEST | FlowAction.COUNT
        assert (context.destination_list_size, context.flow_counter_list_size) == (2, 1)
        assert bytes(context.match_value) == match(ip_protocol=UDP)
        assert listed == [to_tir(tirs[0]), to_table(above), counter.to_bytes(4, "big") + bytes(4)]
        context, listed = flows.query_entry(table, 3, room=1)
        assert listed == [to_tir(tirs[0])]

    def test_lowest_index_wins(self, flows, table, group, tirs, decide):
        flows.entry(table, 5, group, to_tir(tirs[1]), ip_protocol=TCP)
        flows.entry(table, 2, group, to_tir(tirs[0]), ip_protocol=TCP)
        assert decide() == ((tirs[0], 0),)
        assert decide(EthPacket(protocol=UDP), table) is None
        flows.delete(table, 2)
        assert decide() == ((tirs[1], 0),)

    def test_values_outside_the_mask_do_not_count(self, flows, table, group, tirs, decide):
        flows.entry(table, 0, group, to_tir(tirs[0]), ip_protocol=TCP, first_vid=9, tcp_dport=1)
        assert decide() == ((tirs[0], 0),)

    def test_tag_drop_and_count(self, flows, table, group, tirs, decide, refused):
        counter = flows.counter()
        flows.entry(table, 0, group, to_tir(tirs[0]), tag=0xABCDEF, ip_protocol=TCP)
        flows.entry(table, 1, group, action=DROP, counters=[counter], ip_protocol=UDP)
        assert decide() == ((tirs[0], 0xABCDEF),)
        packet = EthPacket(protocol=UDP)
        for _ in range(3):
            assert decide(packet, table) == ()
        assert flows.query_counter(counter) == (3, 3 * len(packet.frame()))
        refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_FLOW_COUNTER, flow_counter_id=counter)
        flows.delete(table, 1)
        flows.driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=counter)

    def test_several_destinations(self, flows, table, group, tirs, decide):
        """Several QPs of one rule, as for a multicast address."""
        above = flows.table(9)
        flows.entry(above, 0, flows.group(above, 0, 0), to_tir(tirs[2]), tag=2)
        flows.entry(table, 0, group, to_tir(tirs[0]), to_tir(tirs[1]), to_table(above), tag=1,
                    ip_protocol=TCP)  # fmt: skip
        assert sorted(decide()) == [(tirs[0], 1), (tirs[1], 1), (tirs[2], 2)]

    def test_modify(self, flows, table, group, tirs, decide, function):
        """ntuple on: the TTC entry goes to an aRFS table instead; a rule gets another QP."""
        flows.entry(table, 0, group, to_tir(tirs[0]), tag=3, ip_protocol=TCP)
        assert decide() == ((tirs[0], 3),)
        flows.modify(table, 0, group, to_tir(tirs[1]), to_tir(tirs[2]))
        assert decide() == ((tirs[1], 3), (tirs[2], 3))
        assert [function.hca.tirs.get(tirn).refs for tirn in tirs] == [0, 1, 1]
        flows.modify(table, 0, group, tag=4, mask=SetFte.FLOW_TAG)
        assert decide() == ((tirs[1], 4), (tirs[2], 4))
        counter = flows.counter()
        flows.modify(
            table, 0, group, action=DROP, counters=[counter],
            mask=SetFte.ACTION | SetFte.DESTINATION_LIST | SetFte.FLOW_COUNTERS,
        )  # fmt: skip
        assert decide(table=table) == ()
        assert flows.query_counter(counter)[0] == 1
        context, listed = flows.query_entry(table, 0)
        assert (context.action, context.flow_tag) == (DROP | FlowAction.COUNT, 4)
        assert listed == [counter.to_bytes(4, "big") + bytes(4)]
        assert bytes(context.match_value) == match(ip_protocol=TCP)
        assert not any(function.hca.tirs.get(tirn).refs for tirn in tirs)

    @pytest.mark.parametrize(
        ("mask", "changes"),
        [
            (SetFte.ACTION, {"action": DROP}),
            (SetFte.DESTINATION_LIST, {}),
            (SetFte.ACTION, {"action": FlowAction.FWD_DEST | FlowAction.COUNT}),
            (SetFte.IPSEC_OBJ_ID, {}),
            (0x80, {}),
        ],
    )
    def test_changes_that_do_not_go_together(
        self, flows, table, group, tirs, refused, mask, changes
    ):
        flows.entry(table, 0, group, to_tir(tirs[0]), ip_protocol=TCP)
        fields = entry_fields(table, 0, group, **changes)
        refused(
            Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, op_mod=1, modify_enable_mask=mask,
            **fields,
        )  # fmt: skip

    def test_entries_that_cannot_be(self, flows, table, group, tirs, refused):
        tir = to_tir(tirs[0])

        def no(status, index=0, in_table=table, in_group=group, *, to=(tir,), more=None, **options):
            fields = entry_fields(in_table, index, in_group, *to, **options) | (more or {})
            return refused(status, Op.SET_FLOW_TABLE_ENTRY, **fields)

        flows.entry(table, 1, group, tir)
        no(Status.BAD_PARAM_ERR, 1)
        no(Status.BAD_PARAM_ERR, 8)
        no(Status.BAD_PARAM_ERR, 1 << 31)
        no(Status.BAD_RES_ERR, in_group=group + 1)
        no(Status.BAD_RES_ERR, in_table=flows.table(9))
        no(Status.BAD_RES_ERR, to=(to_tir(99),))
        no(Status.BAD_RES_ERR, to=(to_table(99),))
        no(Status.BAD_RES_ERR, counters=[99])
        no(Status.BAD_PARAM_ERR, to=())
        no(Status.BAD_PARAM_ERR, action=DROP)
        no(Status.BAD_PARAM_ERR, action=FlowAction(0))
        no(Status.BAD_PARAM_ERR, action=FlowAction.ALLOW, to=())
        no(Status.BAD_PARAM_ERR, action=FlowAction.FWD_DEST | DROP)
        no(Status.BAD_PARAM_ERR, action=FlowAction(0), to=())
        no(Status.BAD_PARAM_ERR, action=FlowAction.ALLOW | DROP, to=())
        no(Status.BAD_PARAM_ERR, to=(), action=DROP | FlowAction.COUNT)
        no(Status.BAD_PARAM_ERR, more={"op_mod": 2})
        no(Status.LIM_ERR, to=(tir,) * 65)
        no(Status.LIM_ERR, counters=[flows.counter()] * 5)
        for kind in (0, 6, 8, 0xA, 0xFF):
            no(Status.BAD_PARAM_ERR, to=(bytes([kind, 0, 0, 1]) + bytes(4),))
        for option in (b"\x80", b"\x40"):
            no(Status.BAD_PARAM_ERR, to=(tir[:4] + option + bytes(3),))

    @pytest.mark.parametrize(
        "action",
        [
            action
            for action in FlowAction
            if action > FlowAction.DECAP and action is not FlowAction.MOD_HDR
        ],
    )
    def test_actions_without_capability(self, table, group, tirs, refused, action):
        fields = entry_fields(table, 0, group, to_tir(tirs[0]), action=FlowAction.FWD_DEST | action)
        answer = refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)
        assert answer.syndrome == syndrome_of("flow action not supported")

    @pytest.mark.parametrize(
        "option", ["extended_destination", "uplink_hairpin_en", "encrypt_decrypt_type"]
    )
    def test_options_without_capability(self, table, group, tirs, refused, option):
        fields = entry_fields(table, 0, group, to_tir(tirs[0]))
        fields["flow_context"] |= {option: 1}
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)

    def test_an_entry_changes_in_its_own_group(self, flows, table, group, tirs, refused):
        other = flows.group(table, 8, 15)
        flows.entry(table, 0, group, to_tir(tirs[0]))
        fields = entry_fields(table, 0, other, to_tir(tirs[1]))
        refused(
            Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, op_mod=1,
            modify_enable_mask=SetFte.DESTINATION_LIST, **fields,
        )  # fmt: skip

    def test_last_destination_by_half(self, driver, table, group, tirs):
        """Snabb's driver leaves out the reserved bytes at the command's end."""
        fields = entry_fields(table, 0, group, to_tir(tirs[0]))
        destination = fields.pop("extra")
        front = set_fte_in.new(opcode=Op.SET_FLOW_TABLE_ENTRY, **fields)
        listed = bytes(front.buf) + destination
        assert driver.execute(listed[:-8], 16)[1][0] == Status.BAD_INP_LEN_ERR
        assert driver.execute(listed[:-4], 16)[1][0] == Status.OK

    def test_lists_longer_than_the_command(self, table, group, tirs, refused):
        fields = entry_fields(table, 0, group, to_tir(tirs[0]))
        for name in ("destination_list_size", "flow_counter_list_size"):
            context = fields["flow_context"] | {name: 0xFFFFFF}
            refused(
                Status.BAD_INP_LEN_ERR,
                Op.SET_FLOW_TABLE_ENTRY,
                **fields | {"flow_context": context},
            )

    def test_no_way_back(self, flows, table, group, refused):
        """Entries that lead to their own level, or a lower one, could make a circle."""
        for level in (5, 4, 0):
            fields = entry_fields(table, 0, group, to_table(flows.table(level)))
            refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)
        fields = entry_fields(table, 0, group, to_table(table))
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)

    def test_a_way_back_when_levels_are_ignored(self, driver, flows, table, group, tirs, decide):
        """The driver answers for where its entries lead; circles end all the same."""
        lower = flows.table(3)
        flows.entry(lower, 0, flows.group(lower, 0, 0), to_tir(tirs[0]))
        back = entry_fields(table, 0, group, to_table(lower), ip_protocol=TCP)
        driver.must(Op.SET_FLOW_TABLE_ENTRY, ignore_flow_level=1, **back)
        flows.set_root(table)
        assert decide() == ((tirs[0], 0),)
        circle = entry_fields(table, 0, group, to_table(table), to_tir(tirs[1]), ip_protocol=TCP)
        circle |= {"op_mod": 1, "modify_enable_mask": SetFte.DESTINATION_LIST}
        driver.must(Op.SET_FLOW_TABLE_ENTRY, ignore_flow_level=1, **circle)
        assert set(decide()) == {(tirs[1], 0)}
        flows.delete(table, 0)

    def test_what_it_leads_to_stays(self, driver, flows, table, group, tirs, refused, function):
        flows.entry(table, 0, group, to_tir(tirs[0]))
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_TIR, tirn=tirs[0])
        before = function.hca.ledger.accounts[FlowEntry.kind]
        flows.entry(table, 1, group, to_tir(tirs[0]), to_tir(tirs[1]))
        after = function.hca.ledger.accounts[FlowEntry.kind]
        assert after == 2 * before + FlowEntry.DESTINATION_BYTES
        flows.delete(table, 0)
        flows.delete(table, 1)
        driver.must(Op.DESTROY_TIR, tirn=tirs[0])
        for index in (0, 7, 8, 1 << 30):
            for op in (Op.DELETE_FLOW_TABLE_ENTRY, Op.QUERY_FLOW_TABLE_ENTRY):
                refused(Status.BAD_RES_ERR, op, table_id=table, flow_index=index)

    def test_no_more_entries_than_advertised(self, function, flows, table, tirs, refused):
        """A table has room for more; what is counted is what is there."""
        large = flows.table(4, log_size=20)
        group = flows.group(large, 0, (1 << 20) - 1)
        entries = function.hca.flow_entries
        found = function.hca.flow_groups.get(group)
        action = FteAction(FteVerdict.DROP)
        for index in range((1 << 16) - 1):
            entries.add(FlowEntry(found, index, (), action))
        fields = entry_fields(large, 1 << 17, group, to_tir(tirs[0]))
        refused(Status.LIM_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)


def test_stock_tables(flows, tirs, decide):
    """What mlx5e makes for a netdev that is up: VLAN, L2 and TTC tables and the anchor."""
    anchor = flows.table(66, log_size=0)
    types = flows.table(57, log_size=7, miss=anchor)
    group = flows.group(types, 0, 13, ip_version=0xF, ip_protocol=0xFF)
    flows.entry(types, 0, group, to_tir(tirs[0]), ip_version=4, ip_protocol=TCP)
    flows.entry(types, 16, flows.group(types, 16, 16), to_tir(tirs[1]))
    addresses = flows.table(56, log_size=16, miss=anchor)
    own = flows.group(addresses, 0, 32767, dmac_47_16=0xFFFFFFFF, dmac_15_0=0xFFFF)
    flows.entry(addresses, 0, own, to_table(types), **mac_fields(MACS[:6]))
    tags = flows.table(55, log_size=16, miss=anchor)
    vids = flows.group(tags, 0, 4095, cvlan_tag=1, first_vid=0xFFF)
    untagged = flows.group(tags, 8192, 8193, cvlan_tag=1)
    flows.entry(tags, 7, vids, to_table(addresses), cvlan_tag=1, first_vid=100)
    flows.entry(tags, 8192, untagged, to_table(addresses))
    flows.set_root(tags)
    assert decide() == ((tirs[0], 0),)
    assert decide(EthPacket(protocol=UDP)) == ((tirs[1], 0),)
    assert decide(EthPacket(tags=((0x8100, 0x2064),))) == ((tirs[0], 0),)
    assert decide(EthPacket(tags=((0x8100, 101),))) == ()
    assert decide(EthPacket(tags=((0x88A8, 100),))) == ()
    promisc = flows.table(54, log_size=0, miss=tags)
    flows.entry(promisc, 0, flows.group(promisc, 0, 0), to_table(types))
    flows.set_root(promisc)
    assert decide(EthPacket(tags=((0x88A8, 100),))) == ((tirs[0], 0),)


class TestOnInfiniBand:
    @pytest.fixture
    def model(self):
        return LINKS["connectx6"][PortType.IB]

    def test_only_those_of_received_packets(self, driver, refused):
        """Underlays of IP over InfiniBand use them (tests/device/ud/test_ipoib_underlay.py)."""
        driver.must(Op.CREATE_FLOW_TABLE, **table_fields(1))
        for kind in (FlowTableType.RDMA_RX, FlowTableType.RDMA_TX):
            fields = {"table_type": kind} | table_fields(1)
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, **fields)


def test_dropped_at_once(driver, flows, function, tirs):
    """All objects are gone at once; nothing refers to itself when they have been freed."""
    table = flows.table(1)
    group = flows.group(table, 0, 0)
    flows.entry(table, 0, group, to_tir(tirs[0]))
    flows.set_root(table)
    found = function.hca.flow_tables.get(table), function.hca.flow_groups.get(group)
    function.hca.drop_objects()
    assert function.hca.flow_domains[FlowTableType.NIC_RX].root is None
    assert not function.hca.ledger.accounts
    while function.run():
        pass
    assert (found[0].groups, found[1].entries, found[1].by_key) == ([], {}, {})


def test_what_the_server_tells(driver, flows, function, tirs):
    """``mlx5emu objects``: what a flow table entry matches and does, by the fields' names."""
    anchor = flows.table(66)
    table, counter = flows.table(1, log_size=5, miss=anchor), flows.counter()
    group = flows.group(table, 0, 3, ip_protocol=0xFF, first_vid=0xFFF)
    flows.entry(
        table, 2, group, to_tir(tirs[1]), to_table(anchor), ip_protocol=TCP, tag=9,
        counters=[counter],
    )  # fmt: skip
    flows.set_root(table)

    def told(kind):
        return json.loads(b"".join(objects(function, kind, 10)))[kind]["items"]

    names = {"outer_headers.first_vid", "outer_headers.ip_protocol"}
    assert [item["root"] for item in told("flow table")] == [False, True]
    assert [item["miss"] for item in told("flow table")] == ["default", anchor]
    assert told("flow group")[0]["masks"].keys() == names
    (entry,) = told("flow table entry")
    assert entry["values"] == {"outer_headers.ip_protocol": TCP, "outer_headers.first_vid": 0}
    assert (entry["action"], entry["tag"], entry["counters"]) == ("forward", 9, [counter])
    assert entry["destinations"] == [f"tir {tirs[1]:#x}", f"flow table {anchor:#x}"]
    assert told("tir")[0]["rqn"] == told("rq")[0]["handle"]


@pytest.mark.hostile
def test_groups_are_charged_what_they_take(driver, flows, hca):
    """With criteria of many fields; what entries take is less."""
    masks = {
        "ip_version": 0xF, "ip_protocol": 0xFF, "src_ipv4_src_ipv6": (1 << 128) - 1,
        "dst_ipv4_dst_ipv6": (1 << 128) - 1, "smac_47_16": 0xFFFFFFFF, "smac_15_0": 0xFFFF,
        "dmac_47_16": 0xFFFFFFFF, "dmac_15_0": 0xFFFF, "ethertype": 0xFFFF, "ip_dscp": 0x3F,
        "ip_ecn": 3, "frag": 1, "cvlan_tag": 1, "svlan_tag": 1, "first_vid": 0xFFF,
        "first_prio": 7, "first_cfi": 1, "tcp_sport": 0xFFFF, "tcp_dport": 0xFFFF,
        "tcp_flags": 0x1FF,
    }  # fmt: skip
    table, last = flows.table(1, log_size=10), flows.table(2)
    first = flows.group(table, 0, 0, **masks)
    flows.entry(table, 0, first, to_table(last), ip_version=4)
    for make in (
        lambda index: flows.group(table, index, index, **masks),
        lambda index: flows.entry(
            table, index, first + index, to_table(last), ip_version=4, tcp_sport=index
        ),
    ):
        gc.collect()
        before, count = hca.ledger.used, 200
        tracemalloc.start()
        for index in range(1, count + 1):
            make(index)
        gc.collect()
        allocated, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert allocated < hca.ledger.used - before + 16 * 1024
