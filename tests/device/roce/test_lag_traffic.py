"""RoCE of a LAG's master: by which port it leaves, and what comes by the other one."""

import pytest
from helpers.device.boards import BOARD_GUID, Bonded

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.framing import Framer, RoceHeaders
from emu.device.port.packet import OPS, Packet
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.sniffer import Sniffer
from emu.driver.nodes.roce import set_address
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.gsi import Gsi
from emu.driver.world.cable import set_link
from emu.server.net.eth.switch import SegmentSwitch
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.enums.vport import VportAdminState
from layouts.wire.bth import PacketKind, Service
from layouts.wire.mads import MgmtClass, pma_mad

TEXT = bytes(range(256)) * 20
SECOND_NS = 1_000_000_000
PORT_TYPES = [QpType.RC, QpType.UC, QpType.XRC]


@pytest.fixture
def bonded(clock):
    found = Bonded(clock)
    found.make_lag()
    return found


def write(channel, text=TEXT):
    """Write a text to the right and see it arrive there, with one completion."""
    source, target = channel.left.region(len(text)), channel.right.region(len(text))
    source.write(text)
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert len(channel.sent()) == 1
    assert target.read(0, len(text)) == text


def moved(bonded, channel, run=write):
    """How many packets of RoCE each port has sent and received meanwhile."""
    before = bonded.passed()
    run(channel)
    return [tuple(now - then for now, then in zip(*ways)) for ways in zip(bonded.passed(), before)]


@pytest.mark.parametrize("service", PORT_TYPES, ids=lambda st: st.name)
@pytest.mark.parametrize("port", [1, 2])
def test_an_affinity_chooses_the_port(bonded, service, port):
    channel = Channel(service, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, port)
    ways = moved(bonded, channel)
    assert ways[port - 1][0] >= len(TEXT) // 4096
    assert ways[2 - port][0] == 0
    sent = bonded.master.hca.nic_vport.totals()[0].rdma_unicast.packets
    assert sent == ways[0][0] + ways[1][0], "the vPort's own counters have both"


@pytest.mark.parametrize("port", [1, 2])
def test_a_sniffer_sees_both_ports(bonded, port):
    """There is one RDMA device for both."""
    channel, back = (
        Channel(QpType.RC, *ends)
        for ends in ((bonded.master, bonded.peer), (bonded.peer, bonded.master))
    )
    for qp in (channel.sender, back.receiver):
        bonded.give_affinity(qp, port)
    sniffer = Sniffer(bonded.master)
    for each in (channel, back):
        write(each)
        frames = [frame for frame in sniffer.frames() if len(frame) > 500]
        assert len(frames) >= len(TEXT) // 4096


def test_the_map_moves_traffic(bonded):
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, 1)
    assert moved(bonded, channel)[1][0] == 0
    bonded.modify_lag(2, 2)
    ways = moved(bonded, channel)
    assert ways[0][0] == 0
    assert ways[1][0] > 0
    bonded.modify_lag(1, 1)
    assert moved(bonded, channel)[1][0] == 0


def test_queue_pairs_without_an_affinity_share_the_ports(bonded):
    channels = [Channel(QpType.RC, bonded.master, bonded.peer) for _ in range(2)]
    ways = [moved(bonded, channel) for channel in channels]
    assert sorted(way[0][0] > 0 for way in ways) == [False, True]


@pytest.mark.parametrize("port", [1, 2])
def test_traffic_goes_on_while_a_port_is_down(bonded, port):
    """Between the fall of the link and the driver's new map packets are lost, and repeated."""
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    back = Channel(QpType.RC, bonded.peer, bonded.master)
    for each in (channel.sender, back.receiver):
        bonded.give_affinity(each, port)
    set_link(bonded.functions[port - 1].hca, up=False)
    left = 3 - port
    bonded.modify_lag(left, left)
    for each in (channel, back):
        ways = moved(bonded, each)
        assert ways[port - 1] == (0, 0)
        assert min(ways[left - 1]) > 0
    set_link(bonded.functions[port - 1].hca, up=True)
    bonded.modify_lag(1, 2)
    assert moved(bonded, channel)[port - 1][0] > 0


def test_what_is_lost_before_the_map_changes_is_repeated(bonded, clock):
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, 2)
    set_link(bonded.functions[1].hca, up=False)
    source, target = channel.left.region(len(TEXT)), channel.right.region(len(TEXT))
    source.write(TEXT)
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert bonded.master.hca.roce.dropped["the other port is down"]
    bonded.modify_lag(1, 1)
    clock.advance(SECOND_NS)
    channel.settle()
    assert target.read(0, len(TEXT)) == TEXT


def test_with_both_ports_down_nothing_leaves_and_one_is_enough(bonded):
    for function in bonded.functions[:2]:
        set_link(function.hca, up=False)
    assert not bonded.master.hca.link.is_up
    set_link(bonded.functions[1].hca, up=True)
    assert bonded.master.hca.link.is_up
    assert not bonded.master.hca.nic_vport.is_up


def frame_for(bonded, channel, payload=b"evil"):
    """A WRITE that the peer could send to the receiver on the master."""
    region = bonded.master.region(64)
    packet = Packet().of(
        OPS[Service.RC, PacketKind.WRITE, True, True, None], channel.receiver.qpn, 0x10
    )
    packet.va, packet.rkey, packet.length = region.va, region.key, len(payload)
    master, peer = bonded.master, bonded.peer
    headers = RoceHeaders(dmac=master.mac, smac=peer.mac, sgid=peer.gids[1], dgid=master.gids[1])
    return Framer(headers, 0xFFFF).frame(packet, [payload], len(payload)), region


def deliver(bonded, frame, port=2):
    bonded.functions[port - 1].hca.switch.receive(Frame(frame))


@pytest.mark.parametrize("port", [1, 2])
def test_what_comes_for_its_gids_is_the_masters(bonded, port):
    channel = Channel(QpType.RC, bonded.peer, bonded.master)
    frame, region = frame_for(bonded, channel)
    deliver(bonded, frame, port)
    bonded.master.settle()
    assert region.read(0, 4) == b"evil"
    assert bonded.passed()[port - 1][1] == 1
    assert bonded.passed()[2 - port][1] == 0


@pytest.mark.hostile
@pytest.mark.parametrize(
    "how", ["no LAG of vPorts", "port down", "too long", "master gone", "the port's own GID"]
)
def test_what_is_not_the_masters(bonded, how, caplog):
    channel = Channel(QpType.RC, bonded.peer, bonded.master)
    frame, region = frame_for(bonded, channel)
    if how == "no LAG of vPorts":
        bonded.master.driver.must(Op.DESTROY_VPORT_LAG)
    elif how == "port down":
        set_link(bonded.functions[1].hca, up=False)
    elif how == "too long":
        bonded.functions[1].hca.eth.admin_mtu = len(frame) - 1
    elif how == "the port's own GID":
        master = bonded.master
        set_address(bonded.second.driver, 0, master.gids[1], master.mac)
    else:
        bonded.master.hca.health.fail()
        caplog.clear()
    deliver(bonded, frame)
    bonded.master.settle()
    assert region.read(0, 4) == bytes(4)


@pytest.mark.hostile
@pytest.mark.parametrize("how", ["reset", "DESTROY_VPORT_LAG", "TEARDOWN_HCA"])
def test_what_waits_for_the_master_ends_with_the_lag(bonded, how):
    """A frame is taken in the next round: no guest memory is written after that end."""
    channel = Channel(QpType.RC, bonded.peer, bonded.master)
    frame, region = frame_for(bonded, channel)
    deliver(bonded, frame)
    if how == "reset":
        bonded.functions[0].reset()
    else:
        driver = bonded.master.driver
        driver.bar.settle = bonded.functions[0].poll  # in the round in which the frame has arrived
        driver.must(Op[how])
    bonded.functions[0].hca.budget.begin()
    for function in bonded.functions:
        function.poll()
    bonded.master.memory.permit(True)
    assert region.read(0, 4) == bytes(4)


@pytest.mark.hostile
def test_the_second_function_may_go_and_come_back(bonded, clock):
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, 2)
    bonded.functions[1].reset()
    bonded.modify_lag(1, 1)
    assert moved(bonded, channel)[0][0] > 0
    frame, region = frame_for(bonded, Channel(QpType.RC, bonded.peer, bonded.master))
    deliver(bonded, frame)
    bonded.master.settle()
    assert region.read(0, 4) == b"evil", "the port is the board's"


def test_datagrams_too(bonded):
    channel = Channel(QpType.UD, bonded.master, bonded.peer)
    for port in (1, 2):
        bonded.give_affinity(channel.sender, port)
        target = bonded.peer.region(1024)
        channel.post_recv(target.sge())
        source = bonded.master.region(800)
        source.write(TEXT[:800])

        def send(channel, source=source):
            channel.send(source.sge())
            channel.settle()

        ways = moved(bonded, channel, send)
        assert (ways[port - 1][0], ways[2 - port][0]) == (1, 0)
        assert target.read(channel.header, 800) == TEXT[:800]


def test_the_function_reaches_itself(bonded):
    """Without the wire: it has looped them back."""
    channel = Channel(QpType.RC, bonded.master, bonded.master)
    for port in (1, 2):
        bonded.give_affinity(channel.sender, port)
        write(channel)


@pytest.mark.parametrize("down", [1, 2])
def test_the_function_reaches_itself_while_a_port_is_down(bonded, down):
    channel = Channel(QpType.RC, bonded.master, bonded.master)
    set_link(bonded.functions[down - 1].hca, up=False)
    bonded.modify_lag(3 - down, 3 - down)
    write(channel)


def test_the_switchs_manager_may_set_the_vport_down(bonded):
    assert bonded.master.hca.link.is_up
    bonded.master.hca.nic_vport.switch_state = VportAdminState.DOWN
    assert not bonded.master.hca.link.is_up


def test_after_the_lag_each_has_its_own_port_again(bonded):
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, 2)
    write(channel)
    for op in (Op.DESTROY_VPORT_LAG, Op.DESTROY_LAG):
        bonded.master.driver.must(op)
    ways = moved(bonded, channel)
    assert ways[1] == (0, 0)
    address, wire = (
        bonded.master.hca.qps.need(channel.sender.qpn).destination,
        bonded.master.hca.wire,
    )
    assert not wire.needs_packets(address, wire.node(address))


@pytest.mark.hostile
def test_what_waits_for_the_second_port_ends_with_the_lag(bonded):
    """A frame to this process leaves in the loop's next round, when the LAG is gone."""
    channel = Channel(QpType.RC, bonded.master, bonded.peer)
    bonded.give_affinity(channel.sender, 2)
    wire = bonded.master.hca.wire
    frame, _ = frame_for(bonded, Channel(QpType.RC, bonded.peer, bonded.master))
    assert wire.transmit(bonded.master.hca, bonded.peer.mac + frame[6:], channel.sender.qpn)
    bonded.board.end_lag_of(bonded.master.hca.vhca)
    bonded.master.settle()
    assert [way[0] for way in bonded.passed()] == [0, 0]
    assert bonded.master.hca.roce.dropped["the other port is down"] == 1


@pytest.mark.hostile
@pytest.mark.parametrize("crossed", [False, True])
def test_two_boards_back_to_back(clock, crossed):
    """Each packet that comes by a second port is taken in a later round, so calls do not nest."""
    first, second = SegmentSwitch(clock), SegmentSwitch(clock)
    one = Bonded(clock, [first, second, first])
    others = [second, first] if crossed else [first, second]
    two = Bonded(clock, [*others, second], BOARD_GUID + 0x20)
    for each in (one, two):
        each.make_lag()
    channel = Channel(QpType.RC, one.master, two.master)
    for mine in (1, 2):
        for its in (1, 2):
            one.give_affinity(channel.sender, mine)
            two.give_affinity(channel.receiver, its)
            source, target = one.master.region(len(TEXT) * 8), two.master.region(len(TEXT) * 8)
            source.write(TEXT * 8)
            channel.write((target.key, target.va), source.sge())
            for _ in range(40):
                one.master.settle()
                two.master.settle()
            assert target.read(0, len(TEXT) * 8) == TEXT * 8
            assert len(channel.sent()) == 1


def test_frames_of_a_tis_have_an_affinity(bonded):
    """As raw packet queue pairs have: MODIFY_TIS chooses the port of their frames."""
    driver = bonded.master.driver
    tisn = create_tis(driver, alloc_td(driver))
    sq = SendQueue(bonded.master, tisn=tisn)
    frame = b"\xff" * 6 + bonded.master.mac + b"\x88\xb5" + bytes(50)
    for port in (1, 2, 0):
        driver.must(
            Op.MODIFY_TIS, tisn=tisn, bitmask={"lag_tx_port_affinity": 1},
            ctx={"lag_tx_port_affinity": port},
        )  # fmt: skip
        before = [function.adapter.port_traffic()[0].packets for function in bonded.functions[:2]]
        sq.send(frame)
        bonded.master.settle()
        after = [function.adapter.port_traffic()[0].packets for function in bonded.functions[:2]]
        sent = [now - then for now, then in zip(after, before)]
        assert sent == ([0, 1] if port == 2 else [1, 0])


def test_management_datagrams_go_by_the_map(bonded):
    """QP1 has no affinity (hw/gsi.c has queue pairs of its own for it only with set_deth_sqpn)."""
    bonded.modify_lag(2, 2)
    gsi, peer = Gsi(bonded.master), Gsi(bonded.peer)
    vector = bonded.master.vector_to(bonded.peer)
    lid = vector.pop("rlid")
    gsi.send(pma_mad.new(mad_hdr=gsi.header(MgmtClass.PERF_MGMT, 1, 1, 1)), lid, **vector)
    assert len(peer.take()) == 1
    assert [way[0] for way in bonded.passed()] == [0, 1]
