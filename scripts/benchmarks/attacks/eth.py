"""Hostile use of Ethernet queues: frames to many queues, large sends of many packets."""

from __future__ import annotations

from collections.abc import Iterator

from attacks.keys import scattered
from attacks.watch import Watch, WatchedBar, check_arrived, pattern, probed
from emu.device.models import LINKS
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.ib.local import LocalFabric
from layouts.enums.caps import PortType
from layouts.enums.wqe import Opcode

QUEUES = 64
"""Number of queues: the maximum of one flow table entry (log_max_destination)."""
REQUESTS = 1024
GROUP = bytes.fromhex("01005e000001 020000000001 88b5") + bytes(46)
LARGE_BYTES = 60000
GROUPS = 4096
"""Number of flow groups that a packet is compared with, each by the fields in MASKS."""
MASKS = {
    "ip_version": 0xF, "ip_protocol": 0xFF, "src_ipv4_src_ipv6": (1 << 128) - 1,
    "dst_ipv4_dst_ipv6": (1 << 128) - 1, "smac_47_16": 0xFFFFFFFF, "smac_15_0": 0xFFFF,
    "dmac_47_16": 0xFFFFFFFF, "dmac_15_0": 0xFFFF, "ethertype": 0xFFFF, "ip_dscp": 0x3F,
    "ip_ecn": 3, "frag": 1, "cvlan_tag": 1, "svlan_tag": 1, "first_vid": 0xFFF, "first_prio": 7,
    "first_cfi": 1, "tcp_sport": 0xFFFF, "tcp_dport": 0xFFFF, "tcp_flags": 0x1FF,
}  # fmt: skip


def post_large(
    sq: SendQueue, count: int, *sges: tuple[int, int, int], mss: int, to: bytes = b""
) -> None:
    """Post large sends of ``mss`` bytes a packet, to the address ``to`` if given; do not ring."""
    header = to + EthPacket(payload=b"").frame()[len(to) :]
    for _ in range(count):
        sq.send(*sges, opcode=Opcode.LSO, mss=mss, headers=header, ring=False, flags=0)


class Segment:
    """Two functions on a switch; the second one forwards every frame to many queues."""

    def __init__(self, watch: Watch, queues: int, *, is_scattered: bool = False) -> None:
        """Create the functions.

        ``is_scattered``: the receive requests are over keys of single bytes, four deep.
        """
        clock = HandClock()
        switch = SegmentSwitch(clock)
        ports = [FunctionPort(f"port {number}", switch) for number in range(2)]
        model, wire = LINKS["connectx6"][PortType.ETH], LocalFabric
        self.left, self.right = nodes = [
            Node(*probed(watch, model, guid, clock, wire(clock), eth_wire=port))
            for guid, port in enumerate(ports, 1)
        ]
        for node, other in (nodes, nodes[::-1]):
            node.driver.bar = WatchedBar(watch, [node.function, other.function])
        driver = self.left.driver
        self.sq = SendQueue(self.left, log_size=12, tisn=create_tis(driver, alloc_td(driver)))
        region = self.right.region(2048)
        target = region.key, region.va
        self._receive(queues, (scattered(self.right), 0) if is_scattered else target)

    def _receive(self, queues: int, target: tuple[int, int]) -> None:
        node, driver = self.right, self.right.driver
        td = alloc_td(driver)
        rqs = [ReceiveQueue(node, log_size=10) for _ in range(queues)]
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirs = [to_tir(create_direct_tir(driver, td, rq.rqn)) for rq in rqs]
        flows.entry(table, 0, flows.group(table, 0, 0), *tirs)
        for rq in rqs:
            for _ in range(rq.size):
                rq.post((2048, *target), update_record=False)
            rq.write_record()

    def check(self, least: int) -> None:
        """Raise RuntimeError unless ``least`` packets have arrived."""
        check_arrived([self.right.function], least)


@pattern(f"{REQUESTS} frames by one doorbell, each of them to {QUEUES} queues")
def many_copies(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, QUEUES)
    for _ in range(REQUESTS):
        segment.sq.send(GROUP, ring=False, flags=0)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(REQUESTS)


@pattern(f"large sends of {MAX_SEGMENTS} packets each")
def many_packets(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 1)
    mss = -(-LARGE_BYTES // MAX_SEGMENTS)
    post_large(segment.sq, 16, segment.left.region(LARGE_BYTES).sge(), mss=mss)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(16 * LARGE_BYTES // mss)


@pattern(f"large sends of {MAX_SEGMENTS} packets each, to {QUEUES} queues")
def many_of_both(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, QUEUES)
    mss = -(-LARGE_BYTES // MAX_SEGMENTS)
    post_large(segment.sq, 4, segment.left.region(LARGE_BYTES).sge(), mss=mss)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()


@pattern(f"large sends into single bytes, four keys deep, to {QUEUES} queues")
def scattered_receives(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, QUEUES, is_scattered=True)
    post_large(segment.sq, 4, segment.left.region(LARGE_BYTES).sge(), mss=1400)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(LARGE_BYTES // 1400)


@pattern("large sends from single bytes, four keys deep")
def scattered_sends(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 1)
    post_large(segment.sq, 64, *[(2048, scattered(segment.left), 0)] * 15, mss=1400)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()


@pattern(f"frames of new flows, compared with {GROUPS} groups of {len(MASKS)} fields")
def many_groups(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, 1)
    driver = segment.right.driver
    flows = Flows(driver)
    rq = ReceiveQueue(segment.right)
    tir = to_tir(create_direct_tir(driver, alloc_td(driver), rq.rqn))
    table = flows.table(1, log_size=12)
    for index in range(GROUPS):
        group = flows.group(table, index, index, **MASKS)
        flows.entry(table, index, group, tir, ip_version=4, tcp_sport=index + 1)
    flows.set_root(table)
    for index in range(REQUESTS):
        frame = EthPacket(source=index.to_bytes(4, "big")).frame()
        segment.sq.send(frame, ring=False, flags=0)
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(REQUESTS // 4)
