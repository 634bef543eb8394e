"""QP1 of a function: the subnet's administrator and other ports' agents, by work request."""

import pytest

from emu.device.port.datagram import GSI_QKEY
from emu.device.port.ib.port import SM_LID
from emu.driver.verbs.gsi import GRH_BYTES, Gsi, joined
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.qp import QpState, QpType
from layouts.enums.vport import PhysState, PortState
from layouts.rings.eqe import eqe_port_state
from layouts.wire import sa
from layouts.wire.mads import (
    MAD_BYTES,
    MadStatus,
    Method,
    MgmtClass,
    PmaAttr,
    class_port_info,
    pma_mad,
    pma_portcounters,
    pma_portcounters_ext,
)
from layouts.wire.sa import JoinState, SaAttr, SaStatus

GET, SET, GET_TABLE = Method.GET, Method.SET, Method.GET_TABLE
BROADCAST = bytes.fromhex("ff12401bffff00000000 0000ffffffff")
COUNTERS = (PmaAttr.PORT_COUNTERS, pma_portcounters)
EXTENDED = (PmaAttr.PORT_COUNTERS_EXT, pma_portcounters_ext)
COMM_MGMT, CONNECT_REQUEST = 0x07, 0x10
MAD_OCTETS = 8 + 12 + 8 + 256 + 4
"""Local route header, BTH, DETH, a MAD and the CRC."""


@pytest.fixture
def gsi(node):
    return Gsi(node)


@pytest.fixture
def gsis(pair):
    return [Gsi(node) for node in pair]


def gid(node):
    return node.hca.port.gid(0)


# -- the administrator


def test_path_to_another_function(gsis, pair):
    one, two = pair
    answer, (record,) = gsis[0].ask_sa(
        GET, SaAttr.PATH_REC, sa.path_rec, sgid=gid(one), dgid=gid(two), numb_path=1
    )
    assert answer.mad_hdr.status == MadStatus.SUCCESS
    assert (record.slid, record.dlid) == (one.lid, two.lid)


def test_table_in_several_mads(gsis, pair):
    answer, records = gsis[1].ask_sa(GET_TABLE, SaAttr.NODE_REC, sa.node_rec)
    assert answer.attr_offset == 14
    assert [record.lid for record in records] == [1, 2, SM_LID]
    assert records[0].node_desc.startswith(b"ConnectX-6, ")


def join(gsi, node, method=SET):
    return gsi.ask_sa(
        method, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, mgid=BROADCAST, port_gid=gid(node),
        join_state=JoinState.FULL_MEMBER,
    )  # fmt: skip


def is_member(gsi, node):
    answer, _ = gsi.ask_sa(
        GET, SaAttr.MC_MEMBER_REC, sa.mcmember_rec, mgid=BROADCAST, port_gid=gid(node)
    )
    assert answer.mad_hdr.status in (MadStatus.SUCCESS, SaStatus.NO_RECORDS)
    return answer.mad_hdr.status == MadStatus.SUCCESS


def test_join_as_ipoib_does(gsis, pair):
    _, (record,) = join(gsis[0], pair[0])
    assert (record.mlid, record.qkey, record.mtu) == (0xC000, 0x0B1B, 5)
    assert is_member(gsis[0], pair[0])


def test_reset_and_pulled_cable_end_memberships(gsis, pair, wire):
    for gsi, node in zip(gsis, pair, strict=True):
        join(gsi, node)
    pair[1].function.reset()
    set_link(pair[0].hca, up=False)
    assert not wire.sa.groups._groups[BROADCAST].members
    set_link(pair[0].hca, up=True)
    assert not is_member(gsis[0], pair[0])


def test_wrong_queue_key_is_not_heard(gsi):
    mad = sa.sa_mad.new(
        mad_hdr=gsi.header(MgmtClass.SUBN_ADM, 2, GET, SaAttr.CLASS_PORTINFO),
    )
    gsi.send(mad, key=0x1234 << 32)
    assert gsi.take() == []
    gsi.send(mad, dqp_dct=0)
    gsi.send(mad, dqp_dct=0x40)
    assert gsi.take() == []
    gsi.send(mad)
    assert len(gsi.take()) == 1


# -- performance management


def test_counters_of_ones_own_port(gsi, node):
    """What a port sends to itself does not pass it; the virtual port's counters have it."""
    for _ in range(2):
        ext = gsi.pma(GET, EXTENDED[0], node.lid, EXTENDED[1], port_select=1)
        counters = pma_portcounters_ext.view(ext.data)
        assert not any(value for name, value in counters.as_dict().items() if "_select" not in name)
    out = node.driver.must(Op.QUERY_VPORT_COUNTER)
    sent, received = out.transmitted_ib_unicast, out.received_ib_unicast
    assert sent.as_dict() == received.as_dict() == out.local_loopback.as_dict()
    assert (sent.packets, sent.octets) == (4, 4 * MAD_OCTETS)


def test_counters_of_another_port(gsis, pair):
    two = pair[1]
    for node in pair:
        node.hca.port.count_sent(5, 4000)
    answer = gsis[0].pma(GET, COUNTERS[0], two.lid, COUNTERS[1], port_select=1)
    counters = pma_portcounters.view(answer.data)
    assert answer.mad_hdr.status == MadStatus.SUCCESS
    assert (counters.port_xmit_packets, counters.port_xmit_data) == (5, 1000)
    assert (counters.port_rcv_packets, counters.port_rcv_data) == (1, MAD_OCTETS // 4)
    assert not gsis[1].take()


def switch_port(gsi, number, attr=COUNTERS, method=GET, **fields):
    """The counters of a port of the subnet manager's switch, as ``ibqueryerrors`` reads them."""
    answer = gsi.pma(method, attr[0], SM_LID, attr[1], port_select=number, **fields)
    assert answer.mad_hdr.status == MadStatus.SUCCESS
    return attr[1].view(answer.data)


def test_counters_of_the_switch(gsis, pair, wire):
    """Each port of the switch has sent what the port behind it has received."""
    one, two = (wire.sa.switch.ports.number_of(node.lid) for node in pair)
    pair[1].hca.port.count_sent(5, 4000)
    pair[1].hca.port.count_received(2, 800, multicast=True)
    found = switch_port(gsis[0], two, EXTENDED)
    assert (found.port_rcv_packets, found.port_rcv_data) == (5, 1000)
    assert (found.port_xmit_packets, found.port_multicast_xmit_packets) == (2, 2)
    before = switch_port(gsis[0], 0xFF).port_xmit_packets
    assert switch_port(gsis[0], 0xFF).port_xmit_packets == before + 1  # the answer before
    assert switch_port(gsis[0], one).port_rcv_packets >= 4
    assert switch_port(gsis[0], 0).port_rcv_packets == 0
    assert switch_port(gsis[0], 40).port_rcv_packets == 0


def test_counters_of_the_switch_are_cleared(gsis, pair, wire):
    two = wire.sa.switch.ports.number_of(pair[1].lid)
    set_link(pair[1].hca, up=False)
    set_link(pair[1].hca, up=True)
    pair[1].hca.port.count_sent(5, 4000)
    assert switch_port(gsis[0], two).link_downed_counter == 1
    found = switch_port(gsis[0], two, method=SET, counter_select=0xFFFF)
    assert (found.link_downed_counter, found.port_rcv_packets) == (0, 0)
    answer = gsis[0].pma(GET, COUNTERS[0], pair[1].lid, COUNTERS[1], port_select=1)
    assert pma_portcounters.view(answer.data).port_xmit_packets == 5  # its own have not changed


def test_counters_of_the_switch_begin_again_after_a_reset_behind(gsis, pair, wire):
    """The port behind counts from 0 again; its LID and its number stay."""
    two = wire.sa.switch.ports.number_of(pair[1].lid)
    pair[1].hca.port.count_sent(500, 400000)
    assert switch_port(gsis[0], two, method=SET, counter_select=0xFFFF).port_rcv_packets == 0
    pair[1].function.reset()
    assert switch_port(gsis[0], two).port_rcv_packets == 0
    pair[1].function.hca.port.count_sent(3, 2400)
    found = switch_port(gsis[0], two)
    assert (found.port_rcv_packets, found.port_rcv_data) == (3, 600)


def test_cleared_counters_of_the_switch_while_the_link_is_down(gsis, pair, wire):
    two = wire.sa.switch.ports.number_of(pair[1].lid)
    pair[1].hca.port.count_sent(500, 400000)
    switch_port(gsis[0], two, method=SET, counter_select=0xFFFF)
    set_link(pair[1].hca, up=False)
    assert switch_port(gsis[0], two).port_rcv_packets == 0
    set_link(pair[1].hca, up=True)
    pair[1].hca.port.count_sent(3, 2400)
    assert switch_port(gsis[0], two).port_rcv_packets == 3


def test_there_is_no_port_of_the_switch_above_its_last(gsi):
    answer = gsi.pma(GET, COUNTERS[0], SM_LID, COUNTERS[1], port_select=41)
    assert answer.mad_hdr.status == MadStatus.INVALID_ATTRIB_VALUE
    info = gsi.pma(GET, PmaAttr.CLASS_PORT_INFO, SM_LID)
    assert class_port_info.view(info.data).capability_mask == 1 << 9 | 1 << 8


def test_class_port_info_says_that_counters_are_wide(gsi, node):
    answer = gsi.pma(GET, PmaAttr.CLASS_PORT_INFO, node.lid)
    assert class_port_info.view(answer.data).capability_mask & 1 << 9


def test_counters_are_set_one_by_one_and_each_attribute_for_itself(gsi, node):
    node.hca.port.count_sent(5, 4000)
    node.hca.port.set_link(up=False)
    node.hca.port.set_link(up=True)
    select = 1 << 2 | 1 << 12
    answer = gsi.pma(
        SET, COUNTERS[0], node.lid, COUNTERS[1], port_select=1, counter_select=select,
        port_xmit_data=0, port_xmit_packets=0,
    )  # fmt: skip
    counters = pma_portcounters.view(answer.data)
    assert (counters.port_xmit_data, counters.port_xmit_packets) == (0, 5)
    assert counters.link_downed_counter == 0
    ext = pma_portcounters_ext.view(
        gsi.pma(GET, EXTENDED[0], node.lid, EXTENDED[1], port_select=0xFF).data
    )
    assert ext.port_xmit_data == 4000 // 4


def test_narrow_counters_stand_still_at_their_end(gsi, node):
    node.hca.port.count_sent(1 << 33, 1 << 40)
    counters = pma_portcounters.view(
        gsi.pma(GET, COUNTERS[0], node.lid, COUNTERS[1], port_select=1).data
    )
    assert (counters.port_xmit_packets, counters.port_xmit_data) == (0xFFFFFFFF, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("attr", "fields", "status"),
    [
        (PmaAttr.PORT_COUNTERS, {"port_select": 2}, MadStatus.INVALID_ATTRIB_VALUE),
        (PmaAttr.PORT_COUNTERS, {"port_select": 0}, MadStatus.INVALID_ATTRIB_VALUE),
        (0x0010, {"port_select": 1}, MadStatus.UNSUPPORTED_METHOD_ATTRIB),
    ],
)
def test_what_the_agent_refuses(gsi, node, attr, fields, status):
    assert gsi.pma(GET, attr, node.lid, pma_portcounters, **fields).mad_hdr.status == status


def test_agent_refuses_other_versions(gsi, node):
    hdr = gsi.header(MgmtClass.PERF_MGMT, 2, GET, PmaAttr.CLASS_PORT_INFO)
    gsi.send(pma_mad.new(mad_hdr=hdr), node.lid)
    ((_, data),) = gsi.take()
    assert pma_mad.view(data).mad_hdr.status == MadStatus.BAD_VERSION


@pytest.mark.parametrize(
    ("mgmt_class", "method"), [(MgmtClass.PERF_MGMT, 0x81), (0x07, GET), (MgmtClass.SUBN_ADM, GET)]
)
def test_what_is_not_the_agents_goes_to_the_guest(gsi, node, mgmt_class, method):
    mad = pma_mad.new(mad_hdr=gsi.header(mgmt_class, 1, method, PmaAttr.CLASS_PORT_INFO))
    gsi.send(mad, node.lid)
    ((completion, data),) = gsi.take()
    assert data == bytes(mad)
    assert completion.slid == node.lid


def test_what_is_shorter_than_a_mad_goes_to_the_guest(gsi, node):
    gsi.out.write(bytes(pma_mad.new(mad_hdr=gsi.header(MgmtClass.PERF_MGMT, 1, GET, 1))))
    vector = {"rlid": node.lid, "dqp_dct": 1, "key": GSI_QKEY << 32}
    gsi.qp.datagram(vector, gsi.out.sge(0, MAD_BYTES - 4))
    node.settle()
    received = [one for one in gsi.qp.cq.drain() if one.opcode is CqeOpcode.RESP_SEND]
    assert [one.byte_cnt for one in received] == [GRH_BYTES + MAD_BYTES - 4]


def test_agent_wants_the_keys_of_qp1(gsi, node):
    mad = pma_mad.new(mad_hdr=gsi.header(MgmtClass.PERF_MGMT, 1, GET, PmaAttr.CLASS_PORT_INFO))
    gsi.send(mad, node.lid, key=(GSI_QKEY & 0x7FFFFFFF) << 32)
    assert gsi.take() == []


@pytest.mark.parametrize(
    ("mine", "its", "pkey"),
    [
        ((0xFFFF,), (0x8001, 0xFFFF), 0xFFFF), ((0x0001,), (0xFFFF, 0x8001), 0x0001),
        ((0xFFFF,), (0x8001, 0x8002), None), ((0x0001,), (0xFFFF, 0x0001), None),
    ],
)  # fmt: skip
def test_a_guest_receives_any_pkey_of_its_ports_table(gsis, pair, mine, its, pkey):
    """The driver looks for the P_Key of a completion in the table (hw/cq.c)."""
    one, two = (node.hca.port for node in pair)
    one.pkeys, two.pkeys = mine, its
    mad = pma_mad.new(mad_hdr=gsis[0].header(COMM_MGMT, 2, Method.SEND, CONNECT_REQUEST))
    gsis[0].send(mad, pair[1].lid)
    found = [completion.immediate for completion, _ in gsis[1].take()]
    assert found == ([] if pkey is None else [pkey])
    assert two.pkey_violations == (pkey is None)


# -- the link


def port_events(node, eqn):
    return [
        (entry.sub_type, eqe_port_state.view(entry.data).port.port_num)
        for entry in node.driver.eqs[eqn].drain()
        if entry.type == EventType.PORT_CHANGE
    ]


def test_cable_is_pulled_and_plugged_in_again(node):
    eqn = node.driver.create_eq(events=[EventType.PORT_CHANGE])
    set_link(node.hca, up=True)
    set_link(node.hca, up=False)
    set_link(node.hca, up=False)
    assert port_events(node, eqn) == [(PortChange.DOWN, 1)]
    context = node.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert (context.vport_state, context.port_state) == (PortState.DOWN, PortState.DOWN)
    assert context.port_physical_state == PhysState.POLLING
    assert node.driver.must(Op.QUERY_VPORT_STATE).state == 0
    set_link(node.hca, up=True)
    assert port_events(node, eqn) == [(PortChange.ACTIVE, 1)]
    context = node.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert (context.vport_state, context.lid) == (PortState.ACTIVE, node.lid)


def test_nobody_hears_of_the_link_without_an_eq_for_it(node):
    set_link(node.hca, up=False)
    assert node.driver.must(Op.QUERY_VPORT_STATE).state == 0


def test_port_that_is_down_is_not_on_the_subnet(gsis, pair):
    one, two = pair
    set_link(two.hca, up=False)
    _, records = gsis[0].ask_sa(GET_TABLE, SaAttr.NODE_REC, sa.node_rec)
    assert [record.lid for record in records] == [one.lid, SM_LID]
    sent = two.hca.vport.counters()
    request = sa.sa_mad.new(mad_hdr=gsis[1].header(3, 2, GET, SaAttr.CLASS_PORTINFO))
    gsis[1].send(request)
    assert gsis[1].take() == []
    assert two.hca.vport.counters() == sent
    assert gsis[1].qp.state is QpState.RTS


# -- what vport counters count


def counters(node):
    answer = node.driver.must(Op.QUERY_VPORT_COUNTER, clear=1)
    names = ("transmitted_ib_{}cast", "received_ib_{}cast")
    return {
        name: (getattr(answer, name).packets, getattr(answer, name).octets)
        for name in (form.format(cast) for form in names for cast in ("uni", "multi"))
        if getattr(answer, name).packets
    }


def test_multicast_counts_once_for_each_port(pair):
    one, two = pair
    group = bytes.fromhex("ff12401bffff") + bytes(9) + b"\7"
    senders = [node.queue_pair(QpType.UD) for node in (one, two, two)]
    for qp in senders:
        qp.init(q_key=7, mtu=5, log_msg_max=12)
        qp.to_rtr(mtu=0, log_msg_max=0)
        qp.to_rts()
    for qp in senders[1:]:
        two.driver.must(Op.ATTACH_TO_MCG, qpn=qp.qpn, multicast_gid=group)
    mlid = joined(two, group)
    to = {"dqp_dct": 0xFFFFFF, "rlid": mlid, "grh_gid_fl": 1 << 30, "rgid": group, "key": 7 << 32}
    for node in pair:
        counters(node)
    senders[0].datagram(to, b"abc")
    one.settle()
    octets = 8 + 40 + 12 + 8 + 4 + 4  # with a GRH, and three bytes padded to a word
    assert counters(one) == {"transmitted_ib_multicast": (1, octets)}
    assert counters(two) == {"received_ib_multicast": (1, octets)}


def test_what_nobody_takes_has_arrived_all_the_same(pair):
    one, two = pair
    sender = one.queue_pair(QpType.UD)
    sender.init(q_key=7, mtu=5, log_msg_max=12)
    sender.to_rtr(mtu=0, log_msg_max=0)
    sender.to_rts()
    sender.datagram({"dqp_dct": 0x123, "rlid": two.lid, "key": 7 << 32}, b"abcd", imm=1)
    one.settle()
    assert counters(two) == {"received_ib_unicast": (1, 8 + 12 + 8 + 4 + 4 + 4)}
