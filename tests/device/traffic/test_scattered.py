"""Keys that fall into pieces of one byte, several keys deep: what frames and packets cost then.

A frame, a datagram or a packet is not cut into turns; a message inside the process is. Work is
counted in steps of a round.
"""

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS
from helpers.device.rounds import Costs

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.device.rounds.budget import (
    POLL_BUDGET,
    RX_BUDGET,
    SEGMENT_BUDGET,
    STEPS_PER_ACCESS,
)
from emu.device.rounds.sizes import PACKETS_PER_ROUND
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.umr import OFFSET, FastRegKey, pad64, umr
from emu.driver.nodes.roce import on_one_segment
from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.driver.verbs.gsi import joined
from emu.driver.world.cable import arrive
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import KLM

pytestmark = pytest.mark.hostile

SIZE = 4096
GROUP = bytes.fromhex("ff12401bffff00000000000000000077")
MULTICAST = {"dqp_dct": 0xFFFFFF, "rlid": 0xC001, "grh_gid_fl": 1 << 30, "rgid": GROUP}
FRAME = MACS + b"\x08\x06" + bytes(range(250)) * 5
PACKET_BYTES = 4096 + 64
"""The largest MTU, and headers: the steps of a packet in pieces of one byte."""
SLACK = 64
"""Steps that have nothing to do with the pieces."""


def scattered(node, depth, size=SIZE, region=None):
    """A key of ``size`` bytes from address 0 on, each of them ``depth`` keys above a region."""
    region = region or node.region(size)
    key, va = region.key, region.va
    for _ in range(depth):
        ranges = [(1, key, va + at) for at in range(size)]
        key, va = indirect_key(node, AccessMode.KLMS, ranges, size), 0
    return key


def test_a_long_message_whose_beginning_is_cut_by_its_length_alone(node):
    """It is more than one call may take, and its single pieces are then too many as well."""
    size, each = (4 << 20) + 512, 512
    source, target = node.region(size), node.region(size)
    source.write(bytes(range(256)) * (size // 256))
    ranges = [(each, source.key, source.va + at) for at in range(0, size, each)]
    key = indirect_key(node, AccessMode.KLMS, ranges, size)
    channel = Channel(QpType.RC, node, node)
    channel.write((target.key, target.va), (size, key, 0))
    channel.settle()
    assert channel.sent()
    assert target.read() == source.read()


# -- datagrams


@pytest.fixture
def channel(pair):
    return Channel(QpType.UD, *pair)


def test_a_datagram_of_single_bytes_arrives(channel):
    """One key deep, it is work that is done at once."""
    source, target = channel.left.region(SIZE), channel.right.region(2 * SIZE)
    source.write(bytes(range(256)) * 16)
    channel.post_recv((2 * SIZE, scattered(channel.right, 1, 2 * SIZE, target), 0))
    channel.send((SIZE, scattered(channel.left, 1, SIZE, source), 0))
    channel.settle()
    assert [done.byte_cnt for done in channel.received()] == [SIZE + GRH_BYTES]
    assert target.read(GRH_BYTES, SIZE) == bytes(range(256)) * 16


def test_a_datagram_in_too_many_pieces_is_not_sent_without_data(channel):
    costs = Costs(channel.left, channel.right)
    target = channel.right.region(SIZE)
    channel.post_recv(target.sge())
    channel.send((3000, scattered(channel.left, 3), 0))
    assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert not channel.recv_cq.drain()
    assert STEPS_PER_ACCESS // 2 < costs.most() <= STEPS_PER_ACCESS + SLACK


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
def test_a_datagram_into_too_many_pieces(channel):
    costs = Costs(channel.left, channel.right)
    channel.post_recv((SIZE, scattered(channel.right, 3), 0))
    channel.send(channel.left.region(3000).sge())
    channel.settle()
    assert channel.receive_failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert PACKET_BYTES // 2 < costs.most() <= PACKET_BYTES + SLACK


def test_a_group_whose_members_are_all_scattered(channel):
    """Members beyond a round's work get the datagram in the next rounds."""
    costs = Costs(channel.left, channel.right)
    node, driver = channel.right, channel.right.driver
    key = scattered(node, 2)
    if isinstance(node.hca.wire, LocalFabric):
        joined(node, GROUP)
    members = [Channel(QpType.UD, channel.left, node) for _ in range(32)]
    for member in members:
        driver.must(Op.ATTACH_TO_MCG, qpn=member.receiver.qpn, multicast_gid=GROUP)
        member.post_recv((SIZE, key, 0))
    channel.send(channel.left.region(1000).sge(), to=MULTICAST)
    channel.settle()
    node.settle()
    assert [len(member.received()) for member in members] == [1] * len(members)
    assert costs.most() <= POLL_BUDGET + PACKET_BYTES


# -- connected services

A_ROUND = RX_BUDGET + STEPS_PER_ACCESS + SLACK
"""What a function's own turns may take, and one packet that arrives after them."""


def full_of_steps(channel, packet_wire):
    """Let everything happen, all packets of the wire in one round."""
    most, budget = 0, channel.left.hca.budget
    for _ in range(10_000):
        budget.begin()
        busy = [node.function.poll() for node in (channel.left, channel.right)]
        has_packets = packet_wire.poll()
        most = max(most, budget.steps)
        if not has_packets and not any(busy):
            return most
    raise AssertionError("it never ends")


@pytest.fixture
def packets(packet_pair):
    return Channel(QpType.RC, *packet_pair, mtu=5, log_msg_max=30, ack_timeout=10)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("op", ["send", "write", "read"])
def test_a_message_of_single_bytes_inside_the_process(pair, op, depth):
    channel = Channel(QpType.RC, *pair, mtu=5)
    costs = Costs(channel.left, channel.right)
    source, target = channel.left.region(SIZE), channel.right.region(SIZE)
    far, near = scattered(channel.right, depth, SIZE, target), (SIZE, source.key, source.va)
    text = bytes(range(256)) * 16
    (target if op == "read" else source).write(text)
    for _ in range(3):
        if op == "send":
            channel.post_recv((SIZE, far, 0))
            channel.send(near)
        else:
            getattr(channel, op)((far, 0), near)
    channel.settle()
    assert len(channel.sent()) == 3
    assert (source if op == "read" else target).read() == text
    most = POLL_BUDGET + STEPS_PER_ACCESS + SEGMENT_BUDGET + SLACK
    assert costs.most() <= most


@pytest.mark.parametrize("op", ["send", "write", "read", "local"])
def test_packets_of_single_bytes(packets, packet_wire, op):
    """One key deep they are served, some in each round, on either side."""
    size = 16 * SIZE
    source, target = packets.left.region(size), packets.right.region(size)
    text = bytes(range(256)) * (size // 256)
    (source if op != "read" else target).write(text)
    far, near = (target.key, target.va), (size, source.key, source.va)
    if op == "local":
        packets.read((target.key, target.va), (size, scattered(packets.left, 1, size, source), 0))
        target.write(text)
    elif op == "send":
        packets.post_recv((size, scattered(packets.right, 1, size, target), 0))
        packets.send(near)
    else:
        far = scattered(packets.right, 1, size, target), 0
        getattr(packets, op)(far, near)
    assert full_of_steps(packets, packet_wire) <= A_ROUND
    assert len(packets.sent()) == 1
    assert source.read() == target.read() == text


@pytest.mark.parametrize("takes_trains", [False, True])
@pytest.mark.parametrize("mtu", [3, 5])
def test_a_duplicate_read_of_single_bytes(packet_pair, packet_wire, clock, takes_trains, mtu):
    """A train of so many ranges is too much for one access, its packets alone are not."""
    packet_wire.takes_trains = takes_trains
    channel = Channel(QpType.RC, *packet_pair, mtu=mtu, ack_timeout=10)
    size = 16 * SIZE
    source, target = channel.left.region(size), channel.right.region(size)
    text = bytes(range(256)) * (size // 256)
    target.write(text)
    packet_wire.tap = lambda frame: [frame] if len(frame) < 100 else []
    channel.read((scattered(channel.right, 1, size, target), 0), source.sge())
    channel.settle()
    assert not channel.sent()
    packet_wire.tap = lambda frame: [frame]
    clock.advance(4 * (ACK_TIMEOUT_UNIT_NS << 10))
    channel.settle()
    assert [done.syndrome for done in channel.sent()] == [0]
    assert source.read() == text


def test_a_duplicate_read_in_too_many_pieces_is_dropped(packets, packet_wire, clock):
    """The key has changed since the first time; the requester may have its data already."""
    node = packets.right
    other = Channel(QpType.RC, node, node).sender
    key = FastRegKey(node, mode=AccessMode.KLMS, free=0, len=SIZE, rr=1)

    def change(below, va):
        umr(other, key.key, flags=OFFSET, mask=0, xlt=pad64(KLM.pack(SIZE, below, va)))
        node.driver.bar.settle()

    target = node.region(SIZE)
    change(target.key, target.va)
    packet_wire.tap = lambda frame: [frame] if len(frame) < 100 else []
    packets.read((key.key, 0), packets.left.region(SIZE).sge())
    packets.settle()
    change(scattered(node, 3), 0)
    seen = []
    packet_wire.tap = lambda frame: seen.append(len(frame)) or [frame]
    clock.advance(4 * (ACK_TIMEOUT_UNIT_NS << 10))
    packets.settle()
    assert seen, "the request comes again"
    assert max(seen) < 100, "and is not answered"
    change(target.key, target.va)
    assert packets.receiver.state is QpState.RTS
    clock.advance(4 * (ACK_TIMEOUT_UNIT_NS << 10))
    packets.settle()
    assert [done.syndrome for done in packets.sent()] == [0]


@pytest.mark.parametrize("op", ["send", "write", "read", "local"])
def test_packets_in_too_many_pieces(packets, packet_wire, op):
    size = 16 * SIZE
    source, target = packets.left.region(size), packets.right.region(size)
    near, expected = (size, source.key, source.va), CqeSyndrome.REMOTE_ACCESS_ERR
    if op == "local":
        packets.read((target.key, target.va), (size, scattered(packets.left, 4, size), 0))
        expected = CqeSyndrome.LOCAL_PROT_ERR
    elif op == "send":
        packets.post_recv((size, scattered(packets.right, 4, size), 0))
        packets.send(near)
        expected = CqeSyndrome.REMOTE_OP_ERR
    else:
        getattr(packets, op)((scattered(packets.right, 4, size), 0), near)
    assert full_of_steps(packets, packet_wire) <= A_ROUND
    assert packets.failure() == expected
    if op == "send":
        assert packets.receive_failure() == CqeSyndrome.LOCAL_PROT_ERR


# -- frames


@pytest.fixture
def node():
    """An Ethernet function with RoCE; nobody else is on its segment."""
    return on_one_segment(HandClock(), 1)[0]


def lead(node, *rqs):
    """Make all frames go to these queues."""
    td, flows = alloc_td(node.driver), Flows(node.driver)
    tirs = [to_tir(create_direct_tir(node.driver, td, rq.rqn)) for rq in rqs]
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    flows.entry(table, 0, flows.group(table, 0, 0), *tirs)


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
def test_a_frame_in_too_many_pieces_is_not_sent(node):
    costs = Costs(node)
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    sq.send((1400, scattered(node, 4), 0))
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [CqeSyndrome.LOCAL_PROT_ERR]
    assert STEPS_PER_ACCESS // 2 < costs.most() <= STEPS_PER_ACCESS + SLACK
    assert not node.hca.nic_vport.sent.packets


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
def test_a_large_send_in_too_many_pieces(node):
    costs = Costs(node)
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    key = scattered(node, 1)
    header = EthPacket(payload=b"").frame()
    sq.send(*[(SIZE, key, 0)] * 8, opcode=Opcode.LSO, mss=1000, headers=header)
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [CqeSyndrome.LOCAL_PROT_ERR]
    assert STEPS_PER_ACCESS // 2 < costs.most() <= STEPS_PER_ACCESS + SLACK


def test_a_frame_of_single_bytes_is_sent(node):
    region = node.region(SIZE)
    region.write(FRAME)
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    sq.send((len(FRAME), scattered(node, 1, region=region), 0))
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [0]
    assert node.hca.nic_vport.sent.packets == 1


def test_frames_into_too_many_pieces_are_discarded(node):
    """Each queue keeps its request, and an honest one gets its frames."""
    key = scattered(node, 4)
    rqs = [ReceiveQueue(node) for _ in range(8)]
    honest = ReceiveQueue(node)
    buffers = Buffers(honest)
    for rq in rqs:
        rq.post((SIZE, key, 0))
    lead(node, *rqs, honest)
    node.settle()
    node.hca.budget.steps = 0
    for _ in range(4):
        arrive(node.hca, Frame(FRAME))
    assert node.hca.budget.steps <= POLL_BUDGET + PACKET_BYTES + SLACK
    node.settle()
    assert node.hca.nic_vport.received.discards == 4 * len(rqs)
    assert all(rq.object.queue.posted() for rq in rqs)
    assert [data for _, data in buffers.drain()] == [FRAME] * 4


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
def test_what_sockets_bring_in_a_round_finds_room(node):
    """The fabric's and the links', after a function's own turns have had their share."""
    frames = 2 * PACKETS_PER_ROUND
    rq = ReceiveQueue(node, log_size=11)
    region = node.region(SIZE)
    for _ in range(frames):
        rq.post(region.sge())
    lead(node, rq)
    node.settle()
    node.hca.budget.steps = POLL_BUDGET
    node.hca.budget.listen()
    for _ in range(frames):
        arrive(node.hca, Frame(FRAME))
    assert rq.object.queue.posted() < frames // 2
    node.settle()
    assert node.hca.nic_vport.received.discards == 0
    assert rq.object.queue.posted() == 0


def test_a_super_frame_into_too_many_pieces(node):
    rqs = [ReceiveQueue(node) for _ in range(8)]
    key = scattered(node, 2)
    for rq in rqs:
        for _ in range(rq.size):
            rq.post((SIZE, key, 0))
    lead(node, *rqs)
    node.settle()
    node.hca.budget.steps = 0
    large = unsegmented(EthPacket(payload=b"").frame()[:54], bytes(60_000), 1000)
    arrive(node.hca, Frame(large, 1000, checked=True))
    assert node.hca.budget.steps <= POLL_BUDGET + PACKET_BYTES + SLACK
    node.settle()
    assert not node.hca.nic_vport.received.discards
    assert not any(rq.object.queue.posted() for rq in rqs)


# -- steering


def test_frames_that_many_groups_look_at(node):
    """Frames beyond a round's work wait for the next ones."""
    td, flows = alloc_td(node.driver), Flows(node.driver)
    rq = ReceiveQueue(node)
    buffers = Buffers(rq)
    tir = to_tir(create_direct_tir(node.driver, td, rq.rqn))
    table = flows.table(0, log_size=8)
    flows.set_root(table)
    values = {"ip_version": 4, "ip_protocol": 6, "tcp_sport": 14, "tcp_dport": 9}
    for index in range(256):
        group = flows.group(table, index, index, **dict.fromkeys(values, 0xF))
        flows.entry(table, index, group, tir, **values)
    node.settle()
    node.hca.budget.steps = 0
    for port in range(200):  # no decision is kept for one of them
        arrive(node.hca, Frame(EthPacket(ports=bytes((port, 14, 0, 8))).frame()))
    assert POLL_BUDGET < node.hca.budget.steps <= POLL_BUDGET + 256
    node.settle()
    assert (node.hca.nic_vport.received.packets, node.hca.nic_vport.received.discards) == (200, 0)
    frame = EthPacket(ports=bytes((0, 14, 0, 9))).frame()
    arrive(node.hca, Frame(frame))
    assert [data for _, data in buffers.drain()] == [frame]
