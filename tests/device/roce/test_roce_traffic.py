"""Transport services over RoCE v2: in one function, between two, and in frames."""

from typing import Any, cast

import pytest

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce import framing, reading
from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.nodes.roce import (
    HOP_LIMIT,
    SPORT,
    RoceNode,
    clear_address,
    ipv4,
    on_a_cable,
    on_one_segment,
    set_address,
)
from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.gsi import Gsi
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeRoceL3, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.enums.regs import RegId, TrustState
from layouts.regs import qos_regs
from layouts.wire.bth import aeth, reth
from layouts.wire.mads import MAD_BYTES, MgmtClass, pma_mad

TEXT = bytes(range(256)) * 24
GRH = 1 << 28


@pytest.fixture
def ends(roce_ends):
    return roce_ends


@pytest.fixture(params=[QpType.RC, QpType.UC, QpType.XRC, QpType.UD], ids=lambda st: st.name)
def service(request):
    return request.param


def region(node, data=b""):
    made = node.region(len(TEXT) + GRH_BYTES)
    made.write(data)
    return made


class TestServices:
    def test_a_send_arrives(self, channel):
        length = 800 if channel.service is QpType.UD else len(TEXT)
        source, target = region(channel.left, TEXT), region(channel.right)
        channel.post_recv(target.sge())
        channel.send(source.sge(0, length), imm=0x12345678)
        channel.settle()
        assert len(channel.sent()) == 1
        (received,) = channel.received()
        assert received.byte_cnt == length + channel.header
        assert received.immediate == 0x12345678
        assert received.slid == 0
        assert target.read(channel.header, length) == TEXT[:length]

    @pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.XRC], indirect=True)
    def test_a_write_arrives(self, channel):
        source, target = region(channel.left, TEXT), region(channel.right)
        channel.write((target.key, target.va), source.sge(0, len(TEXT)))
        channel.settle()
        assert len(channel.sent()) == 1
        assert target.read(0, len(TEXT)) == TEXT

    @pytest.mark.parametrize("service", [QpType.RC, QpType.XRC], indirect=True)
    def test_a_read_and_an_atomic(self, channel):
        target, source = region(channel.left), region(channel.right, TEXT)
        channel.read((source.key, source.va), target.sge(0, len(TEXT)))
        channel.settle()
        assert target.read(0, len(TEXT)) == TEXT
        channel.fetch_add((source.key, source.va), target.sge(0, 8), 5)
        channel.settle()
        assert len(channel.sent()) == 2
        assert target.read(0, 8) == TEXT[:8]


class TestConnections:
    @pytest.fixture
    def service(self):
        return QpType.RC

    def test_a_path_to_nobody_ends_in_a_timeout(self, channel, clock, ends):
        left, right = ends
        qps = left.queue_pair(), right.queue_pair()
        connect(*qps, path={"rgid_rip": ipv4(77)}, retry_count=0, ack_timeout=1)
        qps[0].send(b"lost")
        for _ in range(9):
            left.settle()
            clock.advance(10_000_000)
        (failed,) = qps[0].cq.drain()
        assert failed.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR

    def test_a_peer_takes_only_what_comes_from_its_path(self, clock, ends):
        """The peer's path leads elsewhere, so what comes from us is not for it (IBTA A17.4.5.1)."""
        left, right = ends
        qp, peer = left.queue_pair(), right.queue_pair()
        qp.init().to_rtr(qpn=peer.qpn, path=left.path_to(right)).to_rts(
            retry_count=0, ack_timeout=1
        )
        path = right.path_to(left) | {"rgid_rip": ipv4(77)}
        peer.init().to_rtr(qpn=qp.qpn, path=path).to_rts()
        peer.post_recv(region(right).sge())
        qp.send(b"spoofed")
        for _ in range(9):
            left.settle()
            clock.advance(10_000_000)
        (failed,) = qp.cq.drain()
        assert failed.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert not peer.cq.drain()

    def test_vlans_are_apart(self, clock, ends):
        left, right = ends
        left.index, right.index = 2, 2
        channel = Channel(QpType.RC, left, right)
        target = region(right)
        channel.post_recv(target.sge())
        channel.send(b"tagged")
        channel.settle()
        assert channel.received()
        assert not set_address(right.driver, 2, right.gids[2], right.mac, RoceNode.VLAN + 1).status
        if left is right:
            return  # both ends have moved
        channel.post_recv(target.sge())
        channel.send(b"lost")
        channel.settle()
        assert not channel.received()

    def test_nothing_passes_while_roce_is_disabled(self, ends, clock):
        left, right = ends
        channel = Channel(QpType.RC, left, right, retry_count=0, ack_timeout=1)
        right.driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"roce_en": 1},
            nic_vport_context={"roce_en": 0},
        )  # fmt: skip
        channel.post_recv(region(right).sge())
        channel.send(b"lost")
        for _ in range(9):
            left.settle()
            clock.advance(10_000_000)
        assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert not channel.received()

    def test_a_message_goes_on_when_its_peer_gets_its_gid_back(self, channel, clock, ends):
        left, right = ends
        source, target = region(left, TEXT), region(right)
        clear_address(right.driver, right.index)
        channel.post_recv(target.sge())
        channel.send(source.sge(0, 100))
        channel.settle()
        assert not channel.received()
        assert not set_address(right.driver, right.index, right.gids[right.index], right.mac).status
        for _ in range(9):
            clock.advance(200_000_000)
            channel.settle()
        assert len(channel.received()) == 1
        assert target.read(0, 100) == TEXT[:100]

    @pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.XRC], indirect=True)
    @pytest.mark.parametrize(
        ("index", "trusts_dscp", "sent", "received"),
        [(1, False, 3, 0), (2, False, 3, 3), (1, True, 5, 5), (2, True, 5, 5)],
        ids=["untagged", "tagged", "untagged, by DSCP", "tagged, by DSCP"],
    )
    def test_packets_are_counted_by_priority(
        self, service, ends, index, trusts_dscp, sent, received
    ):
        """The path's eth_prio is 3 and its DSCP 0. Nothing tells the receiver without a tag."""
        left, right = ends
        left.index = right.index = index
        for node in ends:
            node.hca.eth.qos.dscp_to_priority[0] = 5
            node.hca.eth.qos.trust(dscp=trusts_dscp)
        channel = Channel(service, left, right)
        target = region(right)
        channel.write((target.key, target.va), region(left, TEXT).sge(0, 4096))
        channel.settle()
        assert channel.sent()
        for way, priority in (
            (left.hca.nic_vport.totals()[0], sent),
            (right.hca.nic_vport.totals()[1], received),
        ):
            counted = {at: traffic.packets for at, traffic in way.priorities.items()}
            assert counted == ({priority: way.packets} if priority else {})
            assert way.packets >= 4

    @pytest.mark.parametrize("changes", ["table", "trust"])
    def test_packets_before_a_change_of_priorities_keep_theirs(self, channel, ends, changes):
        """Whenever the counters are read: the driver may do that much later."""
        left, right = ends
        for node in ends:
            node.hca.eth.qos.dscp_to_priority[0] = 5
            node.hca.eth.qos.trust(dscp=True)
        target = region(right)
        channel.write((target.key, target.va), region(left, TEXT).sge(0, 4096))
        channel.settle()
        for node in ends:
            if changes == "trust":
                prm = qos_regs.qpts_reg.new(local_port=1, trust_state=TrustState.PCP)
                assert not node.driver.write_register(RegId.QPTS, bytes(prm)).status
            else:
                table = qos_regs.qpdpm_reg.new(local_port=1)
                table.dscp[0].e, table.dscp[0].prio = 1, 6
                assert not node.driver.write_register(RegId.QPDPM, bytes(table)).status
        for way in (left.hca.nic_vport.totals()[0], right.hca.nic_vport.totals()[1]):
            assert {at: traffic.packets for at, traffic in way.priorities.items()} == {
                5: way.packets
            }

    def test_traffic_is_counted(self, channel, ends):
        left, right = ends
        source, target = region(left, TEXT), region(right)
        for node in ends:
            node.driver.must(Op.QUERY_VPORT_COUNTER, clear=1)
        channel.write((target.key, target.va), source.sge(0, 4096))
        channel.settle()
        sent = left.driver.must(Op.QUERY_VPORT_COUNTER).transmitted_ib_unicast
        received = right.driver.must(Op.QUERY_VPORT_COUNTER).received_ib_unicast
        headers = 14 + 20 + 8 + 12 + 4
        acks = left is right  # whose ACK has the same sender
        assert sent.packets == received.packets == 4 + acks
        octets = 4096 + 4 * headers + acks * (headers + aeth.size)
        # A message that needs no frames is counted without its extended header.
        assert sent.octets - octets in (0, reth.size)
        frames = left.hca.nic_vport.totals()[0]
        assert (frames.packets, frames.octets) == (sent.packets, sent.octets)


class TestDatagrams:
    @pytest.fixture
    def service(self):
        return QpType.UD

    def deliver(self, channel):
        target = region(channel.right)
        channel.post_recv(target.sge())
        channel.send(b"datagram")
        channel.settle()
        assert len(channel.sent()) == 1
        found = channel.received()
        return (found[0] if found else None), target.read(0, GRH_BYTES + 8)

    def test_an_ipv4_header_is_in_the_last_twenty_bytes(self, channel):
        received, data = self.deliver(channel)
        assert received.flags_rqpn & 0xFFFFFF == channel.sender.qpn
        assert received.flags_rqpn & ~0xFFFFFF == GRH | CqeRoceL3.IPV4 << 24
        assert received.vlan is None
        header = data[20:40]
        assert header[0] == 0x45
        assert (
            sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, 20, 2)) % 0xFFFF == 0
        )
        assert header[8:10] == bytes((HOP_LIMIT, 17))
        assert header[12:16] == channel.left.gids[1][12:]
        assert header[16:20] == channel.right.gids[1][12:]
        assert data[40:] == b"datagram"

    def test_an_ipv6_header_takes_it_all(self, ends):
        left, right = ends
        left.index = right.index = 0
        received, data = self.deliver(Channel(QpType.UD, left, right))
        assert received.flags_rqpn & ~0xFFFFFF == GRH | CqeRoceL3.IPV6 << 24
        assert data[0] >> 4 == 6
        assert int.from_bytes(data[4:6], "big") == 8 + 12 + 8 + 8 + 4
        assert data[6:8] == bytes((17, HOP_LIMIT))
        assert data[8:24] == left.gids[0]
        assert data[24:40] == right.gids[0]
        assert data[40:] == b"datagram"

    def test_a_vlan_is_told(self, ends):
        left, right = ends
        left.index = right.index = 2
        received, _ = self.deliver(Channel(QpType.UD, left, right))
        assert received.vlan == 3 << 13 | RoceNode.VLAN

    @pytest.mark.parametrize("gid", [ipv4(77), bytes(16)])
    def test_a_gid_that_the_port_does_not_have_is_not_served(self, channel, gid):
        target = region(channel.right)
        channel.post_recv(target.sge())
        channel.send(b"lost", to={"rgid": gid})
        channel.settle()
        assert len(channel.sent()) == 1
        assert not channel.received()

    @pytest.mark.parametrize("vector", [{"rgid": bytes(16)}, {"grh_gid_fl": 1 << 30 | 9 << 20}],
                             ids=["receiver", "sender"])  # fmt: skip
    def test_one_side_without_a_gid(self, channel, vector):
        """No frame is made of it: a RoCE packet has both (IBTA A17)."""
        roce = channel.left.hca.roce
        dropped = roce.dropped["no GID"]
        channel.post_recv(region(channel.right).sge())
        channel.send(b"lost", to=vector)
        channel.settle()
        assert roce.dropped["no GID"] == dropped + 1
        assert not channel.received()

    def test_a_short_address_vector_leads_nowhere(self, channel):
        channel.post_recv(region(channel.right).sge())
        channel.sender.post(0x0A, bytes(8) + channel.receiver.qpn.to_bytes(4, "big") + bytes(4))
        channel.settle()
        assert not channel.received()

    @pytest.mark.parametrize("block", [0, 1])
    def test_multicast_reaches_all_that_are_attached(self, ends, block):
        left, right = ends
        group = framing.MAPPED_PREFIX + bytes((239, 1, 2, 3))
        members = [node.queue_pair(QpType.UD, block_lb_mc=block) for node in ends]
        targets = [region(node) for node in ends]
        for qp, target in zip(members, targets):
            qp.init(q_key=0x1234, mtu=5, log_msg_max=12)
            qp.to_rtr(mtu=0, log_msg_max=0)
            qp.to_rts()
            qp.post_recv(target.sge())
            qp.node.driver.must(Op.ATTACH_TO_MCG, qpn=qp.qpn, multicast_gid=group)
        mac = bytes.fromhex("01005e010203")
        to = left.vector_to(right) | {"rmac": mac, "rgid": group, "dqp_dct": 0xFFFFFF}
        members[0].datagram(to | {"key": 0x1234 << 32}, b"to all")
        vport = left.hca.nic_vport
        left.settle()
        assert vport.looped_in.rdma_multicast.packets == 1
        assert not vport.looped_out.packets  # it has left by the cable, too
        opcodes = [[found.opcode for found in qp.cq.drain()] for qp in members]
        own = [] if block else [CqeOpcode.RESP_SEND]
        assert sorted(opcodes[0]) == sorted([CqeOpcode.REQ, *own])
        assert opcodes[1] == [CqeOpcode.RESP_SEND]
        assert targets[1].read(40, 6) == b"to all"


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_datagram_that_one_interface_is_too_small_for(clock, side):
    """Where it is lost, it is counted: before it leaves, or when it comes."""
    left, right = on_one_segment(clock)
    (left if side == "sender" else right).hca.eth.admin_mtu = 1522
    channel = Channel(QpType.UD, left, right)
    channel.post_recv(region(right).sge())
    channel.send(left.region(4096).sge(0, 1600))
    channel.settle()
    assert len(channel.sent()) == 1
    assert not channel.received()
    received = right.hca.nic_vport.received
    is_counted = (left.hca.roce.dropped["longer than the MTU"], received.too_long, received.errors)
    assert is_counted == ((1, 0, 0) if side == "sender" else (0, 1, 1))


def test_looped_frames_that_the_line_has_no_room_for(clock):
    left, _ = on_one_segment(clock)
    hca = left.hca
    clock.budget.steps = clock.budget.limit + 1
    for _ in range(MAX_WAITING):
        arrive(hca, Frame(bytes(60)))
    (mac, *_), wire = hca.gids.macs, cast(Any, hca.wire)
    wire._deliver(hca, mac + bytes(60))
    assert hca.roce.dropped["queue full"] == 1


def test_nothing_is_sent_from_an_address_that_is_gone(clock):
    left, right = on_a_cable(clock)
    cable: Any = left.hca.eth_wire
    channel = Channel(QpType.RC, left, right, retry_count=0, ack_timeout=1)
    clear_address(left.driver, left.index)
    channel.send(b"lost")
    for _ in range(9):
        left.settle()
        clock.advance(10_000_000)
    assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert not cable.sent


def test_management_datagrams_are_the_guests(roce_ends):
    """With RoCE mlx5_ib responds by itself (hw/mad.c: process_pma_cmd)."""
    left, right = roce_ends
    gsi, peer = Gsi(left), Gsi(right) if right is not left else None
    vector = left.vector_to(right)
    lid = vector.pop("rlid")
    gsi.send(pma_mad.new(mad_hdr=gsi.header(MgmtClass.PERF_MGMT, 1, 1, 1)), lid, **vector)
    ((completion, _),) = (peer or gsi).take()
    assert completion.byte_cnt == GRH_BYTES + MAD_BYTES


def test_senders_wait_while_the_way_is_full(clock):
    """As behind a port that sends pause frames: nothing is lost, and everything goes on."""
    left, right = on_a_cable(clock)
    cable: Any = left.hca.eth_wire
    cable.room = 5
    qps = [(left.queue_pair(), right.queue_pair()) for _ in range(4)]
    regions = [(left.region(65536), right.region(65536)) for _ in qps]
    for (one, two), (source, target) in zip(qps, regions):
        connect(one, two)
        source.write(bytes(range(256)) * 256)
        one.write((target.key, target.va), source.sge())
    left.settle()
    for (one, _), (source, target) in zip(qps, regions):
        assert [entry.opcode for entry in one.cq.drain()] == [CqeOpcode.REQ]
        assert target.read() == source.read()
    data = [frame for frame in cable.sent if len(frame) > 1000]
    assert len(data) == 4 * 64, "no packet was lost and sent again"
    assert not left.hca.roce.dropped


def test_messages_are_frames_for_who_wants_to_see_them(clock):
    left, right = on_one_segment(clock)
    seen = []

    class Watcher:
        def sent(self, port, frame, carry):
            seen.append(frame.data)
            carry()

        def received(self, hca, frame, carry):
            carry()

    for node in (left, right):
        wire: Any = node.hca.eth_wire
        wire.shows_messages, wire.watcher = True, Watcher()
    channel = Channel(QpType.RC, left, right)
    target = region(right)
    channel.post_recv(target.sge())
    channel.send(b"seen")
    channel.settle()
    assert len(channel.sent()) == len(channel.received()) == 1
    kinds = [str(reading.parse(frame, 14).op) for frame in seen]
    assert kinds == ["RC SEND ONLY", "RC ACKNOWLEDGE ONLY aeth"]


def test_the_udp_source_port_of_a_connection_changes(clock):
    """rdma-core's mlx5dv_modify_qp_udp_sport; packets sent from now on have the new one."""
    left, right = on_a_cable(clock)
    cable: Any = left.hca.eth_wire
    channel = Channel(QpType.RC, left, right)
    source, target = region(left, TEXT), region(right)
    ports = []
    for path, mask in (({}, 0), ({"udp_sport": 55555}, 1 << 2)):
        left.driver.must(
            Op.RTS2RTS_QP, qpn=channel.sender.qpn, qpc={"primary_address_path": path},
            opt_param_mask_95_32=mask,
        )  # fmt: skip
        channel.write((target.key, target.va), source.sge(0, 64))
        channel.settle()
        assert len(channel.sent()) == 1
        ports += [int.from_bytes(frame[34:36], "big") for frame in cable.sent if len(frame) > 100]
        cable.sent.clear()
    assert ports == [SPORT, 55555]


def test_other_options_above_31_are_refused(clock):
    left, right = on_a_cable(clock)
    channel = Channel(QpType.RC, left, right)
    for bit in (3, 63):
        answer = left.driver.command(
            Op.RTS2RTS_QP, qpn=channel.sender.qpn, opt_param_mask_95_32=1 << bit
        )
        assert answer.status == Status.BAD_PARAM_ERR
