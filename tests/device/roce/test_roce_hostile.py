"""RoCE frames that mean no good: dropped and counted, never an effect."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.datagram import Datagram
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.framing import MAPPED_PREFIX as MAPPED
from emu.device.port.eth.roce.framing import Framer, RoceHeaders
from emu.device.port.eth.roce.reading import network_header, seal, transport_header
from emu.device.port.packet import OPS, Packet
from emu.driver.nodes.roce import MODEL, functions_on, ipv4, on_a_cable, on_one_segment
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import arrive
from emu.driver.world.clock import HandClock
from layouts.enums.qp import QpState, QpType
from layouts.rings.wqe import av
from layouts.wire.bth import AETH, BTH, RETH, PacketKind, Service

pytestmark = pytest.mark.hostile

STRANGER = bytes.fromhex("020000000099")
MAX_HELD = 1024
"""How many frames wait for a path that is full before the next ones are lost."""


@pytest.fixture
def target():
    """A node of its own, with a connected queue pair whose peer never speaks, and memory."""
    return Target()


class Target:
    def __init__(self):
        left, self.node = on_a_cable(HandClock())
        self.channel = Channel(QpType.RC, left, self.node)
        self.region = self.node.region(4096)
        self.qp = self.channel.receiver
        self.peer = left
        self.channel.post_recv(self.region.sge())

    def write(self, **headers):
        """The frame of a WRITE that the queue pair's peer could send now."""
        packet = Packet().of(OPS[Service.RC, PacketKind.WRITE, True, True, None], self.qp.qpn, 0x10)
        packet.va, packet.rkey, packet.length = self.region.va, self.region.key, 4
        fields = {
            "dmac": self.node.mac, "smac": self.peer.mac, "sgid": self.peer.gids[1],
            "dgid": self.node.gids[1],
        }  # fmt: skip
        return Framer(RoceHeaders(**fields | headers), 0xFFFF).frame(packet, [b"evil"], 4)

    def take(self, frame):
        arrive(self.node.hca, Frame(frame))
        self.node.settle()

    def is_untouched(self):
        return self.region.read(0, 4) == bytes(4) and not self.channel.recv_cq.drain()


def test_the_frame_itself_is_good(target):
    target.take(target.write())
    assert target.region.read(0, 4) == b"evil"


@pytest.mark.parametrize(
    "headers",
    [
        {"sgid": ipv4(77)},
        {"dgid": ipv4(77)},
        {"dmac": STRANGER},
        {"tci": 5},
        {"dmac": b"\x01" + STRANGER[1:]},
    ],
    ids=["from another GID", "for another GID", "another MAC", "another VLAN", "to a group"],
)
def test_a_frame_from_or_for_somebody_else(target, headers):
    target.take(target.write(**headers))
    assert target.is_untouched()


def test_a_tag_with_a_priority_alone_names_no_vlan(target):
    target.take(target.write(tci=3 << 13))
    assert target.region.read(0, 4) == b"evil"


@pytest.mark.parametrize("name", ["smac", "tclass", "hop_limit", "sport"])
def test_what_a_network_may_change_does_not_matter(target, name):
    values = {"smac": STRANGER, "tclass": 3, "hop_limit": 1, "sport": 9}
    target.take(target.write(**{name: values[name]}))
    assert target.region.read(0, 4) == b"evil"


def test_a_damaged_frame_is_dropped_and_counted(target):
    frame = target.write()
    target.take(frame[:-1] + bytes((frame[-1] ^ 1,)))
    assert target.is_untouched()
    assert target.node.hca.roce.dropped["bad ICRC"] == 1
    assert target.node.hca.nic_vport.received.errors == 1


UNCOVERED = (*range(6, 12), 40, 41, 46)
"""Bytes that may change on the way: the source MAC, the UDP checksum, the BTH's FECN and BECN."""


@pytest.mark.parametrize("place", [at for at in range(78) if at not in UNCOVERED])
def test_no_flipped_bit_is_an_effect(target, place):
    """What is dropped changes nothing, so that the queue pair waits for the same frame again."""
    frame = target.write()
    assert len(frame) == 78
    for bit in range(8):
        flipped = bytearray(frame)
        flipped[place] ^= 1 << bit
        target.take(bytes(flipped))
        assert target.is_untouched()
    target.take(frame)
    assert target.region.read(0, 4) == b"evil"


@pytest.mark.parametrize("place", UNCOVERED)
def test_a_byte_that_no_sum_covers(target, place):
    frame = bytearray(target.write())
    frame[place] ^= 0xFF
    target.take(bytes(frame))
    assert target.region.read(0, 4) == b"evil"


@pytest.mark.parametrize("length", range(78))
def test_a_frame_that_was_cut_short_is_no_effect(target, length):
    target.take(target.write()[:length])
    assert target.is_untouched()
    target.take(target.write())
    assert target.region.read(0, 4) == b"evil"


@pytest.fixture(scope="module")
def victim():
    """Shared by many packets: each test that takes it ends with a request that has to be served."""
    return Target()


class TestWholePackets:
    """Packets with a right invariant CRC, as anybody on the network can make them."""

    def send(self, target, code, body, **headers):
        """A packet with any opcode, and ``body`` behind its base transport header."""
        whole = Packet().of(OPS[Service.RC, PacketKind.SEND, True, True, None], 0, 0)
        fields = {
            "dmac": target.node.mac, "smac": target.peer.mac, "sgid": target.peer.gids[1],
            "dgid": target.node.gids[1],
        }  # fmt: skip
        bth = {"qpn": target.qp.qpn, "psn": 0x10, "flags": 0x40, "pkey": 0xFFFF}
        bth |= {name: headers.pop(name) for name in list(headers) if name in bth}
        frame = bytearray(
            Framer(RoceHeaders(**fields | headers), 0xFFFF).frame(whole, [body], len(body))
        )
        at = network_header(frame)
        words = code, bth["flags"], bth["pkey"], bth["qpn"], 1 << 31 | bth["psn"]
        BTH.pack_into(frame, transport_header(frame, at), *words)
        seal(frame, at)
        target.take(bytes(frame))

    def is_served(self, target):
        """An honest request is, afterwards."""
        hca_qp = target.node.hca.qps.get(target.qp.qpn)
        packet = Packet().of(
            OPS[Service.RC, PacketKind.WRITE, True, True, None], target.qp.qpn, hca_qp.epsn
        )
        packet.va, packet.rkey, packet.length = target.region.va, target.region.key, 4
        fields = target.node.mac, target.peer.mac, target.peer.gids[1], target.node.gids[1]
        target.take(Framer(RoceHeaders(*fields), 0xFFFF).frame(packet, [b"good"], 4))
        return target.region.read(0, 4) == b"good"

    @given(
        code=st.integers(0, 255),
        body=st.binary(max_size=200).map(lambda some: some + bytes(-len(some) % 4)),
        wrong=st.one_of(
            st.fixed_dictionaries({"psn": st.integers(0x11, 0xFFFFFF)}),
            st.fixed_dictionaries({"qpn": st.integers(0, 0xFFFFFF)}),
            st.fixed_dictionaries({"sgid": st.binary(min_size=16, max_size=16)}),
            st.fixed_dictionaries({"dgid": st.binary(min_size=16, max_size=16)}),
            st.fixed_dictionaries({"flags": st.integers(0, 255).map(lambda some: some | 1)}),
            st.fixed_dictionaries({"pkey": st.integers(0, 0x7FFE)}),
        ),
    )
    def test_one_wrong_header_is_enough(self, victim, code, body, wrong):
        hca = victim.node.hca
        qp = hca.qps.get(victim.qp.qpn)
        if "psn" in wrong:
            wrong = {"psn": qp.epsn + wrong["psn"] & 0xFFFFFF}
        if wrong == {"psn": qp.epsn} or wrong.get("qpn") == victim.qp.qpn:
            return
        if wrong.get("sgid", b"x")[:12] != wrong.get("dgid", b"y")[:12]:
            # The addresses of a packet are both of version 4 or both of 6.
            wrong = {
                name: MAPPED + gid[12:] if "gid" in name else gid for name, gid in wrong.items()
            }
        victim.region.write(bytes(4))
        before = qp.epsn, qp.state, qp.rq.posted()
        self.send(victim, code, body, **wrong)
        assert (qp.epsn, qp.state, qp.rq.posted()) == before
        assert victim.is_untouched()
        assert not hca.health.has_failed
        assert self.is_served(victim)

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            ({"qpn": 0xABCDE}, "no such queue pair"),
            ({"sgid": ipv4(77)}, "not from its peer's GID"),
            ({"pkey": 0x1234}, "wrong P_Key"),
            ({"flags": 0x4F}, "bad transport header"),
            ({"code": 0x24}, "wrong transport service"),
            ({"code": 0xFF}, "bad transport header"),
        ],
        ids=str,
    )
    def test_it_is_counted_by_what_is_wrong(self, victim, wrong, why):
        dropped = victim.node.hca.roce.dropped
        before = dropped[why]
        self.send(victim, wrong.pop("code", 0x04), b"evil", **wrong)
        assert dropped[why] == before + 1

    @pytest.mark.parametrize(
        ("key", "offset", "length"), [(1, 0, 4), (0, -1, 4), (0, 4093, 4), (0, 0, 1 << 31)]
    )
    def test_a_wrong_key_or_range_writes_nothing(self, key, offset, length):
        target = Target()
        va, rkey = target.region.va + offset, target.region.key ^ key << 8
        self.send(target, 0x0A, RETH.pack(va, rkey, length) + b"evil")
        assert target.region.read(0, 4096) == bytes(4096)
        assert target.node.hca.qps.get(target.qp.qpn).state is QpState.ERR

    def test_acknowledgements_of_nothing_complete_nothing(self, victim):
        for psn in (0, 0xF, 0x10, 0x11, 0xFFFFFF):
            for syndrome in (0x1F, 0x20, 0x60, 0x61, 0x7F, 0xFF):
                self.send(victim, 0x11, AETH.pack(syndrome << 24), psn=psn)
        assert not victim.qp.cq.drain()
        assert victim.node.hca.qps.get(victim.qp.qpn).state is QpState.RTS
        assert self.is_served(victim)


def test_roce_that_is_off_leaves_frames_to_the_flow_tables(target):
    target.node.hca.nic_vport.roce_en = False
    frames = target.node.hca.nic_vport.received.unicast.packets
    target.take(target.write())
    assert target.is_untouched()
    assert target.node.hca.nic_vport.received.unicast.packets == frames + 1


def test_a_frame_that_is_longer_than_the_mtu_does_not_leave(target):
    target.peer.hca.eth.admin_mtu = 1000
    source = target.peer.region(4096)
    target.channel.write((target.region.key, target.region.va), source.sge(0, 1024))
    target.channel.settle()
    assert target.peer.hca.roce.dropped["longer than the MTU"]


def test_a_flood_of_unknown_addresses_is_not_remembered():
    (node,) = on_one_segment(HandClock(), 1)
    wire: Any = node.function.wire
    for number in range(10_000):
        assert wire.node(1 << 176 | number << 128 | 5) is None
    assert len(wire._nodes) <= 4096


def test_frames_for_oneself_wait_in_a_bounded_queue_over_a_reset():
    (node,) = on_one_segment(HandClock(), 1)
    wire: Any = node.function.wire
    frame = node.mac + bytes(60)
    assert all(wire.transmit(node.hca, frame) for _ in range(200))
    assert not all(wire.transmit(node.hca, frame) for _ in range(100))
    node.function.reset()
    assert not wire._frames


def test_an_ethernet_function_without_a_cable_has_itself(clock):
    (function,) = functions_on([None], clock, MODEL)
    assert [*function.hca.eth_wire.nodes()] == [function.hca]


@pytest.mark.parametrize("path", [{"rlid": 2}])
def test_a_datagram_queue_pair_with_a_path_sends_no_packets(packet_pair, path):
    """Its requests have an address each; the context's path is nobody's."""
    left, right = packet_pair
    qp = left.queue_pair(QpType.UD).init(q_key=1, mtu=5, log_msg_max=12)
    qp.to_rtr(mtu=0, log_msg_max=0, path=path).to_rts()
    qp.datagram(left.vector_to(right) | {"dqp_dct": 5, "key": 1 << 32}, b"data")
    left.settle()
    assert len(qp.cq.drain()) == 1


def test_datagrams_to_a_gid_that_nobody_has():
    """They do not wait for room, so what the queue of frames has no room for is dropped."""
    (node,) = on_one_segment(HandClock(), 1)
    channels = [Channel(QpType.UD, node, node) for _ in range(48)]
    nowhere = {"rgid": ipv4(77)}
    for channel in channels:
        for _ in range(30):
            channel.send(b"flood", to=nowhere, flags=0, ring=False)
        channel.sender.ring()
    while node.function.run():  # no timer runs meanwhile
        pass
    wire: Any = node.hca.wire
    assert len(wire._frames) == MAX_HELD
    assert node.hca.roce.dropped["queue full"] == 48 * 30 - MAX_HELD
    node.settle()
    channels[0].post_recv(node.region(256).sge())
    channels[0].send(b"honest")
    channels[0].settle()
    assert channels[0].received()


def test_a_frame_that_has_a_gid_and_the_port_by_chance(target):
    """It is for the network interface, and no RoCE frame that is damaged."""
    frame = target.node.mac + STRANGER + b"\x88\xb5" + bytes(10) + target.node.gids[1]
    received = target.node.hca.nic_vport.received
    target.take(frame + b"\x12\xb7" + bytes(60))
    assert not target.node.hca.roce.dropped
    assert (received.packets, received.errors) == (1, 0)
    assert target.node.hca.nic_vport.steering_discards == 1, "it has no queues"


class TestAFullWay:
    """Frames to other processes, while their port has no room."""

    FRAME = STRANGER + bytes(60)

    @pytest.fixture
    def cable(self):
        left, _ = on_a_cable(HandClock())
        cable: Any = left.hca.eth_wire
        cable.sent.clear()
        cable.room = 0
        return cable

    @pytest.fixture
    def wire(self, cable):
        return cable.hca.wire

    def test_no_more_are_kept_than_may_be(self, cable, wire):
        assert not any(wire.transmit(cable.hca, self.FRAME) for _ in range(MAX_HELD + 3))
        assert cable.hca.roce.dropped["queue full"] == 3
        cable.room = MAX_HELD + 3
        cable.poll()
        assert len(cable.sent) == MAX_HELD

    def test_room_for_some_of_them(self, cable, wire):
        told = []
        for _ in range(3):
            wire.transmit(cable.hca, self.FRAME)
        for _ in range(5):
            wire.when_ready(0, partial(told.append, True))
        assert len(cable.waiting) == 1, "the port is asked once for all of them"
        cable.room = 2
        cable.poll()
        assert (len(cable.sent), told) == (2, [])
        cable.poll()
        assert (len(cable.sent), told) == (3, [True] * 5)


@pytest.mark.pure("it receives in the wire's place")
def test_a_frame_that_resets_the_function():
    """Those behind it are gone, and the loop goes on."""
    (node,) = on_one_segment(HandClock(), 1)
    wire: Any = node.hca.wire
    taken = []
    for _ in range(3):
        wire.transmit(node.hca, node.mac + STRANGER + bytes(60))

    def take(hca, frame):
        taken.append(frame)
        node.function.reset()

    wire._deliver = take
    node.settle()
    assert len(taken) == 1


class TestDatagramsWithoutAGid:
    @pytest.fixture
    def node(self):
        return on_one_segment(HandClock(), 1)[0]

    @pytest.mark.parametrize(("index", "gid"), [(9, ipv4(2)), (1, None), (1, bytes(16))])
    def test_lost(self, node, index, gid):
        hca = node.hca
        to = replace(hca.link.vector(bytes(av.new(**node.vector_to(node)))), gid=gid)
        origin = hca.link.origin(replace(to, sgid_index=index), 5, 0xFFFF, 0)
        wire, data = hca.wire, [memoryview(b"lost")]
        wire.datagram(hca, Datagram(to, data, 4, None, solicited=False), origin)
        assert hca.roce.dropped == {"no GID": 1}
        assert not wire._frames


def test_a_datagram_inside_the_process_is_no_frame():
    left, right = on_one_segment(HandClock())
    channel = Channel(QpType.UD, left, right)
    channel.post_recv(right.region(256).sge())
    channel.send(b"direct")
    while left.function.run() or right.function.run():  # no timer runs meanwhile
        pass
    assert channel.received()
