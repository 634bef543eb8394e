"""Sniffers: copies of all packets of a function, as ibv_create_flow's IBV_FLOW_ATTR_SNIFFER asks.

libpcap captures so on RDMA devices (tcpdump -i mlx5_0).
"""

from collections import Counter

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse as parse_headers
from emu.device.port.eth.roce import framing
from emu.device.port.eth.roce.reading import network_header, parse
from emu.device.rounds.backlog import MAX_WAITING
from emu.device.rounds.costs import STEPS_PER_DECISION
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    group_fields,
    reformat_fields,
    table_fields,
    to_tir,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.sniffer import RX, TX, Sniffer
from emu.driver.nodes.roce import on_a_cable, on_one_segment
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.packet_reformat import ReformatType
from layouts.enums.qp import QpType
from layouts.enums.wq import RqState
from layouts.enums.wqe import Opcode
from layouts.wire.bth import PacketKind

MTU = 1024
SIZE = 5 * MTU
TEXT = bytes(range(256)) * (SIZE // 256)
PEER_MAC = bytes.fromhex("020000000001")
GROUP_MAC = bytes.fromhex("01005e010203")
V2, V1 = 1, 4
"""Where a node has an IPv4 address of each version."""
BUDGET = 40
"""Steps of a round in which a few copies fit."""


@pytest.fixture
def ends(roce_ends):
    return roce_ends


def write(channel, length=SIZE):
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    source.write(TEXT)
    channel.write((target.key, target.va), source.sge(0, length))
    channel.settle()
    return target


def kinds(frames):
    """How many RoCE packets there are of each kind."""
    return Counter(parse(frame, network_header(frame)).op.kind for frame in frames)


def frame_to(node, payload=b"payload"):
    return node.mac + PEER_MAC + EthPacket(payload=payload).frame()[12:]


def sender(node):
    return SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))


def receiver(node, count=8):
    """A queue that takes every frame of the interface."""
    rq = ReceiveQueue(node, log_size=8, cq=node.completion_queue(8))
    region = node.region(2048 * count)
    for at in range(count):
        rq.post(region.sge(2048 * at, 2048))
    flows = Flows(node.driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    to = to_tir(create_direct_tir(node.driver, alloc_td(node.driver), rq.rqn))
    flows.entry(table, 0, flows.group(table, 0, 0), to)
    return rq


@pytest.mark.hostile
def test_copies_that_nobody_gets_take_rounds(ends):
    """Each packet of a super-frame passes the tables."""
    node = ends[0]
    Sniffer(node, (RX,)).stop()
    hca, packets = node.hca, 2000
    hca.budget.begin()
    arrive(hca, Frame(frame_to(node, bytes(packets * 20)), gso_size=20, checked=True))
    assert len(hca.backlogs.sniffed) == 1
    assert hca.budget.limit < hca.budget.steps < packets * STEPS_PER_DECISION
    while hca.budget.is_waiting:
        hca.budget.begin()
    assert not len(hca.backlogs.sniffed)


def test_all_models_with_an_ethernet_port_have_them():
    """NVIDIA's documents name ConnectX-4 and later."""
    for links in LINKS.values():
        for port_type, model in links.items():
            found = model.flow_table.get("allow_sniffer_and_nic_rx_shared_tir", 0)
            assert found == (port_type is PortType.ETH), model.name


@pytest.mark.parametrize("index", [V2, V1], ids=["v2", "v1"])
def test_both_directions_are_seen(index, ends):
    """Between functions of one process, too, whose messages need no packets without a sniffer."""
    for node in ends:
        node.index = index
    channel = Channel(QpType.RC, *ends)
    left, right = channel.left, channel.right
    sniffer = Sniffer(left)
    assert write(channel).read() == TEXT
    assert len(channel.sent()) == 1
    copies = 2 if left is right else 1  # what comes back is seen twice
    frames = sniffer.frames()
    found = kinds(frames)
    assert found[PacketKind.WRITE] == 5 * copies
    assert found[PacketKind.ACKNOWLEDGE] >= copies
    assert {frame[6:12] for frame in frames} == {node.mac for node in ends}


@pytest.mark.parametrize("kind", [RX, TX])
def test_each_direction_has_tables_of_its_own(clock, kind):
    left, right = on_one_segment(clock)
    sniffer = Sniffer(left, (kind,))
    write(Channel(QpType.RC, left, right))
    assert {frame[6:12] for frame in sniffer.frames()} == {(left if kind is TX else right).mac}


@pytest.mark.parametrize("side", ["left", "right"])
def test_either_end_may_be_watched(ends, side):
    channel = Channel(QpType.RC, *ends)
    sniffer = Sniffer(getattr(channel, side))
    write(channel)
    assert kinds(sniffer.frames())[PacketKind.WRITE] >= 5


def test_datagrams(ends):
    channel = Channel(QpType.UD, *ends)
    sniffer = Sniffer(channel.right)
    target = channel.right.region(4096)
    channel.post_recv(target.sge())
    channel.send(b"to be seen")
    channel.settle()
    assert len(channel.received()) == 1
    frames = sniffer.frames()
    assert len(frames) == (2 if channel.left is channel.right else 1)
    assert all(b"to be seen" in frame for frame in frames)


def test_a_group_of_which_the_sender_is_a_member(clock):
    left, right = on_one_segment(clock)
    group = framing.MAPPED_PREFIX + bytes((239, 1, 2, 3))
    member = left.queue_pair(QpType.UD)
    member.init(q_key=0x1234, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0).to_rts()
    to = left.vector_to(right) | {"rmac": GROUP_MAC, "rgid": group, "dqp_dct": 0xFFFFFF}
    to |= {"key": 0x1234 << 32}
    sniffer = Sniffer(left)
    member.datagram(to, b"to all")
    left.settle()
    assert len(sniffer.frames()) == 1
    left.driver.must(Op.ATTACH_TO_MCG, qpn=member.qpn, multicast_gid=group)
    member.datagram(to, b"to all")
    left.settle()
    sent, received = sniffer.frames()
    assert sent == received


def test_frames_of_the_interface(clock):
    """Packets of a program that goes past the kernel (DPDK, libvma) are seen as well."""
    left, right = on_one_segment(clock)
    sniffers = [Sniffer(node) for node in (left, right)]
    region = left.region(4096)
    data = frame_to(right)
    region.write(data)
    sender(left).send(region.sge(0, len(data)))
    left.settle()
    assert [sniffer.frames() for sniffer in sniffers] == [[data], [data]]


def test_a_large_send_is_seen_as_packets(clock):
    left, right = on_one_segment(clock)
    sniffers = [Sniffer(node) for node in (left, right)]
    region, headers = left.region(4096), frame_to(right, b"")
    sender(left).send(region.sge(0, 2500), opcode=Opcode.LSO, mss=1000, headers=headers)
    left.settle()
    sent, received = (sniffer.frames() for sniffer in sniffers)
    assert sent == received
    assert [len(frame) - len(headers) for frame in sent] == [1000, 1000, 500]
    sums = [verify(parse_headers(frame)) for frame in sent]
    assert all(one.l3_ok and one.l4_ok for one in sums)


def test_a_frame_to_oneself_is_seen_twice(clock):
    left, _ = on_one_segment(clock)
    sniffer = Sniffer(left)
    data = frame_to(left)
    region = left.region(4096)
    region.write(data)
    sender(left).send(region.sge(0, len(data)))
    left.settle()
    assert sniffer.frames() == [data, data]


def test_all_sniffers_get_a_copy(clock):
    """A second program's TIR joins the entry of the first one (core/fs_core.c: add_rule_fg)."""
    left, right = on_one_segment(clock)
    first, second = Sniffer(left), Sniffer(left, ())
    for flows, table, group in first.tables:
        flows.modify(table, 0, group, to_tir(first.tirn), to_tir(second.tirn))
    write(Channel(QpType.RC, left, right))
    frames = first.frames()
    assert frames
    assert second.frames() == frames


@pytest.mark.parametrize("how", ["stop", "disconnect"])
def test_nothing_is_copied_afterwards(ends, how):
    channel = Channel(QpType.RC, *ends)
    sniffer = Sniffer(channel.left)
    write(channel)
    assert sniffer.frames()
    getattr(sniffer, how)()
    assert write(channel).read() == TEXT
    assert sniffer.frames() == []


def test_messages_are_messages_again(clock):
    left, right = on_one_segment(clock)
    channel = Channel(QpType.RC, left, right)
    sniffer = Sniffer(right)
    address, wire = left.hca.qps.need(channel.sender.qpn).destination, left.hca.wire
    assert wire.needs_packets(address, wire.node(address))
    sniffer.disconnect()
    assert not wire.needs_packets(address, wire.node(address))


def test_a_root_that_is_destroyed(clock):
    """The driver's last table is the root until it goes (update_root_ft_destroy)."""
    left, _ = on_one_segment(clock)
    sniffer = Sniffer(left)
    for flows, table, group in sniffer.tables:
        flows.delete(table, 0)
        of = {"table_type": flows._type["table_type"], "table_id": table}
        left.driver.must(Op.DESTROY_FLOW_GROUP, group_id=group, **of)
        left.driver.must(Op.DESTROY_FLOW_TABLE, **of)
    assert not left.hca.is_sniffed


def test_trains_become_packets(clock):
    left, right = on_a_cable(clock, takes_trains=True)
    channel = Channel(QpType.RC, left, right, mtu=3)
    for node in (left, right):
        sniffer = Sniffer(node)
        assert write(channel).read() == TEXT
        assert kinds(sniffer.frames())[PacketKind.WRITE] == 5
        sniffer.disconnect()


@pytest.mark.hostile
class TestASnifferInTrouble:
    """Copies are lost then, and the packets go their way."""

    def test_with_a_full_queue(self, ends):
        channel = Channel(QpType.RC, *ends)
        sniffer = Sniffer(channel.left, requests=2)
        assert write(channel).read() == TEXT
        assert len(channel.sent()) == 1
        assert len(sniffer.frames()) == 2

    @pytest.mark.parametrize("state", [RqState.RST, RqState.ERR])
    def test_with_a_queue_that_is_not_ready(self, ends, state):
        channel = Channel(QpType.RC, *ends)
        sniffer = Sniffer(channel.left)
        sniffer.rq.modify(state)
        assert write(channel).read() == TEXT
        assert len(channel.sent()) == 1
        sniffer.rq.cq.drain()

    def test_with_a_queue_whose_memory_is_gone(self, ends):
        channel = Channel(QpType.RC, *ends)
        sniffer = Sniffer(channel.left)
        channel.left.driver.must(
            Op.DESTROY_MKEY, mkey_index=sniffer.buffers.region.key >> 8
        )  # fmt: skip
        assert write(channel).read() == TEXT
        assert len(channel.sent()) == 1

    def test_copies_wait_for_the_next_rounds(self, clock):
        """Many frames in one round: the interface gets its own at once, copies come later."""
        left, _ = on_one_segment(clock)
        sniffer, rq = Sniffer(left), receiver(left)
        clock.budget.number += 1
        clock.budget.steps, clock.budget.limit = 0, BUDGET
        arrive(left.hca, Frame(frame_to(left)))
        clock.budget.steps = BUDGET + 1
        arrive(left.hca, Frame(frame_to(left)))
        left.settle()
        assert len(sniffer.frames()) == 2
        assert len(rq.cq.drain()) == 2

    def test_copies_that_there_is_no_room_for(self, clock):
        left, _ = on_one_segment(clock)
        sniffer, hca = Sniffer(left, (TX,)), left.hca
        clock.budget.number += 1
        clock.budget.steps, clock.budget.limit = 0, -1
        for _ in range(MAX_WAITING):
            assert hca.backlogs.sniffed.keep(0, lambda: None)
        held = hca.ledger.used
        hca.wire.transmit(hca, frame_to(left))
        assert len(hca.backlogs.sniffed) == MAX_WAITING
        assert hca.ledger.used == held
        assert hca.link.dropped == {"sniffer backlog is full": 1}
        left.settle()
        assert sniffer.frames() == []

    def test_frames_that_the_port_does_not_take(self, clock):
        """Too long frames are lost before; pause frames are the port's own."""
        left, _ = on_one_segment(clock)
        sniffer = Sniffer(left)
        left.hca.eth.admin_mtu = 1522
        pause = bytes.fromhex("0180c2000001") + left.mac + bytes.fromhex("88080001ffff")
        arrive(left.hca, Frame(frame_to(left, bytes(2000))))
        arrive(left.hca, Frame(frame_to(left, bytes(6000)), 2000))
        arrive(left.hca, Frame(pause.ljust(60, b"\0")))
        left.settle()
        assert sniffer.frames() == []

    def test_with_packets_that_are_none(self, clock):
        left, right = on_one_segment(clock)
        Sniffer(left)
        for data in (b"", bytes(13), b"\xff" * 12 + b"\x81\x00", bytes(60)):
            arrive(left.hca, Frame(data))
            arrive(left.hca, Frame(data, 100))
        left.settle()
        assert not left.hca.health.has_failed
        assert write(Channel(QpType.RC, left, right)).read() == TEXT


class TestRefused:
    @pytest.fixture
    def node(self, clock):
        return on_one_segment(clock)[0]

    @pytest.fixture(
        params=[RX, TX, FlowTableType.RDMA_RX, FlowTableType.RDMA_TX],
        ids=["sniffer rx", "sniffer tx", "rdma rx", "rdma tx"],
    )
    def entry(self, node, request):
        """The type of a table, and what sets an entry of it."""
        flows = Flows(node.driver, request.param)
        table = flows.table(0)
        group = flows.group(table, 0, 0)

        def set_with(*destinations, reformat=0, **options):
            fields = entry_fields(table, 0, group, *destinations, **options)
            fields["flow_context"]["packet_reformat_id"] = reformat
            return node.driver.command(
                Op.SET_FLOW_TABLE_ENTRY, table_type=request.param, **fields
            ).status  # fmt: skip

        return set_with

    def test_packets_are_not_changed_there(self, node, entry):
        """Only tables of received frames, of sent ones and of a switch can."""
        fields = reformat_fields(ReformatType.L3_TUNNEL_TO_L2, bytes(14))
        number = node.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **fields).packet_reformat_id
        for more in (FlowAction.DECAP, FlowAction.PACKET_REFORMAT):
            status = entry(action=FlowAction.DROP | more, reformat=number)
            assert status == Status.BAD_PARAM_ERR

    @pytest.mark.parametrize("kind", [RX, TX])
    def test_copies_are_not_let_pass(self, node, kind):
        flows = Flows(node.driver, kind)
        table = flows.table(0)
        fields = entry_fields(table, 0, flows.group(table, 0, 0), action=FlowAction.ALLOW)
        answer = node.driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields)
        assert answer.status == Status.BAD_PARAM_ERR

    @pytest.mark.parametrize("kind", [RX, TX])
    def test_processes_make_no_tables_themselves(self, node, kind):
        uid = node.driver.must(Op.CREATE_UCTX, uctx={"cap": 1}).uid
        answer = node.driver.command(
            Op.CREATE_FLOW_TABLE, uid=uid, table_type=kind, **table_fields(0)
        )
        assert answer.status == Status.BAD_PARAM_ERR

    def test_tables_of_the_other_direction(self, node):
        table = Flows(node.driver, RX).table(0)
        answer = node.driver.command(
            Op.CREATE_FLOW_GROUP, table_type=TX, **group_fields(table, 0, 0)
        )
        assert answer.status == Status.BAD_RES_ERR
