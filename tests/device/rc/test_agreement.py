"""Who may do without packets, and when that is asked again (``emu.device.engine.rc.agreement``)."""

import pytest

from emu.device.state.hca import HcaOptions
from emu.driver.nodes.roce import clear_address, on_one_segment, set_address
from emu.driver.nodes.two_nodes import GUID
from emu.driver.verbs.channels import QKEY, Channel
from emu.driver.verbs.gsi import Gsi
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType
from layouts.wire.mads import Method, MgmtClass, SmpAttr, port_info, smp

RETRY = CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
SHORT = {"ack_timeout": 8, "retry_count": 1}
SECOND = 1_000_000_000


@pytest.fixture
def options():
    return HcaOptions(guid=GUID, pkeys=(0x8001,))


@pytest.fixture
def segment(clock):
    return on_one_segment(clock)


def sends(channel, clock):
    """The syndrome of a message, 0 when it has arrived."""
    channel.post_recv(channel.right.region(4096).sge())
    channel.send(b"data")
    found = []
    for _ in range(100):
        channel.settle()
        if found := channel.sender.cq.drain():
            break
        clock.advance(SECOND // 100)
    (completion,) = found
    assert len(channel.recv_cq.drain()) == (completion.syndrome == 0)
    return completion.syndrome


def is_direct(qp):
    """Whether nothing of it has been a packet."""
    return qp.node.hca.qps.get(qp.qpn).connection is None


@pytest.mark.parametrize("service", [QpType.RC, QpType.UC, QpType.XRC])
def test_right_messages_need_no_packets(ends, service):
    channel = Channel(service, *ends)
    channel.post_recv(channel.right.region(4096).sge())
    channel.send(b"data")
    channel.settle()
    assert channel.sent()
    is_outside = channel.left.hca.wire.node(channel.right.lid) is None
    assert is_direct(channel.sender) != is_outside
    assert is_direct(channel.receiver) != is_outside


def test_a_peer_that_comes_later_is_found_by_packets(node, clock):
    sender, receiver = node.queue_pair(), node.queue_pair()
    sender.init().to_rtr(lid=node.lid, qpn=receiver.qpn).to_rts(ack_timeout=12)
    receiver.init()
    sender.send(b"data")
    node.settle()
    receiver.to_rtr(lid=node.lid, qpn=sender.qpn).to_rts()
    receiver.post_recv(node.region(4096).sge())
    for _ in range(100):
        clock.advance(SECOND // 1000)
        node.settle()
    assert [found.syndrome for found in sender.cq.drain()] == [0]
    assert len(receiver.cq.drain()) == 1
    assert not is_direct(sender)


def connect_anew(channel, pkey_index=0, **rtr):
    """The receiver is connected once more, where the sender has come to."""
    psn = channel.left.driver.must(Op.QUERY_QP, qpn=channel.sender.qpn).qpc.next_send_psn
    qp = channel.receiver
    qp.to_reset()
    qp.init(primary_address_path={"pkey_index": pkey_index})
    qp.to_rtr(channel.left.lid, channel.sender.qpn, psn, **rtr)


@pytest.mark.parametrize(("pkey_index", "end"), [(0, 0), (1, RETRY)])
def test_a_modified_queue_pair_is_looked_at_again(node, clock, pkey_index, end):
    channel = Channel(QpType.RC, node, node, **SHORT)
    assert sends(channel, clock) == 0
    connect_anew(channel, pkey_index)
    assert sends(channel, clock) == end
    assert is_direct(channel.sender) == (not end)


def test_fewer_reads_are_looked_at_again(node):
    channel = Channel(QpType.RC, node, node)
    region = node.region(4096)
    channel.read((region.key, region.va), region.sge(0, 64))
    node.settle()
    assert channel.sent()
    assert is_direct(channel.sender)
    connect_anew(channel, log_rra_max=0)
    channel.write((region.key, region.va), region.sge(0, 64))
    node.settle()
    assert is_direct(channel.sender)
    channel.read((region.key, region.va), region.sge(0, 64))
    node.settle()
    assert not is_direct(channel.sender)


@pytest.mark.parametrize("side", [0, 1])
def test_a_gid_that_has_gone(segment, clock, side):
    channel = Channel(QpType.RC, *segment, **SHORT)
    assert sends(channel, clock) == 0
    node = segment[side]
    assert not clear_address(node.driver, node.index).status
    assert sends(channel, clock) == RETRY


def test_a_gid_that_is_put_again_is_the_same(segment, clock):
    channel = Channel(QpType.RC, *segment, **SHORT)
    assert sends(channel, clock) == 0
    node = segment[0]
    assert not set_address(node.driver, node.index, node.gids[node.index], node.mac).status
    assert sends(channel, clock) == 0
    assert is_direct(channel.sender)


def test_a_gid_that_has_another_place(segment, clock):
    """It is still one of the port's, but not the one that the queue pair has for its own."""
    channel = Channel(QpType.RC, *segment, **SHORT)
    assert sends(channel, clock) == 0
    right = segment[1]
    for at, gid in ((0, right.gids[1]), (1, right.gids[0])):
        assert not set_address(right.driver, at, gid, right.mac).status
    assert sends(channel, clock) == RETRY
    assert right.hca.link.dropped["not to the queue pair's own GID"]


@pytest.mark.parametrize("side", [0, 1])
def test_an_interface_with_a_smaller_mtu(segment, clock, side):
    channel = Channel(QpType.RC, *segment, mtu=5, **SHORT)
    source, target = segment[0].region(4096), segment[1].region(4096)
    assert sends(channel, clock) == 0
    assert is_direct(channel.sender)
    segment[side].hca.eth.admin_mtu = 1522
    channel.write((target.key, target.va), source.sge(0, 4096))
    for _ in range(100):
        channel.settle()
        clock.advance(SECOND // 100)
    assert channel.failure() == RETRY


def test_partitions_that_have_changed(pair, clock):
    channel = Channel(QpType.RC, *pair, **SHORT)
    assert sends(channel, clock) == 0
    pair[1].hca.ib.pkeys = (0x8001,)
    assert sends(channel, clock) == RETRY


def violations(node):
    """What command and PortInfo say of the P_Keys and the Q_Keys."""
    context = node.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    mad = smp.new(
        base_version=1, mgmt_class=MgmtClass.SUBN_LID_ROUTED, class_version=1, method=Method.GET,
        attr_id=SmpAttr.PORT_INFO,
    )  # fmt: skip
    answer = node.driver.must(
        Op.MAD_IFC, remote_lid=node.lid, port=1, mad=bytes(mad)
    ).response_mad_packet
    info = port_info.view(smp.view(bytearray(answer)).data)
    asked = context.pkey_violation_counter, context.qkey_violation_counter
    assert asked == (info.pkey_violations, info.qkey_violations)
    return asked


@pytest.fixture
def datagrams(node):
    return Channel(QpType.UD, node, node)


def test_wrong_qkeys_are_counted(node, datagrams):
    for _ in range(3):
        datagrams.send(b"data", to={"key": (QKEY + 1) << 32})
    node.settle()
    assert violations(node) == (0, 3)


def test_wrong_pkeys_are_counted(node, datagrams, monkeypatch):
    node.hca.ib.pkeys = (0x0003,)
    datagrams.send(b"data")
    node.settle()
    assert violations(node) == (1, 0)


def test_the_counters_stay_at_their_end(node, datagrams):
    node.hca.ib.qkey_violations = 0xFFFE
    for _ in range(3):
        datagrams.send(b"data", to={"key": 1})
    node.settle()
    assert violations(node) == (0, 0xFFFF)


def test_what_is_lost_is_told(pair, clock):
    """By the reasons of dropped packets."""
    channel = Channel(QpType.RC, *pair, **SHORT, path={"grh": 1, "rgid_rip": bytes(16)})
    assert sends(channel, clock) == RETRY
    assert pair[1].hca.link.dropped["not to the queue pair's own GID"]


def test_management_with_a_global_route(pair):
    """A MAD to the peer's QP1 with the peer's GID arrives, with another one it does not."""
    mine, its = (Gsi(node) for node in pair)
    gid = pair[1].hca.ib.gid(0)
    for rgid, count in ((gid, 1), (gid[:-1] + b"\x7f", 0)):
        mine.send(bytes(256), pair[1].lid, grh_gid_fl=1 << 30, rgid=rgid)
        assert len(its.take()) == count


def test_a_peer_that_stops_by_itself_takes_no_message(pair, clock):
    """No command has changed it since the two have agreed."""
    channel = Channel(QpType.RC, *pair, **SHORT)
    region = channel.right.region(64)
    there = region.key, region.va
    channel.write(there, b"agreed")
    channel.settle()
    assert channel.sent()
    channel.receiver.write((0xBAD00, 0), (8, 0xBAD00, 0))
    channel.settle()
    channel.write(there, b"stopped")
    for _ in range(100):
        channel.settle()
        clock.advance(SECOND // 100)
    assert channel.failure() == RETRY
    assert region.read(0, 7) == b"agreed\0"


def test_sender_without_a_link(pair, clock):
    channel = Channel(QpType.RC, *pair, ack_timeout=8)
    region = channel.right.region(64)
    set_link(pair[0].hca, up=False)
    channel.write((region.key, region.va), b"data")
    channel.settle()
    assert not any(region.read())
    set_link(pair[0].hca, up=True)
    channel.until_sent(clock, 1, SECOND)
    assert region.read(0, 4) == b"data"


@pytest.mark.parametrize("layer", ["pair", "segment"])
@pytest.mark.parametrize("whose", [0, 1], ids=["sender", "receiver"])
def test_link_is_lost_between_messages(request, clock, layer, whose):
    nodes = request.getfixturevalue(layer)
    channel = Channel(QpType.RC, *nodes, ack_timeout=8)
    region = channel.right.region(64)
    channel.write((region.key, region.va), b"data")
    channel.settle()
    assert channel.sent()
    set_link(nodes[whose].hca, up=False)
    channel.write((region.key, region.va), b"lost")
    channel.settle()
    assert region.read(0, 4) == b"data"
    set_link(nodes[whose].hca, up=True)
    channel.until_sent(clock, 1, SECOND)
    assert region.read(0, 4) == b"lost"
    assert is_direct(channel.sender)


def test_unreliable_messages_begin_with_any_psn(pair):
    """They need no packets for that."""
    one, two = (node.queue_pair(QpType.UC) for node in pair)
    for qp, peer, psn in ((one, two, 5), (two, one, 0x500)):
        qp.init().to_rtr(peer.node.lid, peer.qpn, psn).to_rts(psn)
    region = pair[1].region(64)
    one.write((region.key, region.va), b"data")
    pair[0].settle()
    assert region.read(0, 4) == b"data"
    assert is_direct(one)
