"""Every kind of message between processes: to and from the hub, and between two members."""

import random

import pytest

from emu.device.faults.link import PlannedLink
from emu.device.port.ib.framing import parse
from emu.driver.verbs.channels import QKEY, Channel
from emu.driver.verbs.gsi import Gsi
from emu.server.service.links import Cabling, Links
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType
from layouts.wire import sa
from layouts.wire.bth import PacketKind
from layouts.wire.components import Components
from layouts.wire.mads import Method
from layouts.wire.sa import SaAttr

RC, UC, UD, XRC = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
SIZE = 1 << 20
MTU = 4096
TEXT = random.Random(3).randbytes(SIZE)
COUNT = 60


@pytest.fixture(params=["hub to member", "member to hub", "member to member"])
def ends(request, fabric):
    nodes = [fabric.join().node for _ in range(3)]
    left, right = {"hub to member": (0, 1), "member to hub": (1, 0), "member to member": (1, 2)}[
        request.param
    ]
    fabric.until(lambda: all(node.hca.wire.needs_packets(3, None) for node in nodes[:2]))
    return nodes[left], nodes[right]


@pytest.fixture
def channel(ends):
    return Channel(RC, *ends, mtu=5)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE, va=0x1000_0000_0123)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE, va=0x2000_0000_0F00)


def finish(fabric, channel, count=1):
    """The sender's completions, which are good."""
    found = fabric.completions(channel.sender, count)
    assert [done.syndrome for done in found] == [0] * count
    return found


def test_messages_of_a_mebibyte(fabric, channel, source, target):
    channel.write((target.key, target.va), source.sge())
    finish(fabric, channel)
    assert target.read() == TEXT
    target.write(TEXT[::-1])
    channel.read((target.key, target.va), source.sge())
    finish(fabric, channel)
    assert source.read() == TEXT[::-1]
    channel.post_recv(target.sge())
    source.write(TEXT)
    channel.send(source.sge(), imm=9)
    finish(fabric, channel)
    (received,) = channel.received()
    assert (received.byte_cnt, received.immediate) == (SIZE, 9)
    assert target.read() == TEXT


class Watcher:
    """Remembers the packets that arrive."""

    wants_messages = False

    def __init__(self):
        self.seen = []

    def packet(self, _lid, frame, *, is_sent):
        if not is_sent:
            self.seen.append(parse(memoryview(bytes(frame))))

    def datagram(self, *_, **__):
        pass


@pytest.mark.parametrize("at", ["sender", "receiver"])
def test_who_watches_sees_each_packet(fabric, channel, source, target, at):
    """Packets go in trains between processes unless somebody wants to see each of them."""
    watcher = Watcher()
    (channel.right if at == "receiver" else channel.left).hca.wire.watcher = watcher
    channel.write((target.key, target.va), source.sge())
    channel.read((target.key, target.va), source.sge())
    finish(fabric, channel, 2)
    kind = PacketKind.WRITE if at == "receiver" else PacketKind.READ_RESPONSE
    # By PSN: a requester that waits for long asks by a packet that it has sent before.
    seen = {packet.psn: packet.payload for packet in watcher.seen if packet.op.kind is kind}
    assert b"".join(seen.values()) == TEXT
    assert target.read() == source.read() == TEXT


def test_a_link_takes_each_packet(fabric, channel, source, target):
    """With a link at the receiver's port, a train is cut there."""
    right = channel.right.hca
    cabling = Cabling(right.clock, right.wire)
    Links([channel.right.function], cabling).set(PlannedLink(delay="1us", direction="rx"), 0)
    link = right.wire.rx_links[right.ib.lid]
    channel.write((target.key, target.va), source.sge())
    finish(fabric, channel)
    assert target.read() == TEXT
    assert link.counts["packets"] >= SIZE // MTU


def test_many_messages_in_order(fabric, channel, source, target):
    for number in range(COUNT):
        channel.post_recv(target.sge(number * 100, 100))
    for number in range(COUNT):
        channel.send(source.sge(number * 100, 100), imm=number)
    finish(fabric, channel, COUNT)
    assert [found.immediate for found in channel.received()] == [*range(COUNT)]
    assert target.read(0, COUNT * 100) == TEXT[: COUNT * 100]


def test_atomics(fabric, channel, source, target):
    target.write(bytes(8), 0x100)
    remote = target.key, target.va + 0x100
    for _ in range(5):
        channel.fetch_add(remote, source.sge(0, 8), 3)
    channel.compare_swap(remote, source.sge(8, 8), 15, 99)
    finish(fabric, channel, 6)
    assert sorted(source.read(0, 8) + source.read(8, 8))[-2:] == [12, 15]
    assert 99 in target.read(0x100, 8)


@pytest.mark.parametrize("service", [UC, UD, XRC])
def test_other_services(fabric, ends, service):
    channel = Channel(service, *ends, mtu=5)
    target = channel.right.region(4096)
    channel.post_recv(target.sge())
    channel.send(TEXT[:64], imm=5)
    finish(fabric, channel)
    received = []
    fabric.until(lambda: received.extend(channel.recv_cq.drain()) or received)
    assert received[0].opcode == CqeOpcode.RESP_SEND_IMM
    assert received[0].byte_cnt == channel.header + 64
    assert target.read(channel.header, 64) == TEXT[:64]


def test_both_ways_at_once(fabric, ends):
    channels = [Channel(RC, *ends, mtu=5), Channel(RC, *ends[::-1], mtu=5)]
    regions = [channel.right.region(SIZE) for channel in channels]
    for channel, target in zip(channels, regions):
        here = channel.left.region(SIZE)
        here.write(TEXT)
        for _ in range(4):
            channel.write((target.key, target.va), here.sge())
    for channel in channels:
        finish(fabric, channel, 4)
    assert [region.read() == TEXT for region in regions] == [True, True]


def test_administrator_answers_all(fabric, ends):
    """It lives in the hub's process and knows everybody's port."""
    for node in ends:
        gsi = Gsi(node)
        request = sa.sa_mad.new(mad_hdr=gsi.header(3, 2, Method.GET_TABLE, SaAttr.NODE_REC))
        gsi.send(request)
        answers = []
        fabric.until(lambda gsi=gsi, answers=answers: answers.extend(gsi.take()) or answers)
        assert sa.sa_mad.view(answers[0][1]).mad_hdr.status == 0


GROUP = bytes.fromhex("ff12401bffff00000000000000000077")


def change_membership(fabric, node, method):
    """Join or leave the group; its MLID."""
    gsi = Gsi(node)
    record = {
        "mgid": GROUP, "port_gid": node.hca.ib.gid(0), "join_state": 1, "pkey": 0xFFFF,
        "qkey": QKEY, "traffic_class": 0, "flow_label": 0, "sl": 0,
    }  # fmt: skip
    prm = sa.mcmember_rec
    header = gsi.header(3, 2, method, SaAttr.MC_MEMBER_REC)
    request = sa.sa_mad.new(mad_hdr=header, comp_mask=Components(prm).mask_of(*record))
    request.data = bytes(prm.new(**record)).ljust(sa.DATA_BYTES, b"\0")
    gsi.send(request)
    answers = []
    fabric.until(lambda: answers.extend(gsi.take()) or answers)
    answer = sa.sa_mad.view(answers[0][1])
    assert answer.mad_hdr.status == 0
    gsi.qp.destroy()
    return prm.view(answer.data).mlid


def test_multicast_reaches_processes_whose_ports_have_joined(fabric, ends):
    left, right = ends
    channel = Channel(UD, *ends)
    right.driver.must(Op.ATTACH_TO_MCG, qpn=channel.receiver.qpn, multicast_gid=GROUP)
    mlid = change_membership(fabric, left, Method.SET)
    to = {"dqp_dct": 0xFFFFFF, "rlid": mlid, "grh_gid_fl": 1 << 30, "rgid": GROUP}

    def arrives():
        channel.post_recv(right.region(4096).sge())
        channel.send(b"data", to=to)
        finish(fabric, channel)
        fabric.settle()
        return len(channel.received())

    assert not arrives()
    assert change_membership(fabric, right, Method.SET) == mlid
    assert arrives()
    change_membership(fabric, right, Method.DELETE)
    assert not arrives()
