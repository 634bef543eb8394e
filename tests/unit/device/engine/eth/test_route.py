"""From a frame to its receive queues: flow tables, TIRs, RQTs, and loopback of one's own frames."""

import pytest

from emu.device.engine.eth.deliver import deliver
from emu.device.engine.eth.steering.route import Delivery, route, route_beside
from emu.device.engine.eth.steering.vlan_tags import push
from emu.device.models import LINKS
from emu.device.objects.domains import LoopbackSource
from emu.device.objects.eth.reshape import together
from emu.device.port.eth.headers import parse
from emu.device.rounds.costs import LOG_BYTES_PER_STEP
from emu.driver.ethernet.flow_fields import mac_fields, to_table, to_tir
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    modify_rqt,
    rss,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeHashType
from layouts.enums.tir import SelfLbBlock
from layouts.steering.fte import vlan

GROUP_MAC = bytes.fromhex("01005e000001")


@pytest.fixture
def everything(flows):
    """A root table, by what packets of any kind do."""
    table = flows.table(0, log_size=0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)

    def go(*destinations, **options):
        flows.entry(table, 0, group, *destinations, **options)
        return table, group

    return go


@pytest.fixture
def routed(function):
    """Where a frame goes: (RQ number, hash, its type, flow tag) for each queue."""

    def find(packet=None, frame=None, td=None, **options):
        data = frame or (packet or EthPacket()).frame()
        domain = function.hca.tds.get(td) if td else None
        source = LoopbackSource(domain, 1) if domain is not None else None
        found = route(function.hca, parse(data), len(data), source=source, **options)
        assert all(isinstance(delivery, Delivery) for delivery in found)
        return [(rq.handle, value, kind, tag) for rq, value, kind, tag, *_ in found]

    return find


@pytest.fixture
def send_queue_of(function):
    """Give a transport domain a send queue."""
    return lambda td: function.hca.tds.need(td).add_sender()


def test_without_root_nothing_is_received(routed):
    assert routed() == []


def test_without_a_table_that_tells_ports_apart_all_stay_there(hca, driver, rqns, everything):
    everything(to_tir(create_direct_tir(driver, alloc_td(driver), rqns[0])))
    headers = parse(EthPacket().frame())
    for domains in ({}, hca.flow_domains):
        assert route_beside(hca.budget, domains, headers, len(headers.frame)) is None


def test_by_hash(driver, rqns, everything, routed):
    """A completion has the hash, what it is over, and no tag."""
    rqtn = create_rqt(driver, rqns)
    everything(to_tir(create_indirect_tir(driver, alloc_td(driver), rqtn, **rss())))
    by_port = {}
    for port in range(64):
        ((rqn, value, kind, tag),) = routed(EthPacket(ports=port.to_bytes(2, "big") + b"\0\x50"))
        assert (kind, tag) == (CqeHashType.IPV4 | CqeHashType.L4_TCP, 0)
        assert rqn == rqns[value % 4]
        by_port[port] = rqn
    assert set(by_port.values()) == set(rqns)
    modify_rqt(driver, rqtn, rqns[::-1])
    for port, rqn in by_port.items():
        ((now, *_),) = routed(EthPacket(ports=port.to_bytes(2, "big") + b"\0\x50"))
        assert now == rqns[3 - rqns.index(rqn)]


def test_changes_count_from_the_next_packet_on(driver, rqns, flows, everything, routed):
    td = alloc_td(driver)
    tirs = [create_direct_tir(driver, td, rqn) for rqn in rqns[:2]]
    table, group = everything(to_tir(tirs[0]), tag=5)
    assert routed() == [(rqns[0], 0, 0, 5)]
    flows.modify(table, 0, group, to_tir(tirs[1]))
    assert routed() == [(rqns[1], 0, 0, 5)]
    flows.delete(table, 0)
    assert routed() == []


def test_multicast_to_several(driver, rqns, everything, routed):
    tds = [alloc_td(driver) for _ in range(3)]
    tirs = [create_direct_tir(driver, td, rqn) for td, rqn in zip(tds, rqns)]
    everything(*map(to_tir, tirs), tag=1)
    frame = GROUP_MAC + EthPacket().frame()[6:]
    assert routed(frame=frame) == [(rqn, 0, 0, 1) for rqn in rqns[:3]]


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("allowed", range(4))
def test_loopback_of_ones_own_frames(
    driver, rqns, everything, routed, send_queue_of, multicast, allowed
):
    """Frames of one's own transport domain come back only where the TIR allows it."""
    tds = [alloc_td(driver) for _ in range(2)]
    send_queue_of(tds[0])
    tirs = [
        create_direct_tir(driver, tds[0], rqns[0], self_lb_block=allowed),
        create_direct_tir(driver, tds[1], rqns[1]),
    ]
    everything(*map(to_tir, tirs))
    frame = EthPacket().frame()
    if multicast:
        frame = GROUP_MAC + frame[6:]
    bit = SelfLbBlock.BLOCK_MULTICAST if multicast else SelfLbBlock.BLOCK_UNICAST
    own = rqns[:2] if allowed & bit else rqns[1:2]
    assert [rqn for rqn, *_ in routed(frame=frame, td=tds[0])] == own
    assert [rqn for rqn, *_ in routed(frame=frame)] == rqns[:2]


def test_tir_of_no_domain_takes_all(driver, rqns, everything, routed):
    td = alloc_td(driver)
    everything(to_tir(create_direct_tir(driver, 0, rqns[0])))
    assert routed() == routed(td=td) == [(rqns[0], 0, 0, 0)]


def test_allowing_it_takes_effect_at_once(driver, rqns, everything, routed, send_queue_of):
    """ethtool -t: mlx5e_refresh_tirs lets unicast frames come back and sends one to itself."""
    td = alloc_td(driver)
    send_queue_of(td)
    tirn = create_direct_tir(driver, td, rqns[0])
    everything(to_tir(tirn))
    assert routed(td=td) == []
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"self_lb_en": 1}, ctx={"self_lb_block": 1})
    assert routed(td=td) == [(rqns[0], 0, 0, 0)]


def test_super_frames_count_as_what_they_stand_for(driver, rqns, flows, everything, routed):
    counter = flows.counter()
    tirn = create_direct_tir(driver, alloc_td(driver), rqns[0])
    everything(to_tir(tirn), counters=[counter])
    size = len(EthPacket().frame())
    routed()
    routed(packets=3)
    assert flows.query_counter(counter) == (4, 2 * size)


def test_stages_of_an_open_netdev(driver, rqns, flows, routed):
    """Multicast by address, then by protocol to an RSS TIR, else to a channel's own."""
    td, rqtn = alloc_td(driver), create_rqt(driver, rqns)
    tcp = create_indirect_tir(driver, td, rqtn, **rss())
    udp = create_indirect_tir(driver, td, rqtn, **rss(protocol="UDP"))
    other = create_indirect_tir(driver, td, create_rqt(driver, rqns[:1]), rx_hash_fn=1)
    anchor = flows.table(66, log_size=0)
    types = flows.table(57, log_size=7, miss=anchor)
    group = flows.group(types, 0, 13, ip_version=0xF, ip_protocol=0xFF)
    flows.entry(types, 0, group, to_tir(tcp), ip_version=4, ip_protocol=6)
    flows.entry(types, 1, group, to_tir(udp), ip_version=4, ip_protocol=17)
    flows.entry(types, 16, flows.group(types, 16, 16), to_tir(other))
    addresses = flows.table(56, log_size=16, miss=anchor)
    own = flows.group(addresses, 0, 32767, dmac_47_16=0xFFFFFFFF, dmac_15_0=0xFFFF)
    multicast = flows.group(addresses, 32768, 32768, dmac_47_16=0x01000000)
    flows.entry(addresses, 0, own, to_table(types), **mac_fields(MACS[:6]))
    flows.entry(addresses, 32768, multicast, to_table(types), **mac_fields(GROUP_MAC))
    flows.set_root(addresses)
    ((_, _, kind, _),) = routed()
    assert kind == CqeHashType.IPV4 | CqeHashType.L4_TCP
    ((_, _, kind, _),) = routed(EthPacket(protocol=UDP))
    assert kind == CqeHashType.IPV4 | CqeHashType.L4_UDP
    ((_, _, kind, _),) = routed(EthPacket(protocol=UDP, fragment=0x2000))
    assert kind == CqeHashType.IPV4, "a fragment has no ports"
    arp = b"\xff" * 6 + MACS[6:] + b"\x08\x06" + bytes(46)
    assert routed(frame=arp) == [(rqns[0], 0, 0, 0)]
    assert routed(frame=b"\x02" + arp[1:]) == []


@pytest.mark.parametrize("version", [4, 6])
def test_packet_that_says_it_is_longer(driver, rqns, flows, routed, version):
    """Its headers count, as those of any other; garbage is no IP packet all the same."""
    tirn = create_direct_tir(driver, alloc_td(driver), rqns[0])
    table = flows.table(0)
    group = flows.group(table, 0, 0, ip_version=0xF, tcp_dport=0xFFFF)
    flows.entry(table, 0, group, to_tir(tirn), ip_version=version, tcp_dport=0x50)
    flows.set_root(table)
    ends = {"version": 6, "source": bytes(16), "destination": bytes(16)} if version == 6 else {}
    frame = bytearray(EthPacket(**ends).frame())
    length_at = 16 if version == 4 else 18
    frame[length_at : length_at + 2] = b"\x7f\xff"
    assert routed(frame=bytes(frame)) == [(rqns[0], 0, 0, 0)]
    frame[14] = 0x10
    assert routed(frame=bytes(frame)) == []


class TestOnInfiniBand:
    @pytest.fixture
    def model(self):
        return LINKS["connectx6"][PortType.IB]

    def test_nothing_is_routed(self, routed):
        assert routed() == []


@pytest.mark.hostile
def test_moved_headers_are_charged_by_the_bytes_of_the_packet(function, node):
    """For each queue that gets the packet, which is made anew there."""
    hca, rq = function.hca, ReceiveQueue(node)
    to = Delivery(rq.object, 0, 0, 0, together((push(vlan.new(ethtype=0x8100)),)))
    costs = []
    for size in (100, 60_000):
        before = hca.budget.steps
        deliver(hca, parse(EthPacket(payload=bytes(size)).frame()), True, to)
        costs.append(hca.budget.steps - before)
    assert costs[1] - costs[0] >= (60_000 >> LOG_BYTES_PER_STEP) - 1
