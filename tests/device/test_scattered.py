"""Keys that fall into pieces of one byte, several keys deep: what frames and datagrams cost then.

Nobody waits for room for a frame or a datagram, so none of them can be cut into turns. Work is
counted in steps of a round.
"""

import pytest
from helpers.channels import GRH_BYTES, Channel
from helpers.eth_queues import Buffers, ReceiveQueue, SendQueue
from helpers.flows import Flows, to_tir
from helpers.frames import MACS, Packet
from helpers.interfaces import alloc_td, create_direct_tir, create_tis
from helpers.keys import indirect_key
from helpers.roce import on_one_segment
from helpers.world import HandClock

from emu.engine import lifecycle
from emu.engine.eth.receive import arrive
from emu.engine.eth.steering import domain
from emu.engine.mr.rights import MOST_STEPS, MOST_STEPS_RECEIVED, PACKET_BYTES
from emu.port.eth.frame import Frame
from emu.port.eth.segment import unsegmented
from layouts.enums import AccessMode, CqeSyndrome, Op, Opcode, QpType

pytestmark = pytest.mark.hostile

SIZE = 4096
GROUP = bytes.fromhex("ff12401bffff00000000000000000077")
MULTICAST = {"dqp_dct": 0xFFFFFF, "rlid": 0xC001, "grh_gid_fl": 1 << 30, "rgid": GROUP}
FRAME = MACS + b"\x08\x06" + bytes(range(250)) * 5
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


# -- datagrams


@pytest.fixture
def channel(pair):
    return Channel(QpType.UD, *pair)


@pytest.fixture
def most_steps(monkeypatch):
    """The steps of a function's most expensive round since the last call."""
    seen, run = {}, lifecycle.run

    def counted(hca):
        seen[hca] = max(seen.get(hca, 0), hca.steps)
        more = run(hca)
        seen[hca] = max(seen[hca], hca.steps)
        return more

    monkeypatch.setattr(lifecycle, "run", counted)

    def look(node):
        return max(seen.pop(node.hca, 0), node.hca.steps)

    return look


def test_a_datagram_of_single_bytes_arrives(channel):
    """One key deep, it is work that is done at once."""
    source, target = channel.left.region(SIZE), channel.right.region(2 * SIZE)
    source.write(bytes(range(256)) * 16)
    channel.post_recv((2 * SIZE, scattered(channel.right, 1, 2 * SIZE, target), 0))
    channel.send((SIZE, scattered(channel.left, 1, SIZE, source), 0))
    channel.settle()
    assert [done.byte_cnt for done in channel.received()] == [SIZE + GRH_BYTES]
    assert target.read(GRH_BYTES, SIZE) == bytes(range(256)) * 16


def test_a_datagram_in_too_many_pieces_is_not_sent_without_data(channel, most_steps):
    target = channel.right.region(SIZE)
    channel.post_recv(target.sge())
    channel.send((3000, scattered(channel.left, 3), 0))
    assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert not channel.recv_cq.drain()
    assert MOST_STEPS // 2 < most_steps(channel.left) <= MOST_STEPS + SLACK


def test_a_datagram_into_too_many_pieces(channel, most_steps):
    channel.post_recv((SIZE, scattered(channel.right, 3), 0))
    channel.send(channel.left.region(3000).sge())
    channel.settle()
    assert channel.receive_failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert PACKET_BYTES // 2 < most_steps(channel.right) <= PACKET_BYTES + SLACK


def test_a_group_whose_members_are_all_scattered(channel, most_steps):
    """Members beyond a round's work miss the datagram; the next one is for them as well."""
    node, driver = channel.right, channel.right.driver
    key = scattered(node, 2)
    members = [Channel(QpType.UD, channel.left, node) for _ in range(32)]
    for member in members:
        driver.must(Op.ATTACH_TO_MCG, qpn=member.receiver.qpn, multicast_gid=GROUP)
        member.post_recv((SIZE, key, 0))
    channel.send(channel.left.region(1000).sge(), to=MULTICAST)
    channel.settle()
    served = [len(member.received()) for member in members]
    assert 0 < sum(served) < len(members)
    assert most_steps(node) <= MOST_STEPS_RECEIVED + PACKET_BYTES
    node.settle()
    last = members[-1]
    last.send(channel.left.region(8).sge())
    last.settle()
    assert len(last.received()) == 1


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


def test_a_frame_in_too_many_pieces_is_not_sent(node, most_steps):
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    sq.send((1400, scattered(node, 4), 0))
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [CqeSyndrome.LOCAL_PROT_ERR]
    assert MOST_STEPS // 2 < most_steps(node) <= MOST_STEPS + SLACK
    assert not node.hca.eth.sent.packets


def test_a_large_send_in_too_many_pieces(node, most_steps):
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    key = scattered(node, 1)
    header = Packet(payload=b"").frame()
    sq.send(*[(SIZE, key, 0)] * 8, opcode=Opcode.LSO, mss=1000, headers=header)
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [CqeSyndrome.LOCAL_PROT_ERR]
    assert MOST_STEPS // 2 < most_steps(node) <= MOST_STEPS + SLACK


def test_a_frame_of_single_bytes_is_sent(node):
    region = node.region(SIZE)
    region.write(FRAME)
    sq = SendQueue(node, tisn=create_tis(node.driver, alloc_td(node.driver)))
    sq.send((len(FRAME), scattered(node, 1, region=region), 0))
    node.settle()
    assert [done.syndrome for done in sq.cq.drain()] == [0]
    assert node.hca.eth.sent.packets == 1


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
    node.hca.steps = 0
    for _ in range(4):
        arrive(node.hca, Frame(FRAME))
    assert node.hca.steps <= MOST_STEPS_RECEIVED + PACKET_BYTES
    assert node.hca.eth.received.discards > 4
    assert all(rq.object.queue.posted() for rq in rqs)
    assert [data for _, data in buffers.drain()] == [FRAME] * 4


def test_a_super_frame_into_too_many_pieces(node):
    rqs = [ReceiveQueue(node) for _ in range(8)]
    key = scattered(node, 2)
    for rq in rqs:
        for _ in range(rq.size):
            rq.post((SIZE, key, 0))
    lead(node, *rqs)
    node.settle()
    node.hca.steps = 0
    large = unsegmented(Packet(payload=b"").frame()[:54], bytes(60_000), 1000)
    arrive(node.hca, Frame(large, 1000, checked=True))
    assert node.hca.steps <= MOST_STEPS_RECEIVED + PACKET_BYTES + 8 * 60 * 4
    assert node.hca.eth.received.discards


# -- steering


def test_frames_that_many_groups_look_at(node):
    """Frames beyond a round's work are discarded; those of the next round are not."""
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
    node.hca.steps = 0
    for port in range(200):  # no decision is kept for one of them
        arrive(node.hca, Frame(Packet(ports=bytes((port, 14, 0, 8))).frame()))
    assert node.hca.eth.received.discards
    assert MOST_STEPS_RECEIVED < node.hca.steps <= MOST_STEPS_RECEIVED + 256
    node.hca.steps = 0
    frame = Packet(ports=bytes((0, 14, 0, 9))).frame()
    arrive(node.hca, Frame(frame))
    assert [data for _, data in buffers.drain()] == [frame]


def test_a_frame_is_compared_with_so_many_fields(node, monkeypatch):
    monkeypatch.setattr(domain, "MAX_FIELDS", 64)
    flows = Flows(node.driver)
    rq = ReceiveQueue(node)
    tir = to_tir(create_direct_tir(node.driver, alloc_td(node.driver), rq.rqn))
    table = flows.table(0, log_size=6)
    flows.set_root(table)
    for index in range(64):
        group = flows.group(table, index, index, ip_version=0xF, tcp_sport=0xFFFF)
        flows.entry(table, index, group, tir, ip_version=4, tcp_sport=index)
    buffers = Buffers(rq)
    for port in (31, 32):
        arrive(node.hca, Frame(Packet(ports=bytes((0, port, 0, 9))).frame()))
    assert len(buffers.drain()) == 1
    assert node.hca.eth.vport.steering_discards == 1
