"""Hostile use of Ethernet queues: frames to many queues, large sends of many packets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hostile_watch import Watch, WatchedBar, pattern
from rig import MappedMemory

from emu.device.hca import HcaOptions
from emu.function.function import Function
from emu.models import LINKS
from emu.net.eth.function_port import FunctionPort
from emu.net.eth.switch import Switch
from emu.net.ib.local import LocalFabric
from emu.port.eth.segment import MAX_SEGMENTS
from firmware_cmds import TABLE
from layouts.enums import Opcode, PortType

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from helpers.driver import Driver
from helpers.eth_queues import ReceiveQueue, SendQueue
from helpers.flows import Flows, to_tir
from helpers.frames import Packet
from helpers.interfaces import alloc_td, create_direct_tir, create_tis
from helpers.verbs import Node
from helpers.world import HandClock, IrqList

QUEUES = 64
"""As many as one flow table entry may lead to (log_max_destination)."""
REQUESTS = 1024
GROUP = bytes.fromhex("01005e000001 020000000001 88b5") + bytes(46)
LARGE_BYTES = 60000


class Segment:
    """Two functions on a switch; the second one leads every frame to many queues."""

    def __init__(self, watch: Watch, queues: int) -> None:
        clock = HandClock()
        switch = Switch(clock)
        functions, ports = [], [FunctionPort(f"port {number}", switch) for number in range(2)]
        for number, port in enumerate(ports):
            model, options = LINKS["connectx6"][PortType.ETH], HcaOptions(guid=1 + number)
            memory, wire = MappedMemory(), LocalFabric(clock)
            function = Function(
                model, options, TABLE, memory, IrqList(), clock, wire, eth_wire=port
            )
            watch.knows(function)
            functions.append(function)
        nodes = []
        for function, other in (functions, functions[::-1]):
            bar = WatchedBar(watch, [function, other])
            nodes.append(Node(function, Driver(bar, function.memory, function.interrupts).probe()))
        self.left, self.right = nodes
        driver = self.left.driver
        self.sq = SendQueue(self.left, log_size=12, tisn=create_tis(driver, alloc_td(driver)))
        self._receive(queues)

    def _receive(self, queues: int) -> None:
        node, driver = self.right, self.right.driver
        region, td = node.region(2048), alloc_td(self.right.driver)
        rqs = [ReceiveQueue(node, log_size=10) for _ in range(queues)]
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirs = [to_tir(create_direct_tir(driver, td, rq.rqn)) for rq in rqs]
        flows.entry(table, 0, flows.group(table, 0, 0), *tirs)
        for rq in rqs:
            for _ in range(rq.size):
                rq.post((2048, region.key, region.va), tell=False)
            rq.tell()

    def check(self, least: int) -> None:
        """Raise RuntimeError unless so many packets have arrived."""
        found = self.right.hca.eth.received.packets
        if found < least:
            raise RuntimeError(f"{found} packets have arrived, not {least}")


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
    payload = segment.left.region(LARGE_BYTES)
    header, mss = Packet(payload=b"").frame(), -(-LARGE_BYTES // MAX_SEGMENTS)
    for _ in range(16):
        segment.sq.send(
            payload.sge(), opcode=Opcode.LSO, mss=mss, headers=header, ring=False, flags=0
        )
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
    segment.check(16 * LARGE_BYTES // mss)


@pattern(f"large sends of {MAX_SEGMENTS} packets each, to {QUEUES} queues")
def many_of_both(watch: Watch) -> Iterator[None]:
    segment = Segment(watch, QUEUES)
    payload = segment.left.region(LARGE_BYTES)
    header, mss = Packet(payload=b"").frame(), -(-LARGE_BYTES // MAX_SEGMENTS)
    for _ in range(4):
        segment.sq.send(
            payload.sge(), opcode=Opcode.LSO, mss=mss, headers=header, ring=False, flags=0
        )
    yield
    segment.sq.ring_doorbell()
    segment.left.settle()
