"""Datagrams: headers, keys, groups, and what is dropped in silence (IBTA 9.8.3)."""

import pytest

from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.verbs.channels import GRH_BYTES, QKEY, Channel
from emu.driver.verbs.gsi import joined
from emu.driver.world.cable import set_link
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, av
from layouts.wire.mads import MAD_BYTES

UD = QpType.UD
GRH = 1 << 30
GROUP = bytes.fromhex("ff12401bffff00000000000000000077")
MULTICAST = {"dqp_dct": 0xFFFFFF, "rlid": 0xC001, "grh_gid_fl": GRH, "rgid": GROUP}
TEXT = b"datagram" * 8


@pytest.fixture
def channel(ends):
    return Channel(UD, *ends)


@pytest.fixture
def target(channel):
    region = channel.right.region(4096)
    region.write(bytes([0xEE]) * 4096)
    return region


def arrives(channel, target, **to):
    """Whether a datagram with these fields in its address vector is received."""
    channel.post_recv(target.sge())
    channel.send(TEXT, to=to)
    channel.settle()
    assert len(channel.sent()) == 1
    return bool(channel.received())


def test_receiver_learns_where_it_came_from(channel, target):
    channel.post_recv(target.sge())
    channel.send(TEXT, to={"stat_rate_sl": 5})
    channel.settle()
    (received,) = channel.received()
    assert received.slid == channel.left.lid
    assert received.flags_rqpn & 0xFFFFFF == channel.sender.qpn
    assert received.flags_rqpn >> 24 & 0xF == 5
    assert received.flags_rqpn >> 28 == 0
    assert received.byte_cnt == GRH_BYTES + len(TEXT)
    assert target.read(GRH_BYTES, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("length", "imm", "following"), [(60, None, 60), (61, None, 64), (0, 5, 4), (63, 5, 68)]
)
def test_global_route_header(channel, target, length, imm, following):
    """Forty bytes in front of the payload (IBTA 8.3), and the CQE says that they mean something."""
    gid = channel.right.hca.port.gid(0)
    channel.post_recv(target.sge())
    to = {"grh_gid_fl": GRH | 0x54321, "tclass": 0x9A, "hop_limit": 7, "rgid": gid}
    channel.send(TEXT[:length], to=to, imm=imm)
    channel.settle()
    (received,) = channel.received()
    assert received.flags_rqpn >> 28 == 1
    header = target.read(0, GRH_BYTES)
    assert int.from_bytes(header[:4], "big") == 6 << 28 | 0x9A << 20 | 0x54321
    assert int.from_bytes(header[4:6], "big") == 20 + following + 4
    assert header[6:8] == bytes([0x1B, 7])
    assert header[8:24] == channel.left.hca.port.gid(0)
    assert header[24:] == gid


def test_base_address_vector_is_sixteen_bytes(channel, target):
    """Without the extended bit the data follow at once."""
    vector = av.new(key=QKEY << 32, dqp_dct=channel.receiver.qpn, rlid=channel.right.lid)
    channel.post_recv(target.sge())
    source = channel.left.region(64)
    source.write(TEXT[:64])
    segments = (bytes(vector.buf)[:16], DATA.pack(*source.sge(0, 8)))
    channel.sender.post(Opcode.SEND, *segments)
    channel.settle()
    assert channel.received()
    assert target.read(GRH_BYTES, 8) == TEXT[:8]


@pytest.mark.parametrize("segments", [[], [bytes(8) + b"\x80" + bytes(7)], [bytes(40)[:32]]])
def test_address_vector_that_leaves_the_request(channel, segments):
    segments = [segment[:8] + b"\x80" + segment[9:] for segment in segments]
    channel.sender.post(Opcode.SEND, *segments)
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
    assert channel.sender.state == QpState.SQER


# Keys.


@pytest.mark.parametrize("qkey", [0, QKEY ^ 1, 0x7FFF_FFFF])
def test_wrong_queue_key(channel, target, qkey):
    assert not arrives(channel, target, key=qkey << 32)
    assert target.read() == bytes([0xEE]) * 4096
    assert channel.receiver.state == QpState.RTS


def test_privileged_queue_key_is_the_senders_own(channel, target):
    """With its top bit set the key of the request does not count (IBTA 10.2.5)."""
    assert arrives(channel, target, key=0x8000_0000 << 32)


@pytest.mark.parametrize(
    ("mine", "its", "meet"),
    [
        (0xFFFF, 0xFFFF, True), (0x8001, 0x8001, True), (0x8001, 0x0001, True),
        (0x0001, 0x8001, True), (0x0001, 0x0001, False), (0x8001, 0x8002, False),
        (0xFFFF, 0x8001, False),
    ],
)  # fmt: skip
def test_partition_keys(channel, target, mine, its, meet):
    """The numbers must be equal, and one of the two a full member (IBTA 10.9.1.1)."""
    if channel.left is channel.right:
        pytest.skip("one port has one table")
    channel.left.hca.port.pkeys, channel.right.hca.port.pkeys = (mine,), (its,)
    assert arrives(channel, target) == meet


# Whom nobody hears.


@pytest.mark.parametrize("to", [{"rlid": 0x55}, {"dqp_dct": 0x7777}, {"rlid": 0}])
def test_nobody_there(channel, target, to):
    assert not arrives(channel, target, **to)


@pytest.mark.parametrize("state", ["reset", "error"])
def test_receiver_that_does_not_listen(channel, target, state):
    getattr(channel.receiver, f"to_{state}")()
    channel.send(TEXT)
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read() == bytes([0xEE]) * 4096


def test_receiver_that_is_not_ready_yet(channel, target):
    """In INIT requests may be posted, and wait there (IBTA 10.3.1.2)."""
    channel.receiver.to_reset()
    channel.receiver.init(q_key=QKEY, mtu=5, log_msg_max=12)
    assert not arrives(channel, target)
    assert target.read() == bytes([0xEE]) * 4096
    channel.receiver.to_rtr(mtu=0, log_msg_max=0)
    assert arrives(channel, target)


def test_datagram_as_long_as_a_mad(channel, target):
    """Only those to QP0 and QP1 are management datagrams."""
    channel.post_recv(target.sge())
    channel.send(b"m" * MAD_BYTES)
    channel.settle()
    assert [found.byte_cnt for found in channel.received()] == [GRH_BYTES + MAD_BYTES]
    assert target.read(GRH_BYTES, MAD_BYTES) == b"m" * MAD_BYTES


@pytest.mark.hostile
def test_datagram_that_does_not_fit_is_dropped(channel, target):
    """It takes no request and stops nobody; the request is there for the next one (class D)."""
    channel.post_recv(target.sge(0, GRH_BYTES + 8))
    channel.send(TEXT)
    channel.settle()
    assert len(channel.sent()) == 1
    assert not channel.received()
    channel.send(TEXT[:8])
    channel.settle()
    (received,) = channel.received()
    assert received.byte_cnt == GRH_BYTES + 8
    assert target.read(GRH_BYTES, 8) == TEXT[:8]


def test_connected_queue_pair_takes_no_datagram(ends):
    channel, other = Channel(UD, *ends), Channel(QpType.RC, *ends)
    other.post_recv(other.right.region(4096).sge())
    channel.send(TEXT, to={"dqp_dct": other.receiver.qpn})
    channel.settle()
    assert other.received() == []
    assert other.receiver.state == QpState.RTS


@pytest.mark.parametrize("down", ["left", "right"])
def test_port_that_is_down(channel, target, down):
    """The sender's request is done all the same."""
    getattr(channel, down).hca.port.set_link(up=False)
    assert not arrives(channel, target)


def test_sender_in_error_goes_on_receiving(channel, target, ends):
    """SQER concerns sends only (IBTA 10.3.1.6); what is posted meanwhile is flushed."""
    back = Channel(UD, ends[1], ends[0])
    channel.sender.post(0xFF)
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
    assert channel.sender.state == QpState.SQER
    channel.send(TEXT)
    channel.settle()
    (flushed,) = channel.sender.cq.drain()
    assert flushed.syndrome == CqeSyndrome.WR_FLUSH_ERR
    channel.sender.post_recv(channel.left.region(4096).sge())
    to = {"dqp_dct": channel.sender.qpn, "rlid": channel.left.lid, "key": QKEY << 32}
    back.sender.datagram(to, TEXT)
    back.settle()
    assert [found.opcode for found in channel.sender.cq.drain()] == [CqeOpcode.RESP_SEND]


def test_way_back_from_the_error_state(channel, target):
    channel.sender.post(0xFF)
    channel.settle()
    channel.left.driver.must(Op.SQERR2RTS_QP, qpn=channel.sender.qpn)
    channel.sender.cq.drain()
    assert arrives(channel, target)


# Groups.


def join(node, qp, gid=GROUP):
    """Attach the queue pair, and have the port join where there is an administrator to ask.

    The first group after the broadcast group has the LID of ``MULTICAST``.
    """
    if isinstance(node.hca.wire, LocalFabric):
        joined(node, gid)
    node.driver.must(Op.ATTACH_TO_MCG, qpn=qp.qpn, multicast_gid=gid)


def test_everyone_in_the_group_gets_a_copy(ends):
    channels = [Channel(UD, *ends) for _ in range(3)]
    members, outsider = channels[:2], channels[2]
    regions = [channel.right.region(4096) for channel in channels]
    for channel, region in zip(channels, regions):
        channel.post_recv(region.sge())
    for channel in members:
        join(channel.right, channel.receiver)
    outsider.send(TEXT, to=MULTICAST)
    outsider.settle()
    assert [len(channel.received()) for channel in channels] == [1, 1, 0]
    for region in regions[:2]:
        assert region.read(GRH_BYTES, len(TEXT)) == TEXT
        assert region.read(24, 16) == GROUP


def test_group_that_was_left(channel, target):
    join(channel.right, channel.receiver)
    assert arrives(channel, target, **MULTICAST)
    channel.right.driver.must(Op.DETACH_FROM_MCG, qpn=channel.receiver.qpn, multicast_gid=GROUP)
    assert not arrives(channel, target, **MULTICAST)


def test_another_group(channel, target):
    join(channel.right, channel.receiver, GROUP[:-1] + b"\x01")
    assert not arrives(channel, target, **MULTICAST)


def test_one_member_without_a_request_does_not_hurt_the_others(ends):
    first, second = (Channel(UD, *ends) for _ in range(2))
    for channel in (first, second):
        join(channel.right, channel.receiver)
    second.post_recv(second.right.region(4096).sge())
    first.send(TEXT, to=MULTICAST)
    first.settle()
    assert (len(first.received()), len(second.received())) == (0, 1)


@pytest.mark.parametrize("blocked", [0, 1])
def test_sender_in_its_own_group(node, blocked):
    """It hears itself, unless the queue pair was made with block_lb_mc."""
    qp = node.queue_pair(UD, block_lb_mc=blocked)
    qp.init(q_key=QKEY, mtu=5, log_msg_max=12)
    qp.to_rtr(mtu=0, log_msg_max=0)
    qp.to_rts()
    other = Channel(UD, node, node)
    for member in (qp, other.receiver):
        join(node, member)
    qp.post_recv(node.region(4096).sge())
    other.post_recv(node.region(4096).sge())
    qp.datagram({"key": QKEY << 32} | MULTICAST, TEXT)
    node.settle()
    opcodes = [found.opcode for found in qp.cq.drain()]
    assert opcodes.count(CqeOpcode.RESP_SEND) == 1 - blocked
    assert len(other.received()) == 1


def test_events_of_datagrams(channel, target):
    """Nothing that arrives over the wire is worth an event."""
    channel.send(TEXT, to={"key": 0})
    channel.send(TEXT, to={"rlid": 0x55})
    channel.settle()
    assert channel.right.events() == []
    channel.post_recv((8, 0xBAD << 8, 0))
    channel.send(TEXT)
    channel.settle()
    assert EventType.WQ_CATAS_ERROR not in dict(channel.right.events())
    assert channel.receive_failure() == CqeSyndrome.LOCAL_PROT_ERR


class TestWaiting:
    """Datagrams that come when the round has done enough."""

    @pytest.fixture
    def channel(self, packet_pair):
        return Channel(UD, *packet_pair)

    @pytest.fixture
    def frame(self, channel, packet_wire):
        """A datagram on its way."""
        channel.send(TEXT)
        channel.left.function.run()
        return packet_wire.frames.popleft()

    @pytest.fixture
    def come(self, channel, target, frame, packet_wire):
        """Lets the datagram come so many times when nothing more is done in this round."""
        channel.post_recv(target.sge())

        def arrive(times=1):
            budget = channel.right.hca.budget
            budget.steps = budget.limit + 1
            for _ in range(times):
                packet_wire.arrive(frame)

        return arrive

    def test_it_comes_in_the_next_round(self, channel, come):
        come()
        assert channel.received() == []
        channel.right.hca.budget.begin()
        assert len(channel.received()) == 1

    def test_link_goes_down_meanwhile(self, channel, come):
        come()
        set_link(channel.right.hca, up=False)
        channel.right.hca.budget.begin()
        assert channel.received() == []

    def test_link_was_down(self, channel, come):
        """It is gone, and does not come when the link is up again."""
        set_link(channel.right.hca, up=False)
        come()
        set_link(channel.right.hca, up=True)
        channel.right.hca.budget.begin()
        assert channel.received() == []

    def test_more_than_may_wait_are_counted(self, channel, come):
        come(MAX_WAITING + 3)
        assert channel.right.hca.link.dropped["backlog is full"] == 3
