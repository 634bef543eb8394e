"""Congestion of RoCE: marked packets, notifications and what they do, parameters and statistics."""

from dataclasses import replace

import pytest
from helpers.device.links import MS, SIZE, TEXT, World, roce

from emu.device.models import LINKS
from emu.device.port.eth.congestion import with_mark
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.reading import network_header, parse
from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.world.cable import arrive
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpState, QpType
from layouts.enums.roce import CongProtocol
from layouts.function import congestion as layout
from layouts.wire.bth import BECN, PacketKind

RP, NP = CongProtocol.R_ROCE_ECN_RP, CongProtocol.R_ROCE_ECN_NP
LAYOUTS = {RP: layout.cong_control_r_roce_ecn_rp, NP: layout.cong_control_r_roce_ecn_np}


class Sent:
    """Notes the frames that a port's function sends."""

    def __init__(self, frames):
        self.frames = frames

    def sent(self, port, frame, carry):
        self.frames.append(frame.data)
        carry()

    def received(self, hca, frame, carry):
        carry()


@pytest.fixture
def world(model, clock, wire):
    nodes, cabling, ports = roce(model, clock, wire)
    session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
    frames = []
    for port in ports:
        port.watcher = Sent(frames)
    found = World(nodes=nodes, session=session, clock=clock, ports=ports, frames=frames)
    found.sender, found.receiver = (node.hca.roce.congestion for node in nodes)
    return found


@pytest.fixture
def channel(world):
    return world.channel()


@pytest.fixture
def write(world, channel):
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])

    def start(size=SIZE):
        channel.write((target.key, target.va), source.sge(0, size))
        return target

    return start


def notifications(world):
    """The CNPs that have been on the wire: their headers."""
    packets = [(frame, parse(frame, network_header(frame))) for frame in world.frames]
    return [(frame, packet) for frame, packet in packets if packet.op.kind is PacketKind.CNP]


def limited(qp, node):
    return node.hca.qps.get(qp.qpn).connection.rate


class TestMarks:
    def test_connections_are_capable_of_ecn(self, world, channel, write):
        world.set(delay="1us")
        write(100)
        world.until(channel.sent)
        tos = {frame[network_header(frame) + 1] & 3 for frame in world.frames}
        assert tos == {2}

    def test_not_while_the_port_does_not_react(self, world, channel, write):
        for node in world.nodes:
            node.driver.must(Op.MODIFY_CONG_STATUS, priority=3, cong_protocol=RP, enable=0)
            node.hca.qps.get(channel.sender.qpn).ctx.primary_address_path.tclass = 0
            node.hca.qps.get(channel.receiver.qpn).ctx.primary_address_path.tclass = 0
        world.set(mark=100)
        write(100)
        world.until(channel.sent)
        assert {frame[network_header(frame) + 1] & 3 for frame in world.frames} == {0}
        assert not world.receiver.counts

    def test_a_marked_packet_is_answered_by_a_notification(self, world, channel, write):
        world.set(function=0, direction="tx", mark=100)
        write(100)
        world.until(channel.sent)
        world.run(1)
        assert world.receiver.counts == {"np_ecn_marked_roce_packets": 1, "np_cnp_sent": 1}
        ((frame, packet),) = notifications(world)
        assert (packet.op.code, packet.qpn) == (0x81, channel.sender.qpn)
        at = network_header(frame)
        assert frame[at + 1] == 48 << 2
        bth = at + 28
        assert int.from_bytes(frame[bth + 4 : bth + 8], "big") == BECN | channel.sender.qpn
        assert frame[bth + 12 : bth + 28] == bytes(16)
        assert world.sender.counts == {"rp_cnp_handled": 1}
        assert world.sender.flows == 1

    def test_notifications_are_so_far_apart_for_each_queue_pair(self, world, channel, write):
        modify(world.nodes[1], NP, 2, min_time_between_cnps=1000)
        world.set(function=0, direction="tx", mark=100, rate="100mbit")
        write()
        passed = world.until(channel.sent)
        sent = world.receiver.counts["np_cnp_sent"]
        assert world.receiver.counts["np_ecn_marked_roce_packets"] >= 64
        assert passed / 2 - 1 <= sent <= passed + 1

    def test_a_point_that_is_off_sends_nothing(self, world, channel, write):
        world.nodes[1].driver.must(Op.MODIFY_CONG_STATUS, priority=3, cong_protocol=NP, enable=0)
        world.set(function=0, direction="tx", mark=100)
        write(100)
        world.until(channel.sent)
        assert world.receiver.counts == {"np_ecn_marked_roce_packets": 1}

    def test_datagrams_with_a_mark_are_counted(self, world):
        channel = world.channel(QpType.UD)
        source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
        world.set(direction="tx", mark=100)
        channel.post_recv(target.sge())
        channel.send(source.sge(0, 100))
        world.until(channel.received)
        assert world.receiver.counts == {"np_ecn_marked_roce_packets": 1}


class TestReaction:
    def test_a_queue_that_grows_slows_its_sender_down(self, world, channel, write):
        """Without marks 64 KiB wait for the line at once; with them most of it does not."""

        def longest():
            found = 0
            link = world.ports[0].tx_link

            def look():
                nonlocal found
                found = max(found, link.about()["in_flight"])
                return bool(channel.sent())

            world.until(look, step=MS // 100)
            return found

        modify(world.nodes[0], RP, 1, 7, 10, clamp_tgt_rate=1, rpg_ai_rate=1, rpg_min_rate=10)
        world.set(function=0, direction="tx", rate="50mbit")
        write()
        unmarked = longest()
        world.set(function=0, direction="tx", rate="50mbit", ce_threshold="100us")
        for _ in range(8):
            write()
            longest()
        write()
        assert longest() < unmarked / 2
        assert world.sender.counts["rp_cnp_handled"]

    def test_the_rate_recovers(self, world, channel, write):
        world.set(function=0, direction="tx", mark=100)
        write(100)
        world.until(channel.sent)
        world.run(1)
        rate = limited(channel.sender, world.nodes[0])
        assert rate.rate < 60e9
        world.set()
        world.run(5)
        write(100)
        world.until(channel.sent)
        assert limited(channel.sender, world.nodes[0]) is None or world.sender.flows == 0

    def test_a_limited_flow_that_is_destroyed_is_none_any_more(self, world, channel, write):
        world.set(function=0, direction="tx", mark=100)
        write(100)
        world.until(channel.sent)
        world.run(1)
        assert world.sender.flows == 1
        world.nodes[0].driver.must(Op._2RST_QP, qpn=channel.sender.qpn)
        assert world.sender.flows == 0

    def test_a_flood_of_notifications_stops_nothing(self, world, channel, write):
        world.set(delay="1us")
        write(100)
        world.until(channel.sent)
        hca, peer = world.nodes[0].hca, world.nodes[1].hca
        receiver = peer.qps.get(channel.receiver.qpn)
        frame = peer.roce.notification(receiver.ctx.primary_address_path, channel.sender.qpn)
        for _ in range(2000):
            world.clock.ns += 5000
            world.clock.budget.begin()
            arrive(hca, Frame(frame))
        assert world.sender.counts["rp_cnp_handled"] == 2000
        assert limited(channel.sender, world.nodes[0]).rate == 1_000_000
        target = write(2000)
        world.until(channel.sent)
        assert target.read(0, 2000) == TEXT[:2000]

    @pytest.mark.hostile
    def test_notifications_after_long_pauses_share_the_rounds(self, world, channel, write):
        """Each makes up for the steps of time since the one before."""
        world.set(delay="1us")
        write(100)
        world.until(channel.sent)
        hca, peer = world.nodes[0].hca, world.nodes[1].hca
        receiver = peer.qps.get(channel.receiver.qpn)
        frame = peer.roce.notification(receiver.ctx.primary_address_path, channel.sender.qpn)
        hca.budget.begin()
        for _ in range(64):
            world.clock.ns += 1000 * MS
            arrive(hca, Frame(frame))
        assert POLL_BUDGET < hca.budget.steps <= POLL_BUDGET + 256
        world.nodes[0].settle()
        assert world.sender.counts["rp_cnp_handled"] == 64

    @pytest.mark.parametrize("wrong", ["off", "not sending yet"])
    def test_a_notification_that_nobody_obeys(self, world, channel, wrong):
        node, peer = world.nodes
        qp = node.hca.qps.get(channel.sender.qpn)
        path = peer.hca.qps.get(channel.receiver.qpn).ctx.primary_address_path
        if wrong == "off":
            off = {"priority": int(qp.ctx.primary_address_path.eth_prio), "cong_protocol": RP}
            node.driver.must(Op.MODIFY_CONG_STATUS, enable=0, **off)
        else:
            qp.state = QpState.RTR
        arrive(node.hca, Frame(peer.hca.roce.notification(path, qp.handle)))
        assert world.sender.counts == {"rp_cnp_ignored": 1}
        assert world.sender.flows == 0

    @pytest.mark.parametrize("wrong", ["peer", "queue pair", "state"])
    def test_a_notification_of_a_stranger_is_ignored(self, world, channel, wrong):
        hca, peer = world.nodes[0].hca, world.nodes[1].hca
        path, qpn = peer.qps.get(channel.receiver.qpn).ctx.primary_address_path, channel.sender.qpn
        if wrong == "peer":
            path.src_addr_index = 0
            path.rgid_rip = world.nodes[0].gids[0]
        elif wrong == "queue pair":
            qpn += 100
        else:
            world.nodes[0].driver.must(Op._2ERR_QP, qpn=qpn)
            assert hca.qps.get(qpn).state is QpState.ERR
        arrive(hca, Frame(peer.roce.notification(path, qpn)))
        assert world.sender.counts == {"rp_cnp_ignored": 1}
        assert world.sender.flows == 0


def modify(node, protocol, *bits, **values):
    data = bytes(LAYOUTS[protocol].new(**values).buf)
    return node.driver.must(
        Op.MODIFY_CONG_PARAMS, cong_protocol=protocol, field_select=sum(1 << bit for bit in bits),
        congestion_parameters=data,
    )  # fmt: skip


def query(node, protocol):
    answer = node.driver.must(Op.QUERY_CONG_PARAMS, cong_protocol=protocol)
    return LAYOUTS[protocol].view(bytearray(answer.congestion_parameters))


class TestCommands:
    @pytest.mark.parametrize(
        ("protocol", "bit", "name", "value"),
        [
            (RP, 1, "clamp_tgt_rate", 1), (RP, 3, "rpg_time_reset", 17),
            (RP, 7, "rpg_ai_rate", 19), (RP, 16, "rpg_gd", 3), (RP, 12, "dce_tcp_g", 64),
            (NP, 2, "min_time_between_cnps", 50), (NP, 3, "cnp_dscp", 26),
        ],
    )  # fmt: skip
    def test_a_selected_parameter_changes(self, world, protocol, bit, name, value):
        before = query(world.nodes[0], protocol)
        assert getattr(before, name) != value
        modify(world.nodes[0], protocol, bit, **{name: value})
        after = query(world.nodes[0], protocol)
        assert getattr(after, name) == value
        same = {field.name for field in LAYOUTS[protocol].fields} - {name}
        assert all(getattr(before, one) == getattr(after, one) for one in same)

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"cong_protocol": 0}, Status.BAD_PARAM_ERR),
            ({"cong_protocol": 3}, Status.BAD_PARAM_ERR),
            (
                {
                    "cong_protocol": RP, "field_select": 1 << 12,
                    "congestion_parameters": bytes(LAYOUTS[RP].new(dce_tcp_g=1024).buf),
                },
                Status.BAD_PARAM_ERR,
            ),
        ],
        ids=["802.1Qau", "general", "out of range"],
    )  # fmt: skip
    def test_what_is_refused(self, world, fields, status):
        node = world.nodes[0]
        before = query(node, RP).buf
        assert node.driver.command(Op.MODIFY_CONG_PARAMS, **fields).status == status
        assert query(node, RP).buf == before

    def test_status_by_priority(self, world):
        driver = world.nodes[0].driver
        driver.must(Op.MODIFY_CONG_STATUS, priority=5, cong_protocol=NP, enable=0)
        enabled = [
            driver.must(Op.QUERY_CONG_STATUS, priority=number, cong_protocol=NP).enable
            for number in range(8)
        ]
        assert enabled == [1, 1, 1, 1, 1, 0, 1, 1]
        assert driver.must(Op.QUERY_CONG_STATUS, priority=5, cong_protocol=RP).enable
        refused = driver.command(Op.QUERY_CONG_STATUS, priority=8, cong_protocol=NP)
        assert refused.status == Status.BAD_PARAM_ERR

    def test_statistics(self, world):
        world.sender.counts.update(rp_cnp_handled=(3 << 32) + 7, np_cnp_sent=5)
        driver = world.nodes[0].driver
        told = driver.must(Op.QUERY_CONG_STATISTICS, clear=1)
        assert (told.rp_cnp_handled_high, told.rp_cnp_handled_low) == (3, 7)
        assert (told.np_cnp_sent_high, told.np_cnp_sent_low) == (0, 5)
        assert driver.must(Op.QUERY_CONG_STATISTICS).rp_cnp_handled_low == 0


def test_an_infiniband_port_has_no_congestion_control(driver, refused):
    refused(Status.BAD_OP_ERR, Op.QUERY_CONG_PARAMS, cong_protocol=RP)
    refused(Status.BAD_OP_ERR, Op.QUERY_CONG_STATISTICS)


class TestWithoutCapability:
    @pytest.fixture
    def model(self, limits):
        full = LINKS["connectx6dx"][PortType.ETH]
        return replace(full, general={**full.general, **limits})

    @pytest.mark.parametrize("limits", [{"cc_query_allowed": 0}])
    def test_nothing_is_told(self, driver, refused):
        for op in (Op.QUERY_CONG_PARAMS, Op.QUERY_CONG_STATUS):
            refused(Status.BAD_OP_ERR, op, cong_protocol=RP)
        refused(Status.BAD_OP_ERR, Op.QUERY_CONG_STATISTICS, clear=1)
        driver.must(Op.MODIFY_CONG_STATUS, cong_protocol=RP, enable=1)

    @pytest.mark.parametrize("limits", [{"cc_modify_allowed": 0}])
    def test_nothing_is_changed(self, driver, refused):
        for op in (Op.MODIFY_CONG_PARAMS, Op.MODIFY_CONG_STATUS):
            refused(Status.BAD_OP_ERR, op, cong_protocol=RP)
        driver.must(Op.QUERY_CONG_STATUS, cong_protocol=RP)


def test_a_mark_does_not_change_the_invariant_crc(world, channel, write):
    world.set(delay="1us")
    write(100)
    world.until(channel.sent)
    for frame in world.frames:
        marked = with_mark(frame)
        assert marked != frame
        assert parse(marked, network_header(marked)).is_marked
