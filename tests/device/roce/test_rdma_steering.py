"""RoCE packets in flow tables of their own, as the driver's optional counters use them."""

import pytest
from helpers.device.rounds import Costs

from emu.device.adapter.adapter import MANAGER
from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.device.port.eth.headers import UPLINK
from emu.device.rounds.costs import LOG_STEERED_PER_STEP
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    group_fields,
    set_field,
    table_fields,
    to_table,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.nodes.roce import on_a_cable, on_one_segment
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.node import Node
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType, TableMissAction
from layouts.enums.fte import FlowAction
from layouts.enums.modify_header import ModifyField
from layouts.enums.qp import QpType
from layouts.function.vport import traffic_counter
from layouts.steering.flow_match import fte_match_param

RX, TX = FlowTableType.RDMA_RX, FlowTableType.RDMA_TX
MISC = 2
TEXT = bytes(range(256)) * 24
UD_SEND_ONLY, RC_WRITE_LAST = 0x64, 0x08


@pytest.fixture
def ends(roce_ends):
    return roce_ends


def sent_by(number):
    param = fte_match_param.new()
    param.misc_parameters.source_sqn = number
    return bytes(param)


def of_vport(number):
    param = fte_match_param.new()
    param.misc_parameters.source_port = number
    return bytes(param)


def opcode(value):
    param = fte_match_param.new()
    param.misc_parameters.bth_opcode = value
    return bytes(param)


class Table:
    """A root table with one entry, by BTH opcode or for every packet."""

    def __init__(self, node, kind, action, op=None, *, sqn=None, source=None, rest=None):
        """``rest`` is a table to which the packets go that no entry matches."""
        self.node, self.kind = node, kind
        must = node.driver.must
        fields = table_fields(1 if rest else 2, miss=rest and rest.number)
        self.number = must(Op.CREATE_FLOW_TABLE, table_type=kind, **fields).table_id
        criteria, value = {}, None
        if op is not None:
            criteria, value = {"enable": MISC, "match_criteria": opcode(0xFF)}, opcode(op)
        elif sqn is not None:
            criteria, value = {"enable": MISC, "match_criteria": sent_by(0xFFFFFF)}, sent_by(sqn)
        elif source is not None:
            criteria = {"enable": MISC, "match_criteria": of_vport(0xFFFF)}
            value = of_vport(source)
        group = must(
            Op.CREATE_FLOW_GROUP, table_type=kind, **group_fields(self.number, 0, 0, **criteria)
        ).group_id
        self.counter = must(Op.ALLOC_FLOW_COUNTER).flow_counter_id
        fields = entry_fields(
            self.number, 0, group, action=action, counters=(self.counter,)
        )  # fmt: skip
        if value is not None:
            fields["flow_context"]["match_value"] = value
        must(Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields)
        must(Op.SET_FLOW_TABLE_ROOT, table_type=kind, table_id=self.number)

    def unroot(self):
        self.node.driver.must(Op.SET_FLOW_TABLE_ROOT, op_mod=1, table_type=self.kind)

    @property
    def counted(self):
        """(packets, octets)."""
        answer = self.node.driver.must(
            Op.QUERY_FLOW_COUNTER, flow_counter_id=self.counter, num_of_counters=1,
            out_extra=traffic_counter.size,
        )  # fmt: skip
        found = traffic_counter.view(bytearray(answer.raw[-traffic_counter.size :]))
        return found.packets, found.octets


def write(channel, length):
    source, target = channel.left.region(len(TEXT)), channel.right.region(len(TEXT))
    source.write(TEXT)
    channel.write((target.key, target.va), source.sge(0, length))
    channel.settle()
    return target


@pytest.mark.parametrize("index", [1, 4], ids=["v2", "v1"])
def test_packets_of_both_directions_are_counted(index, ends):
    """Between functions that would exchange a message as well: the last packet of six."""
    for node in ends:
        node.index = index
    channel = Channel(QpType.RC, *ends)
    tables = {
        "sent": Table(channel.left, TX, FlowAction.ALLOW, RC_WRITE_LAST),
        "received": Table(channel.right, RX, FlowAction.ALLOW, RC_WRITE_LAST),
    }
    assert write(channel, len(TEXT)).read(0) == TEXT
    assert len(channel.sent()) == 1
    counts = {name: table.counted for name, table in tables.items()}
    assert counts["sent"] == counts["received"]
    packets, octets = counts["sent"]
    assert packets == 1
    assert octets > 1024


def test_a_packet_that_is_allowed_meets_no_later_table(ends):
    """So the driver's counter of all packets counts those that no other counter has taken."""
    channel = Channel(QpType.RC, *ends)
    rest = Table(channel.right, RX, FlowAction.ALLOW)
    last = Table(channel.right, RX, FlowAction.ALLOW, RC_WRITE_LAST, rest=rest)
    sent = Table(channel.left, TX, FlowAction.ALLOW)
    assert write(channel, len(TEXT)).read(0) == TEXT
    assert last.counted[0] == 1
    packets, octets = (a + b for a, b in zip(last.counted, rest.counted, strict=True))
    assert (packets, octets) == sent.counted
    assert packets > 1


@pytest.mark.parametrize("kind", [TX, RX])
def test_packets_of_one_queue_pair_are_counted_where_they_are_sent(ends, kind):
    """Linux 7.2 counts so (fs.c: add_op_fc_rules). Who receives them does not know the number."""
    one, other = (Channel(QpType.RC, *ends) for _ in range(2))
    table = Table(one.left, kind, FlowAction.ALLOW, sqn=one.sender.qpn)
    write(other, 64)
    assert table.counted == (0, 0)
    write(one, 64)
    assert table.counted[0] == (kind is TX)


def test_without_a_root_a_message_stays_a_message(clock):
    left, right = on_one_segment(clock)
    channel = Channel(QpType.RC, left, right)
    table = Table(right, RX, FlowAction.ALLOW)
    write(channel, 64)
    counted = table.counted[0]
    assert counted
    table.unroot()
    write(channel, 64)
    assert table.counted[0] == counted
    assert len(channel.sent()) == 2


@pytest.mark.parametrize("kind", [RX, TX])
def test_dropped_packets_are_lost(ends, kind):
    channel = Channel(QpType.UC, *ends)
    node = channel.right if kind is RX else channel.left
    table = Table(node, kind, FlowAction.DROP)
    assert write(channel, 64).read(0, 64) == bytes(64)
    assert table.counted[0] == 1
    assert node.hca.roce.dropped["by a flow table"] == 1
    table.unroot()
    assert write(channel, 64).read(0, 64) == TEXT[:64]


@pytest.mark.parametrize("source", [UPLINK, MANAGER])
@pytest.mark.parametrize("is_own", [False, True])
def test_who_manages_a_switch_can_match_where_a_packet_is_from(clock, source, is_own):
    """Linux 6.1 allows what is its own (core/rdma.c: mlx5_rdma_enable_roce_steering)."""
    left, right = on_a_cable(clock, with_switch(LINKS["connectx6dx"][PortType.ETH]))
    channel = Channel(QpType.UC, right if is_own else left, right)
    table = Table(right, RX, FlowAction.DROP, source=source)
    is_dropped = is_own == (source == MANAGER)
    assert write(channel, 64).read(0, 64) == (bytes(64) if is_dropped else TEXT[:64])
    assert table.counted[0] == is_dropped


def test_what_no_entry_matches_goes_on(ends):
    channel = Channel(QpType.RC, *ends)
    table = Table(channel.right, RX, FlowAction.DROP, UD_SEND_ONLY)
    assert write(channel, len(TEXT)).read(0) == TEXT
    assert table.counted == (0, 0)


def switch_domain(node):
    """Root a table whose misses go to the interface's tables."""
    fields = table_fields(1, table_miss_action=TableMissAction.SWITCH_DOMAIN)
    must = node.driver.must
    number = must(Op.CREATE_FLOW_TABLE, table_type=RX, **fields).table_id
    must(Op.SET_FLOW_TABLE_ROOT, table_type=RX, table_id=number)


def test_a_miss_of_an_own_packet_leads_to_a_receive_queue(clock):
    (node,) = on_one_segment(clock, 1)
    channel, flows = Channel(QpType.UC, node, node), Flows(node.driver)
    switch_domain(node)
    rq = ReceiveQueue(node)
    buffers = Buffers(rq)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(node.driver, alloc_td(node.driver), rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    assert write(channel, 64).read(0, 64) == bytes(64)
    ((_, data),) = buffers.drain()
    assert TEXT[:64] in data
    looped = node.hca.nic_vport.looped_in
    assert (looped.packets, looped.octets) == (1, len(data))
    assert [way.packets for way in node.hca.nic_vport.port_traffic()] == [0, 0]


def test_a_miss_may_lead_to_the_tables_of_the_interface(clock):
    """Linux' last table of RDMA_RX: nobody there takes the packet."""
    left, right = on_a_cable(clock)
    channel = Channel(QpType.UC, left, right)
    switch_domain(right)
    discards = right.hca.nic_vport.steering_discards
    assert write(channel, 64).read(0, 64) == bytes(64)
    assert right.hca.nic_vport.steering_discards == discards + 1


class TestRefused:
    @pytest.fixture
    def model(self):
        return LINKS["connectx6dx"][PortType.ETH]

    def test_other_miss_actions(self, refused):
        fields = table_fields(1, table_miss_action=TableMissAction.SWITCH_DOMAIN)
        for kind in (FlowTableType.NIC_RX, TX):
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, table_type=kind, **fields)

    def test_what_entries_cannot_do(self, driver, function, refused):
        node = Node(function, driver)
        for kind, action, destinations in (
            (RX, FlowAction.FWD_DEST, (to_tir(1),)),
            (TX, FlowAction.FWD_DEST, (to_tir(1),)),
            (FlowTableType.NIC_RX, FlowAction.ALLOW, ()),
        ):
            must = node.driver.must
            table = must(Op.CREATE_FLOW_TABLE, table_type=kind, **table_fields(1)).table_id
            group = must(
                Op.CREATE_FLOW_GROUP, table_type=kind, **group_fields(table, 0, 0)
            ).group_id
            fields = entry_fields(table, 0, group, *destinations, action=action)
            refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields)

    def test_tables_and_contexts_of_another_type(self, driver, refused):
        """Each command names the type as well as the number."""
        tables = {
            kind: driver.must(Op.CREATE_FLOW_TABLE, table_type=kind, **table_fields(level)).table_id
            for kind, level in ((RX, 1), (TX, 2))
        }
        for op in (Op.QUERY_FLOW_TABLE, Op.SET_FLOW_TABLE_ROOT):
            refused(Status.BAD_RES_ERR, op, table_type=TX, table_id=tables[RX])
        fields = table_fields(1, miss=tables[TX])
        refused(Status.BAD_RES_ERR, Op.CREATE_FLOW_TABLE, table_type=RX, **fields)
        group = driver.must(
            Op.CREATE_FLOW_GROUP, table_type=RX, **group_fields(tables[RX], 0, 0)
        ).group_id
        to_tx = entry_fields(tables[RX], 0, group, to_table(tables[TX]))
        refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=RX, **to_tx)
        changes = context_fields(set_field(ModifyField.OUT_IP_DSCP, 1, 6))
        number = driver.must(Op.ALLOC_MODIFY_HEADER_CONTEXT, **changes).modify_header_id
        fields = entry_fields(tables[RX], 0, group, action=FlowAction.ALLOW, modify=number)
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=RX, **fields)

    def test_types_that_are_not_there(self, refused):
        for kind in (FlowTableType.PORT_SEL, FlowTableType.FDB):
            refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_TABLE, table_type=kind, **table_fields(1))


@pytest.mark.hostile
@pytest.mark.parametrize("kind", [RX, TX])
def test_the_round_is_charged_for_what_packets_are_compared_with(ends, kind):
    """So that the turns of queue pairs, and what arrives, end when it has done enough."""
    channel, groups = Channel(QpType.UC, *ends), 400
    node = channel.right if kind is RX else channel.left
    must = node.driver.must
    number = must(Op.CREATE_FLOW_TABLE, table_type=kind, **table_fields(0, log_size=9)).table_id
    criteria = {"enable": MISC, "match_criteria": opcode(0xFF)}
    for index in range(groups):
        fields = group_fields(number, index, index, **criteria)
        group = must(Op.CREATE_FLOW_GROUP, table_type=kind, **fields).group_id
        fields = entry_fields(number, index, group, action=FlowAction.ALLOW)
        must(Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields)
    source, target = channel.left.region(64), channel.right.region(64)
    source.write(TEXT[:64])
    costs, most = Costs(*dict.fromkeys((channel.left, channel.right))), []
    for root in ({"op_mod": 1}, {"table_id": number}):
        must(Op.SET_FLOW_TABLE_ROOT, table_type=kind, **root)
        costs.most()
        channel.write((target.key, target.va), source.sge())
        channel.settle()
        most.append(costs.most())
    assert target.read(0, 64) == TEXT[:64]
    assert most[0] < 2 * groups >> LOG_STEERED_PER_STEP <= most[1]
