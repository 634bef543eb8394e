"""IP over InfiniBand with the queues of Ethernet (core/ipoib/ipoib.c)."""

import random

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.rounds.costs import STEPS_PER_FRAME
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import TCP, UDP, EthPacket, ones_complement_sum
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.underlay import QKEY, IpoibInterface, underlay_context
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.gsi import joined
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeChecked, CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.enums.wq import RqState, SqState
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.rings.wqe import av

GRH = 40
BOTH = int(EthChecksum.L3 | EthChecksum.L4)
GOOD = CqeChecked.L3 | CqeChecked.L4
GROUP = bytes.fromhex("ff12401bffff00000000000000000077")
HAS_GRH = 1 << 30
PACKET = EthPacket(payload=b"some payload")


def packet_of(packet):
    """A packet's bytes behind an encapsulation header."""
    ethertype = b"\x08\x00" if packet.version == 4 else b"\x86\xdd"
    return ethertype + b"\0\0" + packet.frame()[packet.l3 :]


@pytest.fixture
def interfaces(ends):
    return [IpoibInterface(node) for node in ends]


@pytest.fixture
def left(interfaces):
    return interfaces[0]


@pytest.fixture
def right(interfaces):
    return interfaces[1]


@pytest.fixture
def source(left):
    return left.node.region(1 << 16)


def send(left, right, source, data, **options):
    """Send a packet; returns what the right interface's receive queue has got."""
    vector = left.vector(right, **options.pop("to", {}))
    source.write(data)
    left.send(vector, source.sge(0, len(data)), **options)
    left.node.settle()
    return right.buffers.drain()


def test_a_packet(left, right, source):
    data = packet_of(PACKET)
    ((entry, got),) = send(left, right, source, data)
    assert got[GRH:] == data
    assert entry.byte_cnt == GRH + len(data)
    assert entry.sop_drop_qpn == right.qpn
    assert entry.flags_rqpn & 0xFFFFFF == left.qpn
    assert entry.flags_rqpn >> 28 == 0
    assert entry.hds_ip_ext == GOOD
    assert entry.check_sum == ones_complement_sum(data[4:])
    (sent,) = left.sq.cq.drain()
    assert (sent.opcode, sent.wqe_counter) == (CqeOpcode.REQ, 0)


def test_with_a_global_route_header(left, right, source):
    gid = right.node.hca.link.gid(0)
    to = {"grh_gid_fl": HAS_GRH, "rgid": gid, "hop_limit": 5}
    ((entry, got),) = send(left, right, source, packet_of(PACKET), to=to)
    assert entry.flags_rqpn >> 28 == 1
    assert got[8:24] == left.node.hca.link.gid(0)
    assert got[24:40] == gid


def test_other_packets(left, right, source):
    """ARP, for one: nothing is known of its checksums."""
    data = b"\x08\x06\0\0" + bytes(range(1, 57))
    ((entry, got),) = send(left, right, source, data)
    assert got[GRH:] == data
    assert (entry.hds_ip_ext, entry.check_sum) == (0, ones_complement_sum(data[4:]))


def test_less_than_its_header(left, right, source):
    assert send(left, right, source, b"\x08\0\0") == []
    assert right.node.hca.link.dropped["shorter than its encapsulation header"] == 1


def test_headers_inline_and_checksums(left, right, source):
    """Without capabilities of Ethernet mlx5e puts 18 bytes of each packet into its request."""
    data = packet_of(PACKET)
    wrong = bytearray(data)
    wrong[4 + 10] ^= 0xFF
    wrong[-len(PACKET.payload) - 4] ^= 0xFF
    source.write(bytes(wrong[18:]))
    body = source.sge(0, len(data) - 18)
    left.send(left.vector(right), body, headers=bytes(wrong[:18]), cs_flags=BOTH)
    left.node.settle()
    ((entry, got),) = right.buffers.drain()
    assert (got[GRH:], entry.hds_ip_ext) == (data, GOOD)


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_large_send(left, right, source, protocol):
    header = packet_of(EthPacket(protocol=protocol, payload=b""))
    payload = bytes(range(250)) * 40
    source.write(payload)
    options = {"headers": header, "mss": 2000, "cs_flags": BOTH, "opcode": Opcode.LSO}
    left.send(left.vector(right), source.sge(0, len(payload)), **options)
    left.node.settle()
    found = right.buffers.drain()
    assert b"".join(got[GRH + len(header) :] for _, got in found) == payload
    assert [entry.hds_ip_ext for entry, _ in found] == [GOOD] * 5
    (sent,) = left.sq.cq.drain()
    assert sent.opcode == CqeOpcode.REQ


def test_a_group(left, right, source):
    """Also to the sender itself; its driver finds that out (en_rx.c: mlx5i_complete_rx_cqe)."""
    if isinstance(right.node.hca.wire, LocalFabric):
        joined(right.node, GROUP)
    for one in {left, right} if left.node is not right.node else {right}:
        one.node.driver.must(Op.ATTACH_TO_MCG, qpn=one.qpn, multicast_gid=GROUP)
    to = {"dqp_dct": 1 << 31 | 0xFFFFFF, "rlid": 0xC001, "grh_gid_fl": HAS_GRH, "rgid": GROUP}
    ((entry, got),) = send(left, right, source, packet_of(PACKET), to=to)
    assert entry.flags_rqpn >> 28 == 1
    assert (entry.sop_drop_qpn, entry.flags_rqpn & 0xFFFFFF) == (right.qpn, left.qpn)
    assert got[24:40] == GROUP


def test_steering_by_protocol(left, right, source):
    """As mlx5e's table for traffic classes (core/en_fs.c), with a tag that means nothing here."""
    driver = right.node.driver
    flows = Flows(driver)
    other = ReceiveQueue(right.node)
    tirn = create_direct_tir(driver, right.td, other.rqn)
    table = flows.table(0, 1)
    group = flows.group(table, 0, 1, enable=1, ip_version=0xF, ip_protocol=0xFF)
    flows.entry(table, 0, group, to_tir(tirn), ip_version=4, ip_protocol=UDP, tag=5)
    flows.entry(table, 1, group, to_tir(right.tirn), ip_version=4, ip_protocol=TCP)
    driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table, underlay_qpn=right.qpn)
    other.post(right.node.region(4200).sge())
    assert len(send(left, right, source, packet_of(PACKET))) == 1
    assert send(left, right, source, packet_of(EthPacket(protocol=UDP))) == []
    (done,) = other.cq.drain()
    assert done.qpn == right.qpn
    assert send(left, right, source, packet_of(EthPacket(protocol=1))) == []


def test_down_and_up(left, right, source):
    right.down()
    assert send(left, right, source, packet_of(PACKET)) == []
    right.up()
    assert len(send(left, right, source, packet_of(PACKET))) == 1
    left.down()
    left.sq.cq.drain()
    assert send(left, right, source, packet_of(PACKET)) == []
    (sent,) = left.sq.cq.drain()
    assert sent.opcode == CqeOpcode.REQ


@pytest.mark.hostile
def test_a_large_send_that_is_dropped_is_charged(left, right, source):
    """Its datagrams have been made, 100 bytes of data in each."""
    left.down()
    budget = left.node.hca.budget
    options = {"headers": packet_of(EthPacket(payload=b"")), "mss": 100, "opcode": Opcode.LSO}
    before = budget.steps
    left.send(left.vector(right), source.sge(0, 60_000), **options)
    left.node.settle()
    assert budget.steps - before >= 600 * STEPS_PER_FRAME
    assert right.buffers.drain() == []


def test_an_underlay_without_tables_has_no_others(left, right, source):
    """Those of frames that no queue pair has carried."""
    driver = right.node.driver
    other = Buffers(ReceiveQueue(right.node))
    flows = Flows(driver)
    table = flows.table(0, 0)
    tirn = create_direct_tir(driver, right.td, other.rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0, enable=0), to_tir(tirn))
    flows.set_root(table)
    driver.must(Op.SET_FLOW_TABLE_ROOT, op_mod=1, underlay_qpn=right.qpn)
    assert send(left, right, source, packet_of(PACKET)) == []
    assert other.drain() == []


def test_a_queue_that_is_not_ready(left, right, source):
    right.rq.modify(RqState.ERR)
    right.rq.modify(RqState.RST)
    right.rq.cq.drain()
    right.rq.post(right.node.region(4096).sge())
    assert send(left, right, source, packet_of(PACKET)) == []
    assert right.rq.cq.drain() == []


def test_a_request_that_a_rule_takes_away(left, right, source):
    injector = Injector(right.node.function)
    right.node.function.use_faults(injector)
    injector.load(load('[[rule]]\npoint="wqe.rx"\naction="drop"\ntimes=1'))
    assert send(left, right, source, packet_of(PACKET)) == []
    assert len(send(left, right, source, packet_of(PACKET))) == 1


@pytest.mark.parametrize("to", [{"key": (QKEY + 1) << 32}, {"dqp_dct": 1 << 31 | 0x7777}])
def test_packets_for_others(left, right, source, to):
    assert send(left, right, source, packet_of(PACKET), to=to) == []


def test_partitions_share_queues(model, clock, packet_wire):
    """Completions tell interfaces apart (core/ipoib/ipoib_vlan.c)."""
    nodes = two_nodes(model, clock, packet_wire, packet_wire)
    for node in nodes:
        node.hca.ib.pkeys = (0xFFFF, 0x8005)
    left, right = (IpoibInterface(node) for node in nodes)
    source = left.node.region(4096)
    left_child, right_child = (
        IpoibInterface(one.node, pkey_index=1, shared=one) for one in (left, right)
    )
    data = packet_of(PACKET)
    ((entry, _),) = send(left_child, right_child, source, data)
    assert (entry.sop_drop_qpn, entry.flags_rqpn) == (right_child.qpn, left_child.qpn)
    assert send(left, right_child, source, data) == []
    ((entry, _),) = send(left, right, source, data)
    assert entry.sop_drop_qpn == right.qpn


def test_packet_longer_than_its_request(left, right, source):
    rq = ReceiveQueue(right.node)
    tirn = create_direct_tir(right.node.driver, right.td, rq.rqn)
    flows = Flows(right.node.driver)
    table = flows.table(0, 0)
    flows.entry(table, 0, flows.group(table, 0, 0, enable=0), to_tir(tirn))
    right.node.driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table, underlay_qpn=right.qpn)
    rq.post(right.node.region(4096).sge(0, 60))
    send(left, right, source, packet_of(PACKET))
    assert rq.cq.drain() == []
    assert right.node.hca.link.dropped["longer than its receive request"] == 1
    assert rq.object.queue.posted() == 1


def test_no_request_and_no_queue(left, right, source):
    data = packet_of(PACKET)
    for _ in range(16):
        assert len(send(left, right, source, data)) == 1
    assert send(left, right, source, data) == []
    right.rq.modify(RqState.ERR)
    right.rq.cq.drain()
    assert send(left, right, source, data) == []


@pytest.mark.parametrize(
    ("segment", "length", "syndrome"),
    [
        ({}, 4097, CqeSyndrome.LOCAL_LENGTH_ERR),
        ({"opcode": Opcode.LSO}, 100, CqeSyndrome.LOCAL_QP_OP_ERR),
        ({"opcode": Opcode.LSO, "mss": 4090}, 100, CqeSyndrome.LOCAL_QP_OP_ERR),
        ({"opcode": Opcode.RDMA_WRITE}, 100, CqeSyndrome.LOCAL_QP_OP_ERR),
        ({"opcode": Opcode.ENHANCED_MPSW}, 100, CqeSyndrome.LOCAL_QP_OP_ERR),
    ],
)
def test_requests_that_fail(left, right, source, segment, length, syndrome):
    source.write(bytes(length))
    left.send(left.vector(right), source.sge(0, length), **segment)
    left.node.settle()
    (failed,) = left.sq.cq.drain()
    assert failed.syndrome == syndrome
    assert right.buffers.drain() == []


def test_segments_that_leave_the_request(left):
    vector = bytes(av.new(**left.vector(left)).buf)
    for body in (b"", vector[:32], vector, vector + bytes(16)):
        queue = SendQueue(left.node, tisn=left.tisn)
        queue.post(Opcode.SEND, body)
        left.node.settle()
        (failed,) = queue.cq.drain()
        assert failed.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR


def test_what_an_underlay_is_held_by(node, refused):
    """Its TIS; its place among the flow tables goes with it."""
    one = IpoibInterface(node)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_QP, qpn=one.qpn)
    node.driver.must(Op.DESTROY_SQ, sqn=one.sq.sqn)
    node.driver.must(Op.DESTROY_TIS, tisn=one.tisn)
    node.driver.must(Op.DESTROY_QP, qpn=one.qpn)
    two = IpoibInterface(node)
    entry = {"table_id": one.table, "flow_index": 0}
    node.driver.must(Op.DELETE_FLOW_TABLE_ENTRY, **entry)
    two.down()
    two.up()


def test_a_table_that_goes(left, right, source):
    """The last one may go while it is the root (core/fs_core.c: update_root_ft_destroy)."""
    driver = right.node.driver
    table = Flows(driver).table(0, 0)
    driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=table, underlay_qpn=right.qpn)
    driver.must(Op.DESTROY_FLOW_TABLE, table_id=table)
    assert send(left, right, source, packet_of(PACKET)) == []


@pytest.mark.parametrize(
    "context", [{"st": QpType.RC}, {"ulp_stateless_offload_mode": 3}, {"st": QpType.QP1}]
)
def test_what_is_no_underlay(refused, context):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, qpc=underlay_context(**context))


def test_a_tis_needs_an_underlay(node, refused):
    td, qp = alloc_td(node.driver), node.queue_pair(QpType.UD)
    for number in (0, qp.qpn, 0x7777):
        context = {"transport_domain": td, "underlay_qpn": number}
        refused(Status.BAD_RES_ERR, Op.CREATE_TIS, ctx=context)


def test_a_root_needs_an_underlay(node, refused):
    one, qp = IpoibInterface(node), node.queue_pair(QpType.UD)
    fields = {"table_id": one.table}
    op = Op.SET_FLOW_TABLE_ROOT
    refused(Status.BAD_PARAM_ERR, op, **fields, underlay_qpn=qp.qpn)
    refused(Status.BAD_RES_ERR, op, **fields, underlay_qpn=0x7777)
    refused(Status.BAD_PARAM_ERR, op, **fields, underlay_qpn=one.qpn, op_mod=2)


def test_its_state_is_a_queue_pairs(node):
    one = IpoibInterface(node)
    assert node.driver.must(Op.QUERY_QP, qpn=one.qpn).qpc.state == QpState.RTS
    node.driver.must(Op._2ERR_QP, qpn=one.qpn)
    assert node.driver.must(Op.QUERY_QP, qpn=one.qpn).qpc.state == QpState.ERR
    node.driver.must(Op._2RST_QP, qpn=one.qpn)


@pytest.mark.parametrize("limits", [{"ipoib_enhanced_offloads": 0}])
def test_a_function_without_them(node, refused):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, qpc=underlay_context())


def test_a_rate(left, right, source, clock):
    """A queue with an entry of the pacing table sends its packets by the clock."""
    driver = left.node.driver
    driver.must(Op.SET_PP_RATE_LIMIT, rate_limit_index=1, ctx={"rate_limit": 1000})
    driver.must(
        Op.MODIFY_SQ, sqn=left.sq.sqn, sq_state=SqState.RDY, modify_bitmask=1,
        ctx={"state": SqState.RDY, "packet_pacing_rate_limit_index": 1},
    )  # fmt: skip
    source.write(packet_of(EthPacket(payload=bytes(1250 - len(packet_of(EthPacket(payload=b"")))))))
    for _ in range(10):
        left.send(left.vector(right), source.sge(0, 1250))
    found = []
    for _ in range(120):
        left.node.settle()
        found.append(len(right.buffers.drain()))
        clock.advance(1_000_000)
    assert sum(found) == 10
    assert max(found) <= 2
    assert sum(found[:51]) <= 7


@pytest.mark.parametrize(
    "way", ["pointer", "inline headers", "inline first", "large sends between"]
)
def test_bursts_of_short_and_long_packets(ends, way):
    """All arrive, in order, byte for byte; the longest is of an InfiniBand MTU of 4096."""
    left, right = IpoibInterface(ends[0]), IpoibInterface(ends[1], receives=32)
    source = left.node.region(1 << 18)
    to, draw = left.vector(right), random.Random(7)
    sizes = [20, 4056 - 4, 21, 4051, 64, 2044, 1000, *(draw.randint(20, 4052) for _ in range(7))]
    wanted, indices, at = [], [], 0
    for number, size in enumerate(sizes):
        data = b"\x08\x06\0\0" + bytes((number,)) * 8 + draw.randbytes(size - 12)
        cut = {"inline headers": 18, "inline first": min(size - 2, 600)}.get(way, 0)
        source.write(data[cut:], at)
        rest, at = source.sge(at, size - cut), at + size
        if way == "inline headers":
            indices.append(left.send(to, rest, headers=data[:cut]))
        else:
            indices.append(left.send(to, *([data[:cut]] if cut else []), rest))
        wanted.append(data)
        if way == "large sends" and number % 5 == 0:
            payload = draw.randbytes(5000)
            source.write(payload, at)
            packet = EthPacket(payload=payload)
            header = b"\x08\x00\0\0" + packet.header()[packet.l3 :]
            sge, at = source.sge(at, len(payload)), at + len(payload)
            indices.append(
                left.send(to, sge, opcode=Opcode.LSO, mss=2000, headers=header, cs_flags=BOTH)
            )
            wanted += [payload[:2000], payload[2000:4000], payload[4000:]]
        if number % 4 == 3:  # the ring has 64 blocks
            left.node.settle()
    left.node.settle()
    found = [data[GRH:] for _, data in right.buffers.drain()]
    assert [data[44:] if data[:2] == b"\x08\x00" else data for data in found] == wanted
    sent = left.sq.cq.drain()
    assert {one.opcode for one in sent} == {CqeOpcode.REQ}
    assert [one.wqe_counter for one in sent] == indices
