"""The embedded switch puts packets into tunnels, and takes them out."""

from struct import pack

import pytest
from helpers.device.switches import UPLINK, Switch

from emu.device.port.eth.checksum import insert
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.device.port.eth.plain import plain
from emu.device.port.eth.segment import segment
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    match_misc,
    reformat_fields,
    to_table,
    to_vport,
    with_reformat,
)  # fmt: skip
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.packet_reformat import ReformatType

MISC = 1 << 1
VNI = 0x4242
REFORMAT, DECAP = FlowAction.PACKET_REFORMAT, FlowAction.DECAP
INNER = EthPacket(payload=b"inside" * 20).frame()
ETHERNET = bytes.fromhex("020000000001 020000000002")
UDP = bytes.fromhex("0000 12b5 0000 0000")
VXLAN = b"\x08\0\0\0" + VNI.to_bytes(3, "big") + b"\0"
IPV4 = bytes.fromhex("4500 0000 0000 0000 4011 0000 0a000001 0a000002")
IPV6 = bytes.fromhex("60000000 0000 11 40") + bytes(15) + b"\1" + bytes(15) + b"\2"
OVER_4 = ETHERNET + bytes.fromhex("0800") + IPV4 + UDP + VXLAN
OVER_6 = ETHERNET + bytes.fromhex("86dd") + IPV6 + UDP + VXLAN
GRE = (
    ETHERNET
    + bytes.fromhex("0800")
    + IPV4.replace(b"\x40\x11", b"\x40\x2f")
    + bytes.fromhex("2000 6558 00000007")
)
TAG, LABEL = bytes.fromhex("8100 0007"), bytes.fromhex("8847 0000 1140")


@pytest.fixture
def switch(clock):
    return Switch(clock)


def context(switch, data=b"", kind=ReformatType.L2_TO_VXLAN, **fields):
    given = reformat_fields(kind, data, **fields)
    return switch.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **given).packet_reformat_id


def reformat(number):
    return {"also": REFORMAT, "beside": {"packet_reformat_id": number}}


@pytest.mark.parametrize("data", [OVER_4, OVER_6], ids=["IPv4", "IPv6"])
def test_into_a_vxlan_tunnel(switch, data):
    switch.entry(**reformat(context(switch, data)))
    (sent,) = switch.passes(INNER)
    headers = parse(sent)
    assert sent[len(data) :] == INNER
    assert headers.end == len(sent) == len(data) + len(INNER)
    l4 = headers.l4
    assert int.from_bytes(sent[l4 : l4 + 2], "big") >= 0xC000, "a port that tells flows apart"
    assert int.from_bytes(sent[l4 + 4 : l4 + 6], "big") == len(sent) - l4
    assert insert(headers, l3=True, l4=False) == sent
    assert sent[l4 + 8 : l4 + 16] == VXLAN


def test_packets_of_a_flow_have_one_port_and_flows_have_several(switch):
    switch.entry(**reformat(context(switch, OVER_4)))
    ports = [
        {switch.passes(EthPacket(ports=pack(">HH", port, 7), payload=bytes(size)).frame())[0][34:36]
         for size in (80, 90)}
        for port in range(1000, 1008)
    ]  # fmt: skip
    assert all(len(one) == 1 for one in ports)
    assert len(set.union(*ports)) > 4


@pytest.mark.parametrize("data", [OVER_4, OVER_6, GRE], ids=["VXLAN", "VXLAN over IPv6", "GRE"])
def test_out_of_a_tunnel(switch, data):
    switch.entry(**reformat(context(switch, data, ReformatType.L2_TO_L2_TUNNEL)))
    (packet,) = switch.passes(INNER)
    fdb, table = switch.fdb, switch.second
    fdb.set_root(table)
    switch.entry(table=table, also=DECAP)
    assert switch.passes(packet) == [INNER]
    assert switch.passes(INNER) == [], "it is in no tunnel"


def test_what_is_inside_decides_behind_the_tunnel(switch):
    switch.entry(to_table(switch.second), also=DECAP)
    fdb, table = switch.fdb, switch.second
    group = fdb.group(table, 0, 3, udp_dport=0xFFFF, ip_protocol=0xFF)
    fdb.entry(table, 0, group, to_vport(UPLINK), udp_dport=7, ip_protocol=17)
    switch.drop_rest(table)
    for port, passes in ((7, True), (8, False), (7, True)):
        inner = EthPacket(protocol=17, ports=pack(">HH", 1, port), payload=bytes(99)).frame()
        outer = Frame(b"".join((GRE, inner))).data
        length = (len(outer) - 14).to_bytes(2, "big")
        assert switch.passes(outer[:16] + length + outer[18:]) == [inner] * passes


def over_4(port=4789):
    """A packet in a VXLAN tunnel over IPv4."""
    length = (len(OVER_4) - 14 + len(INNER)).to_bytes(2, "big")
    udp = port.to_bytes(2, "big") + (16 + len(INNER)).to_bytes(2, "big")
    return OVER_4[:16] + length + OVER_4[18:36] + udp + OVER_4[40:] + INNER


def test_a_key_of_the_tunnel_is_matched(switch):
    fdb, table = switch.fdb, switch.first
    group = fdb.group(table, 0, 3, enable=MISC, match_criteria=match_misc(vxlan_vni=0xFFFFFF))
    fdb.entry(table, 0, group, to_vport(UPLINK), also=DECAP, value=match_misc(vxlan_vni=VNI))
    switch.drop_rest()
    packet = over_4()
    assert switch.passes(packet) == [INNER]
    assert switch.passes(packet.replace(VXLAN, VXLAN[:4] + b"\1" + VXLAN[5:])) == []


def test_a_tunnel_at_a_port_that_the_driver_has_added(switch):
    """As with `ip link add type vxlan dstport 8472` (core/lib/vxlan.c)."""
    fdb, table = switch.fdb, switch.first
    group = fdb.group(table, 0, 3, enable=MISC, match_criteria=match_misc(vxlan_vni=0xFFFFFF))
    fdb.entry(table, 0, group, to_vport(UPLINK), also=DECAP, value=match_misc(vxlan_vni=VNI))
    switch.drop_rest()
    packet = over_4(8472)
    assert switch.passes(packet) == []
    driver = switch.manager.driver
    driver.must(Op.ADD_VXLAN_UDP_DPORT, vxlan_udp_port=8472)
    assert switch.passes(packet) == [INNER]
    driver.must(Op.DELETE_VXLAN_UDP_DPORT, vxlan_udp_port=8472)
    assert switch.passes(packet) == []


def test_a_mirror_by_an_acl_leaves_the_tunnel_at_such_a_port(switch):
    """Both receivers get the packet of one parser."""
    switch.driver.must(Op.ADD_VXLAN_UDP_DPORT, vxlan_udp_port=8472)
    acl = Flows(switch.driver, FlowTableType.ESW_EGRESS_ACL)
    table = acl.table(0)
    criteria = match_misc(vxlan_vni=0xFFFFFF)
    group = acl.group(table, 0, 0, enable=MISC, match_criteria=criteria)
    counter = acl.counter()
    value = match_misc(vxlan_vni=VNI)
    acl.entry(table, 0, group, action=FlowAction.DROP, counters=[counter], value=value)
    acl.set_root(table)
    switch.entry(to_vport(0), to_table(switch.second))
    switch.entry(table=switch.second, also=DECAP)
    assert switch.passes(over_4(8472)) == [INNER]
    assert acl.query_counter(counter)[0] == 1
    switch.driver.must(Op.DELETE_VXLAN_UDP_DPORT, vxlan_udp_port=8472)
    assert switch.passes(over_4(8472)) == []
    assert acl.query_counter(counter)[0] == 1


@pytest.mark.parametrize("field", ["geneve_vni", "geneve_oam", "geneve_opt_len"])
def test_geneve_is_matched_and_ends(switch, field):
    """The options behind its header end with it."""
    flags = {"geneve_oam": "0180 6558", "geneve_opt_len": "0100 6558"}
    has = {"geneve_vni": VNI, "geneve_oam": 1, "geneve_opt_len": 1}
    geneve = bytes.fromhex(flags.get(field, "0100 6558")) + VNI.to_bytes(3, "big") + bytes(5)
    data = OVER_4[: -len(VXLAN)].replace(b"\x12\xb5", b"\x17\xc1") + geneve
    switch.entry(**reformat(context(switch, data)))
    (packet,) = switch.passes(INNER)
    fdb, table = switch.fdb, switch.second
    fdb.set_root(table)
    mask = 1 if field == "geneve_oam" else 0x3F
    criteria = match_misc(**{field: mask, "geneve_protocol_type": 0xFFFF})
    group = fdb.group(table, 0, 3, enable=MISC, match_criteria=criteria)
    value = match_misc(**{field: has[field]}, geneve_protocol_type=0x6558)
    fdb.entry(table, 0, group, to_vport(UPLINK), also=DECAP, value=value)
    switch.drop_rest(table)
    assert switch.passes(packet) == [INNER]
    assert switch.passes(packet.replace(b"\x65\x58", b"\x08\x00")) == []


def test_super_frames_are_cut_before_they_go_into_a_tunnel(switch):
    switch.entry(**reformat(context(switch, OVER_4)))
    packet = EthPacket(payload=bytes(3000)).frame()
    hca = switch.manager.hca
    hca.switch.forward(hca, Frame(packet, gso_size=1000, checked=True))
    sent = [frame.data for frame in switch.wire.sent()]
    assert len(sent) == 3
    for frame in sent:
        inner = parse(frame[len(OVER_4) :])
        assert insert(inner, l3=True, l4=True) == inner.frame
    hca.switch.forward(hca, Frame(packet, gso_size=1, checked=True))
    assert switch.wire.sent() == [], "more than are cut"


def test_each_destination_has_a_tunnel_of_its_own(switch):
    """extended_destination: a rule of tc that mirrors to several tunnels."""
    numbers = [context(switch, data) for data in (OVER_4, OVER_6)]
    fdb = switch.fdb
    counter = fdb.counter()
    group = fdb.group(switch.first, 0, 0)
    to = [with_reformat(to_vport(UPLINK), number) for number in numbers]
    to.append(with_reformat(to_vport(UPLINK), None))
    fdb.entry(
        switch.first, 0, group, *to, counters=[counter], beside={"extended_destination": 1}
    )  # fmt: skip
    sent = switch.passes(INNER)
    assert sorted(len(frame) - len(INNER) for frame in sent) == [0, len(OVER_4), len(OVER_6)]
    assert fdb.query_counter(counter)[0] == 1
    gone = {"packet_reformat_id": numbers[1]}
    answer = switch.driver.command(Op.DEALLOC_PACKET_REFORMAT_CONTEXT, **gone)
    assert answer.status == Status.BAD_RES_STATE_ERR, "an entry uses it"
    fdb.modify(switch.first, 0, group, to_vport(UPLINK), also=FlowAction.COUNT)
    assert switch.passes(INNER) == [INNER]
    assert fdb.query_counter(counter)[0] == 2
    switch.driver.must(Op.DEALLOC_PACKET_REFORMAT_CONTEXT, **gone)


def test_a_bridge_inserts_and_removes_a_tag(switch):
    """core/esw/bridge.c: at the place of the VLAN's type."""
    switch.entry(**reformat(context(switch, TAG, ReformatType.INSERT_HDR, param_1=12)))
    tagged = INNER[:12] + TAG + INNER[12:]
    assert switch.passes(INNER) == [tagged]
    switch.fdb.set_root(switch.second)
    number = context(switch, kind=ReformatType.REMOVE_HDR, size=4, param_1=12)
    switch.entry(table=switch.second, **reformat(number))
    assert switch.passes(tagged) == [INNER]


@pytest.mark.parametrize("header", [LABEL, TAG])
@pytest.mark.parametrize("size", [0, 50])
def test_checksums_are_of_the_packet_before_a_header_is_inserted(switch, header, size):
    """A sender has requested them; ``size`` is the payload of a large send's packets."""
    switch.entry(**reformat(context(switch, header, ReformatType.INSERT_HDR, param_1=12)))
    whole = segment(INNER[:-120], INNER[-120:], size) if size else [INNER]
    hca = switch.manager.hca
    hca.switch.forward(hca, Frame(INNER[:50] + b"\xaa\xbb" + INNER[52:], size, checked=True))
    switch.manager.node.settle()
    sent = [one for frame in switch.wire.sent() for one in plain(frame)]
    assert sent == [frame[:12] + header + frame[12:] for frame in whole]


@pytest.mark.hostile
def test_a_super_frame_without_its_payload_counts_as_one_packet(switch):
    """The removed bytes are all that is behind the TCP header."""
    number = context(switch, kind=ReformatType.REMOVE_HDR, size=60, param_1=64)
    switch.entry(**reformat(number))
    packet = EthPacket(options=bytes(12), payload=bytes(60)).frame()
    hca = switch.manager.hca
    hca.switch.forward(hca, Frame(packet, gso_size=30, checked=True))
    assert [frame.data for frame in switch.wire.sent()] == [packet[:66]]
    hca.switch.receive(Frame(packet[:66], gso_size=30, checked=True))
    assert [traffic.packets for traffic in hca.switch.port_traffic()] == [1, 1]
    assert not hca.health.has_failed


def test_query_returns_what_was_given(switch):
    number = context(switch, OVER_6)
    found = switch.driver.must(
        Op.QUERY_PACKET_REFORMAT_CONTEXT, packet_reformat_id=number, out_extra=len(OVER_6)
    ).packet_reformat_context
    assert found.reformat_data_size == len(OVER_6)
    data = bytes(found.reformat_data) + b"".join(found.more_reformat_data)
    assert data[: len(OVER_6)] == OVER_6


@pytest.mark.hostile
def test_refused(switch):
    driver = switch.driver

    def status(kind, data=b"", op=Op.ALLOC_PACKET_REFORMAT_CONTEXT, **fields):
        return driver.command(op, **reformat_fields(kind, data, **fields)).status

    bad = Status.BAD_PARAM_ERR
    assert status(0x5, OVER_4) == bad, "not built"
    assert status(ReformatType.L2_TO_VXLAN, b"no headers of a tunnel, but long enough") == bad
    assert status(ReformatType.L2_TO_VXLAN, b"short") == bad
    assert status(ReformatType.L2_TO_VXLAN, b"", size=0) == bad
    assert status(ReformatType.L2_TO_VXLAN, OVER_4 * 6) == bad, "above max_encap_header_size"
    assert status(ReformatType.L2_TO_VXLAN, OVER_4 + b"x") == bad, "odd"
    assert status(ReformatType.L2_TO_VXLAN, OVER_4, size=200) == Status.BAD_INP_LEN_ERR
    assert status(ReformatType.INSERT_HDR, TAG, param_0=7) == bad
    assert status(ReformatType.INSERT_HDR, TAG, param_1=99) == bad
    assert status(ReformatType.REMOVE_HDR, size=100) == bad
    fdb, table = switch.fdb, switch.first
    group = fdb.group(table, 0, 3)
    number = context(switch, OVER_4)

    def entry(*to, kind=FlowTableType.FDB, **options):
        fields = entry_fields(table, 0, group, *to, **options)
        return driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields).status

    found = entry(to_vport(UPLINK), also=REFORMAT, beside={"packet_reformat_id": number + 1})
    assert found == Status.BAD_RES_ERR
    long = {"beside": {"extended_destination": 1}}
    short = with_reformat(to_vport(UPLINK), number)[:8]
    assert entry(short) == bad, "no room for the number"
    assert entry(short, **long) == Status.BAD_INP_LEN_ERR
    assert entry(with_reformat(to_table(switch.second), number), **long) == bad
    ways = [with_reformat(to_vport(UPLINK), number)] * 33
    assert entry(*ways, **long) == Status.LIM_ERR, "above log_max_fdb_encap_uplink"
    assert entry(*ways[1:], **long) == Status.OK
