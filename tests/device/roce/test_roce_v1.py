"""RoCE v1: GIDs of that version, frames with an Ethertype and a global route header, no IP."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.congestion import with_mark
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce import reading
from emu.device.port.eth.roce.framing import MAPPED_PREFIX, Framer, RoceHeaders
from emu.device.port.packet import OPS, Packet
from emu.driver.nodes.roce import HOP_LIMIT, V1, V2, on_a_cable, on_one_segment, set_address
from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.driver.verbs.connect import connect
from emu.driver.world.cable import arrive
from emu.driver.world.clock import HandClock
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeRoceL3, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.wire.bth import PacketKind, Service, reth

ETHERTYPE = 0x8915
TEXT = bytes(range(256)) * 24
GRH = 1 << 28
IPV6, IPV4, VLAN = 3, 4, 5
"""Where a node has its GIDs of version 1."""
SERVICES = [QpType.RC, QpType.UC, QpType.XRC, QpType.UD]


@pytest.fixture(params=[IPV4, IPV6], ids=["IPv4", "IPv6"])
def ends(request, roce_ends):
    """The three worlds of ``roce_ends``, by GIDs of version 1."""
    for node in roce_ends:
        node.index = request.param
    return roce_ends


@pytest.fixture
def cable(clock):
    """Two nodes with GIDs of version 1 that reach each other by frames only."""
    nodes = on_a_cable(clock)
    for node in nodes:
        node.index = IPV4
    return nodes


def region(node, data=b""):
    made = node.region(len(TEXT) + GRH_BYTES)
    made.write(data)
    return made


def time_out(node, clock):
    for _ in range(9):
        node.settle()
        clock.advance(10_000_000)


class TestServices:
    @pytest.mark.parametrize("service", SERVICES, ids=lambda st: st.name)
    def test_a_send_arrives(self, service, ends):
        channel = Channel(service, *ends)
        length = 800 if service is QpType.UD else len(TEXT)
        source, target = region(channel.left, TEXT), region(channel.right)
        channel.post_recv(target.sge())
        channel.send(source.sge(0, length), imm=0x12345678)
        channel.settle()
        assert len(channel.sent()) == 1
        (received,) = channel.received()
        assert (received.byte_cnt, received.slid) == (length + channel.header, 0)
        assert received.immediate == 0x12345678
        assert target.read(channel.header, length) == TEXT[:length]

    @pytest.mark.parametrize("service", [QpType.RC, QpType.XRC], ids=lambda st: st.name)
    def test_write_read_and_atomic(self, service, ends):
        channel = Channel(service, *ends)
        here, there = region(channel.left, TEXT), region(channel.right)
        channel.write((there.key, there.va), here.sge(0, len(TEXT)))
        channel.settle()
        assert there.read(0, len(TEXT)) == TEXT
        here.write(bytes(len(TEXT)))
        channel.read((there.key, there.va), here.sge(0, len(TEXT)))
        channel.settle()
        assert here.read(0, len(TEXT)) == TEXT
        channel.fetch_add((there.key, there.va), here.sge(0, 8), 5)
        channel.settle()
        assert here.read(0, 8) == TEXT[:8]
        assert len(channel.sent()) == 3


class TestFrames:
    @pytest.mark.parametrize("index", [IPV6, IPV4, VLAN])
    @pytest.mark.parametrize("service", SERVICES, ids=lambda st: st.name)
    def test_have_the_ethertype_and_a_grh(self, service, index, cable):
        for node in cable:
            node.index = index
        left, right = cable
        channel = Channel(service, left, right)
        channel.post_recv(region(right).sge())
        channel.send(b"seen")
        channel.settle()
        assert channel.received()
        frames = left.hca.eth_wire.sent + right.hca.eth_wire.sent
        assert frames
        for frame in frames:
            at = 18 if index == VLAN else 14
            assert int.from_bytes(frame[at - 2 : at], "big") == ETHERTYPE
            assert frame[at] >> 4 == 6
            assert frame[at + 6] == 0x1B
            assert int.from_bytes(frame[at + 4 : at + 6], "big") == len(frame) - at - 40
            assert reading.network_header(frame) == at
        at = reading.network_header(frames[0])
        assert reading.addresses(frames[0], at) == (left.gids[index], right.gids[index])
        tag = 3 << 13 | left.VLAN if index == VLAN else None
        assert reading.tag_of(frames[0], at) == tag

    def test_messages_are_counted_as_their_frames_would_be(self, clock):
        octets = []
        for left, right in (on_a_cable(clock), on_one_segment(clock)):
            left.index = right.index = IPV4
            channel = Channel(QpType.RC, left, right)
            target = region(right)
            channel.write((target.key, target.va), b"four")
            channel.settle()
            assert channel.sent()
            sent = left.driver.must(Op.QUERY_VPORT_COUNTER).transmitted_ib_unicast
            octets.append((sent.packets, sent.octets))
        size = 14 + 40 + 12 + 4 + 4
        # A message that needs no frames is counted without its extended header.
        assert octets == [(1, size + reth.size), (1, size)]

    def test_are_not_marked_by_congestion(self, cable):
        """There is no field for it; nor is the sender's traffic class changed for its sake."""
        left, right = cable
        for node in cable:
            for priority in range(8):
                node.hca.roce.congestion.rp_enabled[priority] = True
            node.hca.roce.congestion.changes += 1
        channel = Channel(QpType.RC, left, right)
        qps = left.queue_pair(), right.queue_pair()
        connect(*qps, path={"tclass": 0})
        target = region(right)
        qps[0].write((target.key, target.va), b"data")
        left.settle()
        assert channel.left is left
        wire: Any = left.hca.eth_wire
        frames = wire.sent
        assert frames
        for frame in frames:
            at = reading.network_header(frame)
            assert reading.parse(frame, at).grh.tclass == 0
            assert with_mark(frame) is None

    def test_one_with_all_ones_in_its_traffic_class_is_no_mark(self, cable):
        left, right = cable
        qps = left.queue_pair(), right.queue_pair()
        connect(*qps, path={"tclass": 0xFF})
        target = region(right)
        qps[0].write((target.key, target.va), b"data")
        left.settle()
        assert target.read(0, 4) == b"data"
        assert not right.hca.roce.congestion.counts["np_ecn_marked_roce_packets"]


class TestDatagrams:
    def test_the_grh_is_in_front_of_the_payload(self, ends):
        left, right = ends
        channel = Channel(QpType.UD, left, right)
        target = region(right)
        channel.post_recv(target.sge())
        channel.send(b"datagram")
        channel.settle()
        (received,) = channel.received()
        assert received.flags_rqpn & ~0xFFFFFF == GRH | CqeRoceL3.GRH << 24
        data = target.read(0, GRH_BYTES + 8)
        assert data[0] >> 4 == 6
        assert int.from_bytes(data[4:6], "big") == 12 + 8 + 8 + 4
        assert data[6:8] == bytes((0x1B, HOP_LIMIT))
        assert data[8:24] == left.gids[left.index]
        assert data[24:40] == right.gids[right.index]
        assert data[40:] == b"datagram"

    @pytest.mark.parametrize("index", [1, IPV4], ids=["v2", "v1"])
    def test_an_address_that_the_peer_has_for_the_other_version_alone(
        self, index, roce_ends, clock
    ):
        left, right = roce_ends
        channel = Channel(QpType.UD, left, right)
        channel.post_recv(region(right).sge())
        other = {1: (6, V1), IPV4: (6, V2)}[index]
        gid = MAPPED_PREFIX + bytes((10, 9, 9, 9))
        assert not set_address(right.driver, other[0], gid, right.mac, version=other[1]).status
        av = {"grh_gid_fl": 1 << 30 | index << 20, "rgid": gid}
        channel.send(b"lost", to=av)
        channel.settle()
        assert len(channel.sent()) == 1
        assert not channel.received()
        right_index = 1 if index == IPV4 else IPV4
        channel.send(b"found", to=av | {"grh_gid_fl": 1 << 30 | right_index << 20})
        channel.settle()
        assert len(channel.received()) == 1

    def test_a_group_hears_both_versions(self, roce_ends):
        left, right = roce_ends
        group = MAPPED_PREFIX + bytes((239, 1, 2, 3))
        sender, member = left.queue_pair(QpType.UD), right.queue_pair(QpType.UD)
        target = region(right)
        for qp in (sender, member):
            qp.init(q_key=0x1234, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0).to_rts()
        member.post_recv(target.sge())
        member.post_recv(target.sge())
        right.driver.must(Op.ATTACH_TO_MCG, qpn=member.qpn, multicast_gid=group)
        to = left.vector_to(right) | {
            "rmac": bytes.fromhex("01005e010203"), "rgid": group, "dqp_dct": 0xFFFFFF,
            "key": 0x1234 << 32,
        }  # fmt: skip
        for index in (1, IPV4):
            sender.datagram(to | {"grh_gid_fl": 1 << 30 | index << 20}, b"to all")
            left.settle()
        kinds = [found.flags_rqpn >> 24 & 3 for found in member.cq.drain()]
        assert kinds == [CqeRoceL3.IPV4, CqeRoceL3.GRH]


class TestVersionsOfOneConnection:
    @pytest.mark.parametrize("indices", [(1, IPV4), (IPV4, 1)], ids=["v2 to v1", "v1 to v2"])
    def test_do_not_meet(self, indices, roce_ends, clock):
        """Each end has a GID for both, but packets of one version are not for a path of the other.

        So the requester gives up, as it does when nobody is there.
        """
        left, right = roce_ends
        qp, peer = left.queue_pair(), right.queue_pair()
        paths = left.path_to(right), right.path_to(left)
        there, back = (
            path | {"src_addr_index": index} for path, index in zip(paths, indices, strict=True)
        )
        qp.init().to_rtr(qpn=peer.qpn, path=there).to_rts(retry_count=1, ack_timeout=1)
        peer.init().to_rtr(qpn=qp.qpn, path=back).to_rts()
        peer.post_recv(region(right).sge())
        qp.send(b"lost")
        time_out(left, clock)
        (failed,) = qp.cq.drain()
        assert failed.opcode == CqeOpcode.REQ_ERR
        assert failed.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert not peer.cq.drain()
        why = "not of the queue pair's RoCE version"
        assert right.hca.roce.dropped[why]

    def test_an_entry_that_changes_its_version_takes_its_connections_along(self, ends, clock):
        left, right = ends
        channel = Channel(QpType.RC, left, right)
        target = region(right)
        for version, text in ((V1, b"first"), (V2, b"later")):
            for node in {left.mac: left, right.mac: right}.values():
                gid = node.gids[node.index]
                assert not set_address(node.driver, node.index, gid, node.mac, None, version).status
            channel.post_recv(target.sge())
            channel.send(text)
            channel.settle()
            assert len(channel.received()) == 1
            assert target.read(0, 5) == text


def _packet(qp, target, data=b"evil"):
    packet = Packet().of(OPS[Service.RC, PacketKind.WRITE, True, True, None], qp.qpn, 0x10)
    packet.va, packet.rkey, packet.length = target.va, target.key, len(data)
    return packet


@pytest.mark.hostile
class TestHostileFrames:
    """Frames for a connection by version 1, as anybody on the network can make them."""

    @pytest.fixture
    def world(self, cable):
        return World(cable)

    def test_the_frame_itself_is_good(self, world):
        world.take(world.frame())
        assert world.target.read(0, 4) == b"evil"

    @pytest.mark.parametrize(
        "wrong",
        [
            {"version": V2},
            {"sgid": MAPPED_PREFIX + b"\x0a\0\0\x4d"},
            {"dgid": MAPPED_PREFIX + b"\x0a\0\0\x4d"},
            {"dmac": bytes.fromhex("020000000099")},
            {"tci": 5},
        ],
        ids=lambda wrong: next(iter(wrong)),
    )
    def test_one_wrong_header_is_enough(self, world, wrong):
        world.take(world.frame(**wrong))
        assert world.is_untouched()

    def test_no_flipped_bit_is_an_effect(self, world):
        frame = world.frame()
        uncovered = {*range(6, 12), 58}
        """The source MAC, and the BTH's FECN and BECN. What routers change is covered."""
        routed = {14: 0x0F, 15: 0xFF, 16: 0xFF, 17: 0xFF, 21: 0xFF}
        """Bits of the GRH that no sum covers."""
        for place in range(len(frame)):
            if place in uncovered:
                continue
            for bit in range(8):
                if routed.get(place, 0) >> bit & 1:
                    continue
                flipped = bytearray(frame)
                flipped[place] ^= 1 << bit
                world.take(bytes(flipped))
                assert world.is_untouched(), (place, bit)
        world.take(frame)
        assert world.target.read(0, 4) == b"evil"

    def test_a_frame_that_was_cut_short_is_no_effect(self, world):
        frame = world.frame()
        for length in range(len(frame)):
            world.take(frame[:length])
            assert world.is_untouched()
        world.take(frame)
        assert world.target.read(0, 4) == b"evil"

    def test_a_length_beyond_the_frame(self, world):
        frame = bytearray(world.frame())
        for length in (0, 15, len(frame), 0xFFFF):
            frame[18:20] = length.to_bytes(2, "big")
            world.take(bytes(frame))
            assert world.is_untouched()
        assert world.node.hca.roce.dropped["bad length"] == 4

    @given(st.data())
    def test_any_bytes_behind_the_ethertype(self, data):
        world = World(on_a_cable(HandClock()), IPV4)
        frame = bytearray(world.frame())
        for _ in range(data.draw(st.integers(1, 6))):
            frame[data.draw(st.integers(14, len(frame) - 1))] = data.draw(st.integers(0, 255))
        before = bytes(frame) == world.frame()
        world.take(bytes(frame))
        assert not world.node.hca.health.has_failed
        assert before or world.is_untouched() or world.target.read(0, 4) == b"evil"
        world.serve()

    def test_roce_that_is_off_leaves_them_to_the_flow_tables(self, world):
        world.node.hca.nic_vport.roce_en = False
        frames = world.node.hca.nic_vport.received.unicast.packets
        world.take(world.frame())
        assert world.is_untouched()
        assert world.node.hca.nic_vport.received.unicast.packets == frames + 1


class World:
    """A node with a connection by version 1 whose peer never speaks, and memory."""

    def __init__(self, nodes, index=IPV4):
        self.peer, self.node = nodes
        for node in nodes:
            node.index = index
        self.channel = Channel(QpType.RC, self.peer, self.node)
        self.target = self.node.region(4096)
        self.qp = self.channel.receiver

    def frame(self, data=b"evil", psn=0x10, **wrong):
        """The frame of a WRITE that the queue pair's peer could send now."""
        headers = RoceHeaders(
            self.node.mac, self.peer.mac, self.peer.gids[IPV4], self.node.gids[IPV4], version=V1
        )
        packet = _packet(self.qp, self.target, data)
        packet.psn = psn
        return Framer(replace(headers, **wrong), 0xFFFF).frame(packet, [data], len(data))

    def take(self, frame):
        arrive(self.node.hca, Frame(frame))
        self.node.settle()

    def is_untouched(self):
        return self.target.read(0, 4) == bytes(4)

    def serve(self):
        """An honest request is, afterwards."""
        self.take(self.frame(b"good", self.node.hca.qps.get(self.qp.qpn).epsn))
        assert self.target.read(0, 4) == b"good"
