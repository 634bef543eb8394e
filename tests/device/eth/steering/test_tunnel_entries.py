"""Entries that put packets into tunnels where they leave, and end tunnels where packets come in."""

from struct import pack

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.device.port.eth.plain import plain
from emu.device.rounds.costs import LOG_STEERED_PER_STEP
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import (
    context_fields,
    entry_fields,
    reformat_fields,
    set_field,
    to_table,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.modify_header import ModifyField
from layouts.enums.packet_reformat import ReformatType
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.steering.flow_match import fte_match_param

ALLOW, FORWARD, DECAP = FlowAction.ALLOW, FlowAction.FWD_DEST, FlowAction.DECAP
REFORMAT = FlowAction.PACKET_REFORMAT
L2, L3, TO_L2 = (
    ReformatType.L2_TO_L2_TUNNEL, ReformatType.L2_TO_L3_TUNNEL, ReformatType.L3_TUNNEL_TO_L2,
)  # fmt: skip
GENEVE_PORT, VXLAN_PORT, GRE = 6081, 4789, 47
MISC = 1 << 1
OUTER_MACS = bytes.fromhex("021100000001021100000002")


def outer_of(protocol, ports=b"", rest=b""):
    """The headers of a tunnel, whose lengths and checksums are the adapter's."""
    ip = pack(">BBHHHBBH4s4s", 0x45, 0, 0, 7, 0, 64, protocol, 0, b"\x0b\0\0\1", b"\x0b\0\0\2")
    udp = ports + bytes(4) if ports else b""
    return OUTER_MACS + b"\x08\x00" + ip + udp + rest


def udp_to(port):
    return pack(">HH", 0, port)


FRAMES = {
    "vxlan": outer_of(UDP, udp_to(VXLAN_PORT), b"\x08\0\0\0\0\0\x07\0"),
    "geneve": outer_of(UDP, udp_to(GENEVE_PORT), b"\0\0\x65\x58\0\0\x07\0"),
    "gre": outer_of(GRE, rest=b"\0\0\x65\x58"),
}
PACKETS = {
    "geneve": outer_of(UDP, udp_to(GENEVE_PORT), b"\0\0\x08\0\0\0\x07\0"),
    "gre": outer_of(GRE, rest=b"\0\0\x08\0"),
}


@pytest.fixture
def egress(driver):
    return Flows(driver, FlowTableType.NIC_TX)


@pytest.fixture
def rq(node):
    return ReceiveQueue(node)


@pytest.fixture
def tir(driver, td, rq):
    return to_tir(create_direct_tir(driver, td, rq.rqn))


def table_of(flows, **context):
    table = flows.table(1, **context)
    group = flows.group(table, 0, 7)
    flows.set_root(table)
    return table, 0, group


@pytest.fixture
def leaving(egress):
    return table_of(egress, reformat_en=1)


@pytest.fixture
def coming(flows):
    return table_of(flows, reformat_en=1, decap_en=1)


@pytest.fixture
def reformat(driver):
    def context(kind, data):
        fields = reformat_fields(kind, data)
        return driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **fields).packet_reformat_id

    return context


def by(number):
    return {"also": REFORMAT, "beside": {"packet_reformat_id": number}}


@pytest.fixture
def send(node, sq, eth_wire):
    """Send a frame, or one that is to be cut; the packets that leave."""
    region = node.region(1 << 17, va=0x10000)

    def through(frame, mss=0, headers=b""):
        region.write(frame, 0)
        options = {"mss": mss, "headers": headers, "opcode": Opcode.LSO} if mss else {}
        flags = EthChecksum.L3 | EthChecksum.L4
        sq.send((len(frame), region.key, region.va), cs_flags=flags, **options)
        node.settle()
        assert all(not done.syndrome for done in sq.cq.drain())
        return [one for frame in eth_wire.sent() for one in plain(frame)]

    return through


@pytest.fixture
def delivered(hca, rq):
    """What a packet is when it has come; None if it does not."""
    buffers = Buffers(rq)

    def take(frame):
        buffers.post()
        arrive(hca, Frame(frame))
        return next(iter(buffers.drain()), (None, None))[1]

    return take


def test_by_model():
    tables = {
        name: links[PortType.ETH].flow_table
        for name, links in LINKS.items()
        if PortType.ETH in links
    }
    assert tables["connectx5"]["flow_table_properties_nic_receive"]["decap"]
    assert tables["connectx5"]["encap_general_header"]
    assert "decap" not in tables["connectx4lx"]["flow_table_properties_nic_receive"]


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_goes_into_a_tunnel_and_comes_out_of_it(
    egress, leaving, flows, coming, tir, reformat, send, delivered, kind
):
    outer, inner = FRAMES[kind], EthPacket(payload=bytes(range(100))).frame()
    egress.entry(*leaving, action=ALLOW, **by(reformat(L2, outer)))
    (data,) = send(inner)
    assert len(data) == len(outer) + len(inner)
    assert data[len(outer) :] == inner
    found = parse(data)
    assert verify(found)[1]
    assert int.from_bytes(data[16:18], "big") == len(data) - 14
    flows.entry(*coming, tir, also=DECAP)
    assert delivered(data) == inner


@pytest.mark.parametrize("kind", PACKETS)
def test_an_ip_packet_goes_into_a_tunnel_and_gets_an_ethernet_header_again(
    egress, leaving, flows, coming, tir, reformat, send, delivered, kind
):
    outer, inner = PACKETS[kind], EthPacket(payload=bytes(range(100))).frame()
    egress.entry(*leaving, action=ALLOW, **by(reformat(L3, outer)))
    (data,) = send(inner)
    assert data == data[: len(outer)] + inner[14:]
    flows.entry(*coming, tir, **by(reformat(TO_L2, MACS + b"\x08\x00")))
    assert delivered(data) == MACS + b"\x08\x00" + inner[14:]


def test_the_packets_of_a_large_send_are_in_tunnels_one_by_one(
    egress, leaving, reformat, send, hca
):
    outer = FRAMES["vxlan"]
    egress.entry(*leaving, action=ALLOW, **by(reformat(L2, outer)))
    sent = send(bytes(300), mss=100, headers=EthPacket(payload=b"").frame()[:54])
    assert [len(one) for one in sent] == [len(outer) + 154] * 3
    assert hca.nic_vport.sent.octets == 3 * (len(outer) + 154)
    for one in sent:
        assert verify(parse(one[len(outer) :]))[1:] == (True, True)


def test_a_packet_too_long_for_the_port_is_counted(egress, leaving, reformat, send, hca):
    egress.entry(*leaving, action=ALLOW, **by(reformat(L2, FRAMES["vxlan"])))
    before = hca.nic_vport.sent.too_long
    mtu = hca.nic_vport.oper_mtu
    assert send(EthPacket(payload=bytes(mtu - 60 - 54)).frame()) != []
    assert send(EthPacket(payload=bytes(mtu - 10 - 54)).frame()) == []
    assert hca.nic_vport.sent.too_long == before + 1


@pytest.mark.parametrize(
    ("kind", "frame"),
    [
        (L3, MACS + b"\x08\x06" + bytes(46)),
        (L2, EthPacket(payload=bytes(65_480)).frame()),
    ],
    ids=["without an IP packet", "longer than IP"],
)
def test_packets_that_cannot_be_changed_are_counted(
    egress, leaving, reformat, send, hca, kind, frame
):
    egress.entry(*leaving, action=ALLOW, **by(reformat(kind, FRAMES["vxlan"])))
    assert send(frame) == []
    sent = hca.nic_vport.sent
    assert (sent.discards, sent.too_long, sent.packets) == (1, 0, 0)


def test_what_is_behind_the_end_of_a_tunnel_is_matched(
    flows, coming, tir, reformat, delivered, egress, leaving, send
):
    """A later table sees the packet inside: of two flows one has an entry there."""
    second = flows.table(2)
    group = flows.group(second, 0, 1, tcp_dport=0xFFFF, ip_protocol=0xFF)
    flows.entry(second, 0, group, tir, tcp_dport=80, ip_protocol=6)
    flows.entry(*coming, to_table(second), also=DECAP)
    egress.entry(*leaving, action=ALLOW, **by(reformat(L2, FRAMES["geneve"])))
    for port, comes in ((80, True), (81, False), (80, True)):
        inner = EthPacket(payload=bytes(50), ports=pack(">HH", 9, port)).frame()
        (data,) = send(inner)
        assert delivered(data) == (inner if comes else None)


@pytest.mark.parametrize("which", [DECAP, REFORMAT])
def test_a_packet_in_no_tunnel_is_lost(flows, coming, tir, reformat, delivered, hca, which):
    more = by(reformat(TO_L2, MACS + b"\x08\x00")) if which is REFORMAT else {"also": DECAP}
    flows.entry(*coming, tir, **more)
    assert delivered(EthPacket(payload=bytes(100)).frame()) is None
    assert not hca.health.has_failed


def many_groups(flows, number=200, **context):
    """A root table of groups that no packet matches; an entry behind them, of all packets."""
    table = flows.table(1, log_size=8, **context)
    for at in range(number):
        flows.group(table, at, at, ethertype=0xFFFF)
    group = flows.group(table, number, number)
    flows.set_root(table)
    return table, number, group


@pytest.mark.hostile
@pytest.mark.unobserved("counts the steps of a round")
def test_the_way_to_an_impossible_change_costs_as_much_as_to_a_drop(flows, tir, delivered, hca):
    """Each packet of it: no decision is kept."""
    place = many_groups(flows, decap_en=1)
    flows.entry(*place, action=FlowAction.DROP)
    before = hca.budget.steps
    assert delivered(EthPacket(payload=bytes(100)).frame()) is None
    dropped = hca.budget.steps - before
    assert dropped >= 200 >> LOG_STEERED_PER_STEP
    flows.delete(*place[:2])
    flows.entry(*place, tir, also=DECAP)
    for number in range(3):
        before = hca.budget.steps
        assert delivered(EthPacket(payload=bytes(100 + number)).frame()) is None
        assert hca.budget.steps - before >= dropped


@pytest.mark.hostile
@pytest.mark.unobserved("counts the steps of a round")
def test_the_way_of_a_sent_packet_to_an_impossible_change(egress, reformat, send, hca):
    place = many_groups(egress, reformat_en=1)
    egress.entry(*place, action=ALLOW, **by(reformat(L3, FRAMES["vxlan"])))
    before = hca.budget.steps
    assert send(MACS + b"\x08\x06" + bytes(46)) == []
    assert hca.budget.steps - before >= 200 >> LOG_STEERED_PER_STEP


def test_a_tunnel_whose_packet_is_cut_off(flows, coming, tir, reformat, delivered, hca):
    flows.entry(*coming, tir, **by(reformat(TO_L2, MACS + b"\x08\x00")))
    whole = FRAMES["gre"][:34] + b"\x20\0\x08\0"
    for length in range(34, 39):
        delivered(whole[:length])
    assert not hca.health.has_failed


def test_geneve_is_matched(flows, tir, delivered):
    """pyverbs: test_root_geneve_match_rx."""
    mask, value = fte_match_param.new(), fte_match_param.new()
    mask.misc_parameters.geneve_vni, value.misc_parameters.geneve_vni = 0xFFFFFF, 7
    table = flows.table(1)
    group = flows.group(table, 0, 0, enable=MISC, match_criteria=bytes(mask))
    flows.set_root(table)
    flows.entry(table, 0, group, tir, value=bytes(value))
    inner = EthPacket(payload=bytes(50)).frame()
    assert delivered(FRAMES["geneve"] + inner) == FRAMES["geneve"] + inner
    other = FRAMES["geneve"].replace(b"\x07\0", b"\x08\0")
    assert delivered(other + inner) is None
    assert delivered(inner) is None


def test_contexts_are_changed_with_the_packet(egress, leaving, reformat, send):
    """First the fields, then the tunnel."""
    change = egress.context(set_field(ModifyField.OUT_IP_TTL, 9, 8))
    egress.entry(*leaving, action=ALLOW, modify=change, **by(reformat(L2, FRAMES["vxlan"])))
    (data,) = send(EthPacket(payload=bytes(100)).frame())
    assert data[len(FRAMES["vxlan"]) + 22] == 9


@pytest.mark.hostile
class TestRefused:
    @pytest.mark.parametrize("kind", [L2, L3])
    def test_beginnings_where_packets_come_in(self, flows, coming, tir, reformat, refused, kind):
        given = entry_fields(*coming, tir, **by(reformat(kind, FRAMES["gre"])))
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=0, **given)

    def test_ends_where_packets_leave(self, egress, leaving, reformat, refused):
        given = entry_fields(*leaving, action=ALLOW, **by(reformat(TO_L2, MACS + b"\x08\x00")))
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)
        given = entry_fields(*leaving, action=ALLOW, also=DECAP)
        refused(Status.BAD_PARAM_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            (L2, bytes(60)), (L3, bytes(60)), (L2, b"xy"), (TO_L2, bytes(12)), (TO_L2, b""),
            (L2, bytes(258)), (ReformatType.INSERT_HDR, bytes(4)), (99, bytes(4)),
        ],
    )  # fmt: skip
    def test_contexts_that_cannot_be(self, driver, hca, kind, data):
        answer = driver.command(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **reformat_fields(kind, data))
        assert answer.status in (Status.BAD_PARAM_ERR, Status.BAD_OP_ERR)
        assert len(hca.packet_reformats) == 0

    def test_no_such_context(self, egress, leaving, refused):
        given = entry_fields(*leaving, action=ALLOW, **by(77))
        refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ENTRY, table_type=1, **given)

    def test_changes_that_are_too_many(self, driver, refused):
        given = context_fields(*[set_field(ModifyField.OUT_IP_TTL, 1, 8)] * 33)
        refused(Status.BAD_PARAM_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, table_type=1, **given)
