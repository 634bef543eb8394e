"""Hostile streams to a queue that merges packets: many held, and many that are due at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attacks.watch import Watch, WatchedLoop, check_arrived, pattern, probed
from emu.device.models import LINKS
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.split_queue import SplitQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.verbs.node import Node
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from layouts.enums.caps import PortType

PERIOD_US = 1000
STREAMS = 63
"""Number of streams, below the maximum held side by side: above it some would be flushed at
once.
"""
PACKETS = 2000
ACK = 0x10
LRO = {
    "packet_merge_mask": 3, "lro_max_ip_payload_size": 255, "lro_timeout_period_usecs": PERIOD_US,
}  # fmt: skip


class Merging:
    """Two functions on a segment.

    The second one has a queue that merges the first one's packets.
    """

    def __init__(self, watch: Watch, *, is_split: bool) -> None:
        self.loop = WatchedLoop(watch)
        switch = SegmentSwitch(self.loop)
        nodes = []
        model = LINKS["connectx7"][PortType.ETH]
        for number in range(2):
            port = FunctionPort(f"port {number}", switch)
            nodes.append(Node(*probed(watch, model, 1 + number, self.loop, eth_wire=port)))
        self.left, self.right = nodes
        driver = self.left.driver
        self.sq = SendQueue(self.left, log_size=12, tisn=create_tis(driver, alloc_td(driver)))
        self._receive(is_split)

    def _receive(self, is_split: bool) -> None:
        node, driver = self.right, self.right.driver
        cq = node.completion_queue(13)
        size: dict[str, Any] = {"log_size": 3, "log_count": 11, "log_stride_size": 8}
        if is_split:
            rq: StridingQueue = SplitQueue(
                node, cq=cq, timeout=PERIOD_US, log_reservation=16, log_packets=6, log_entries=12,
                **size,
            )  # fmt: skip
        else:
            rq = StridingQueue(node, cq=cq, **size)
        rq.post_more(7)
        tirn = create_direct_tir(driver, alloc_td(driver), rq.rqn, **({} if is_split else LRO))
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))

    def attack(self, streams: int) -> Iterator[None]:
        """Send the streams' packets alternately; then their time is over."""
        each = PACKETS // streams
        for number in range(each):
            for stream in range(streams):
                self.sq.send(_packet(stream, number), ring=False, flags=0)
        yield
        self.sq.ring_doorbell()
        self.loop.run()
        self.loop.run(PERIOD_US * 1000)
        check_arrived([self.right.function], each * streams // 2)


def _packet(stream: int, number: int) -> bytes:
    ports = (0x400 + stream << 16 | 80).to_bytes(4, "big")
    return EthPacket(
        ports=ports, sequence=1000 + 16 * number, flags=ACK, identifier=number, payload=bytes(16)
    ).frame()


@pattern(f"LRO: packets of {STREAMS} streams by turns, all of them due at once")
def held(watch: Watch) -> Iterator[None]:
    yield from Merging(watch, is_split=False).attack(STREAMS)


@pattern(f"LRO: packets of {PACKETS} streams, more than are held")
def too_many(watch: Watch) -> Iterator[None]:
    yield from Merging(watch, is_split=False).attack(PACKETS)


@pattern(f"HW-GRO: packets of {STREAMS} streams by turns, all of them due at once")
def held_apart(watch: Watch) -> Iterator[None]:
    yield from Merging(watch, is_split=True).attack(STREAMS)


@pattern("HW-GRO: packets of one stream, a few bytes each")
def short_ones(watch: Watch) -> Iterator[None]:
    yield from Merging(watch, is_split=True).attack(1)
