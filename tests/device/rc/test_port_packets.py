"""How many packets a port counts, on each way, and what of that has passed the physical port."""

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.eth import counter_groups
from emu.device.port.ib import pma
from emu.driver.nodes.roce import on_a_cable, on_one_segment, set_address
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.enums.regs import CountersGroup
from layouts.wire.mads import Method, MgmtClass, PmaAttr, pma_mad, pma_portcounters_ext

SERVICES = [QpType.RC, QpType.XRC, QpType.UC, QpType.UD]
MTU = 1024
ALL_COUNTERS = 0xFF
"""CounterSelect of PortCountersExtended."""
UNICAST = ("transmitted_ib_unicast", "received_ib_unicast")


def one_of_each(channel, source, target):
    """Each request on its own, so that each is acknowledged; returns (sent, come back)."""
    remote = (target.key, target.va)
    channel.post_recv(target.sge())
    channel.send(b"data")
    channel.settle()
    if channel.service is QpType.UD:
        return 1, 0
    channel.write(remote, source.sge(0, 8))
    channel.settle()
    if channel.service is QpType.UC:
        return 2, 0
    channel.read(remote, source.sge(0, 3 * MTU))
    channel.settle()
    channel.fetch_add(remote, source.sge(0, 8), 1)
    channel.settle()
    return 4, 6


def vport(node):
    """What the virtual port's counters say: packets sent, received, looped back."""
    out = node.driver.must(Op.QUERY_VPORT_COUNTER)
    return tuple(getattr(out, name).packets for name in (*UNICAST, "local_loopback"))


def check(channel, ends):
    left, right = ends
    source, target = left.region(4096), right.region(4096)
    sent, back = one_of_each(channel, source, target)
    channel.sent()
    if left is right:
        assert vport(left) == (sent + back, sent + back, sent + back)
    else:
        assert (vport(left), vport(right)) == ((sent, back, 0), (back, sent, 0))
    return sent, back


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_infiniband(ends, service):
    left, right = ends
    sent, back = check(Channel(service, left, right), ends)
    passed = [_passed(node.hca.ib) for node in ends]
    assert passed == ([(0, 0), (0, 0)] if left is right else [(sent, back), (back, sent)])


def test_the_agent_counts_all_messages_before_it_answers(pair):
    """Nobody has read the ports' counters before."""
    left, right = pair
    channel = Channel(QpType.RC, left, right)
    sent, back = one_of_each(channel, left.region(4096), right.region(4096))
    assert _passed(right.hca.ib) == (back, sent)
    assert _passed(left.hca.ib) == (sent, back)


def _passed(port, method=Method.GET, counter_select=0):
    """PortXmitPkts and PortRcvPkts: what the port's own agent says."""
    hdr = {
        "base_version": 1, "mgmt_class": MgmtClass.PERF_MGMT, "class_version": 1,
        "method": method, "attr_id": PmaAttr.PORT_COUNTERS_EXT,
    }  # fmt: skip
    given = pma_portcounters_ext.new(port_select=1, counter_select=counter_select)
    given = bytes(given).ljust(192, b"\0")
    answer = pma.answer(port, bytes(pma_mad.new(mad_hdr=hdr, data=given)))
    counters = pma_portcounters_ext.view(pma_mad.view(answer).data)
    return counters.port_xmit_packets, counters.port_rcv_packets


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_roce(roce_ends, service):
    left, right = roce_ends
    sent, back = check(Channel(service, left, right), roce_ends)
    passed = [_frames(node.hca.nic_vport) for node in roce_ends]
    assert passed == ([(0, 0), (0, 0)] if left is right else [(sent, back), (back, sent)])


def _frames(vport):
    """tx_packets_phy and rx_packets_phy; the other groups agree."""
    of_port = vport.port, vport.port_traffic()
    prm, _ = counter_groups.GROUPS[CountersGroup.IEEE_802_3]
    view = prm.view(counter_groups.read(*of_port, CountersGroup.IEEE_802_3, 0, clear=False))
    found = view.a_frames_transmitted_ok_low, view.a_frames_received_ok_low
    prm, _ = counter_groups.GROUPS[CountersGroup.RFC_2819]
    sizes = prm.view(counter_groups.read(*of_port, CountersGroup.RFC_2819, 0, clear=False))
    assert sizes.ether_stats_pkts_low == found[1]
    counted = [
        value for name, value in sizes.as_dict().items()
        if name.startswith("ether_stats_pkts") and name.endswith("octets_low")
    ]  # fmt: skip
    assert sum(counted) == found[1]
    return found


@pytest.mark.parametrize("way", ["direct", "packets"])
def test_message_that_is_refused(pair, packet_pair, way):
    """The packets have been sent all the same, and a NAK comes back."""
    left, right = pair if way == "direct" else packet_pair
    channel = Channel(QpType.RC, left, right)
    channel.write((0xBAD00, 0), left.region(4096).sge(0, 8))
    channel.settle()
    assert (vport(left), vport(right)) == ((1, 1, 0), (1, 1, 0))


@pytest.mark.parametrize("takes_trains", [False, True])
@pytest.mark.parametrize("missing", ["link", "source GID"])
def test_packets_that_never_leave_are_not_counted(clock, takes_trains, missing):
    left, right = on_a_cable(clock, takes_trains=takes_trains)
    channel = Channel(QpType.RC, left, right, mtu=3)
    source, target = left.region(60 * MTU), right.region(60 * MTU)
    if missing == "link":
        set_link(left.hca, up=False)
    else:
        assert not set_address(left.driver, left.index, bytes(16)).status
    before = vport(left)
    channel.write((target.key, target.va), source.sge())
    channel.settle()
    assert vport(left) == before


def test_packets_do_not_leave_a_link_that_is_down(packet_pair):
    left, right = packet_pair
    channel = Channel(QpType.RC, left, right)
    set_link(left.hca, up=False)
    channel.write((0, 0), left.region(4096).sge())
    channel.settle()
    assert vport(left) == (0, 0, 0)


# -- a function whose packets to itself are sent as packets: a rule wants to see them


SEES_PACKETS = '[[rule]]\npoint="pkt.tx"\naction="drop"\nprobability=0'


LOSES_A_PACKET = '[[rule]]\npoint="pkt.rx"\naction="drop"'


def watched(node, plan=SEES_PACKETS):
    injector = Injector(node.function, sink=lambda _: None)
    node.function.use_faults(injector)
    injector.load(load(plan))
    return node


def slow_channel(node, clock, service):
    """To oneself; packets need time."""
    channel = Channel(service, node, node)
    settle = channel.settle

    def run():
        for _ in range(50):
            clock.advance(1000)
            settle()

    channel.settle = run
    return channel


def run_one_of_each(node, clock, service):
    channel = slow_channel(node, clock, service)
    sent, back = one_of_each(channel, node.region(4096), node.region(4096))
    assert vport(node) == (sent + back,) * 3


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_packets_to_oneself(node, clock, service):
    run_one_of_each(watched(node), clock, service)
    assert _passed(node.hca.ib) == (0, 0)


def test_a_packet_to_oneself_that_is_lost(node, clock):
    channel = slow_channel(watched(node, LOSES_A_PACKET), clock, QpType.UC)
    region = node.region(64)
    channel.write((region.key, region.va), region.sge(0, 8))
    channel.settle()
    assert _passed(node.hca.ib) == (0, 0)


def test_counters_are_cleared_while_a_packet_to_oneself_is_under_way(node, clock):
    """The port has sent it and not yet received it."""
    channel = slow_channel(watched(node), clock, QpType.UC)
    region = node.region(64)
    channel.write((region.key, region.va), region.sge(0, 8))
    node.settle()
    assert _passed(node.hca.ib, Method.SET, ALL_COUNTERS) == (0, 0)
    channel.settle()
    assert _passed(node.hca.ib) == (0, 0)


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_frames_to_oneself(clock, service):
    (node,) = on_one_segment(clock, 1)
    run_one_of_each(watched(node), clock, service)
    assert _frames(node.hca.nic_vport) == (0, 0)


def test_a_frame_to_oneself_that_is_lost(clock):
    (node,) = on_one_segment(clock, 1)
    channel = slow_channel(watched(node, LOSES_A_PACKET), clock, QpType.UC)
    region = node.region(64)
    channel.write((region.key, region.va), region.sge(0, 8))
    channel.settle()
    assert _frames(node.hca.nic_vport) == (0, 0)
