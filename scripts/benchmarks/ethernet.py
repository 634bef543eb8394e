"""Cost of an Ethernet packet, without a guest and without a transport.

One function has queues like mlx5e's, with a key over all of memory and 1024 requests in each ring.
Its flow tables are the VLAN, address and traffic-type tables. TIRs hash over four receive queues.
Its wire has no other end; the program delivers received frames itself. Prints a table, or JSON with
--json.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
from engine import sample
from figures import Goal, Row, Section
from rig import MappedMemory
from tables import json_option, show

from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.engine.eth.receive import arrive
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.virtual_functions import virtual_function_of
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.device.port.eth.wire import EthWire
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.bar import FunctionBar

# The test suite's drivers are used.
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import mac_fields, to_table, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, EthPacket
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_indirect_tir,
    create_rqt,
    create_tis,
    rss,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import EthChecksum, Opcode

BATCH = 64
CHANNELS = 4
BUFFER_BYTES = 2048
JUMBO_BYTES = 10240
MSS = 1448
LARGE_BYTES = 45 * MSS
BOTH = EthChecksum.L3 | EthChecksum.L4
TCP_HEADER_BYTES = 54
HARDWARE_MTU_EXTRA = 22

MAX_SENT_US = 12.0
MAX_RECEIVED_US = 12.0
MAX_LARGE_US = 120.0

Sampler = Callable[[], float]


class Netdev:
    """Function as an open netdev uses it."""

    def __init__(
        self, mtu: int = 1500, adapter: Adapter[Hca] | None = None,
        vf: tuple[Driver, Vhca[Hca]] | None = None, eth_wire: EthWire[Hca] | None = None,
        guid: int = 1,
    ) -> None:  # fmt: skip
        """Create the function; ``adapter`` is the one that it manages, if it has a switch.

        ``vf`` are the manager's driver and the place in the adapter, for a virtual function.
        ``eth_wire`` is its cable; by default, frames have no receiver.
        """
        model, memory = LINKS["connectx6"][PortType.ETH], MappedMemory()
        clock, options = HandClock(), HcaOptions(guid=guid)
        vhca: Vhca[Hca] | None = None
        if adapter is not None:
            model, vhca = adapter.model, adapter.manager
        elif vf is not None:
            vhca = vf[1]
            model = virtual_function_of(vhca.adapter.model)
        fabric = LocalFabric(clock) if vhca is None and eth_wire is None else None
        self.function = Function(
            model, options, TABLE, memory, IrqList(), clock, fabric, eth_wire=eth_wire, vhca=vhca
        )
        if vf is not None:
            vf[0].must(Op.ENABLE_HCA, function_id=vf[1].vport_number)
        is_vf = model.identity.is_vf
        driver = Driver(FunctionBar(self.function), memory).probe(is_vf=is_vf)
        self.node = Node(self.function, driver)
        self.hca, self.memory = self.node.hca, memory
        if not is_vf:
            self.hca.eth.admin_mtu = mtu + HARDWARE_MTU_EXTRA
        # The key is over physical addresses, like that of mlx5e_create_mkey.
        self.key = driver.create_mkey(self.node.pdn, access_mode_1_0=AccessMode.PA) << 8
        self.sq = SendQueue(
            self.node, log_size=10, tisn=create_tis(driver, alloc_td(driver)),
            cq=self.node.completion_queue(10),
        )  # fmt: skip
        size = BUFFER_BYTES if mtu <= BUFFER_BYTES else JUMBO_BYTES
        self.rqs = [Channel(self, size) for _ in range(CHANNELS)]
        flows = Flows(driver)
        flows.set_root(self.steer(flows))

    def steer(self, flows: Flows) -> int:
        """Create VLAN, address and traffic-type tables (core/en_fs.c); return the first one."""
        driver = self.node.driver
        td = alloc_td(driver)
        rqtn = create_rqt(driver, [channel.rq.rqn for channel in self.rqs])
        tirn = create_indirect_tir(driver, td, rqtn, **rss())
        kinds, addresses, tags = (flows.table(level, log_size=7) for level in (3, 2, 1))
        group = flows.group(kinds, 0, 3, ip_version=0xF, ip_protocol=0xFF)
        flows.entry(kinds, 0, group, to_tir(tirn), ip_version=4, ip_protocol=6)
        group = flows.group(addresses, 0, 99, **mac_fields(b"\xff" * 6))
        flows.entry(addresses, 0, group, to_table(kinds), **mac_fields(MACS[:6]))
        group = flows.group(tags, 0, 0, cvlan_tag=1)
        flows.entry(tags, 0, group, to_table(addresses), cvlan_tag=0)
        return tags

    def expect(self, packets: int) -> None:
        """Poll the completions of all queues; RuntimeError if not so many packets arrived."""
        found = sum(channel.clean() for channel in self.rqs)
        if found != packets:
            raise RuntimeError(f"{found} packets received, not {packets}")

    def put(self, data: bytes) -> list[tuple[int, int, int]]:
        """Write bytes to memory; return segments of at most a page that name them."""
        found = []
        for at in range(0, len(data), 4096):
            part = data[at : at + 4096]
            address = self.memory.alloc(4096)
            self.memory.write(address, part)
            found.append((len(part), self.key, address))
        return found


class Channel:
    """Receive queue whose ring is full of buffers."""

    def __init__(self, netdev: Netdev, size: int) -> None:
        node = netdev.node
        counter = node.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
        self.rq = ReceiveQueue(
            node, log_size=10, cq=node.completion_queue(10), log_stride=4, counter_set_id=counter
        )
        self.sge = size, netdev.key, netdev.memory.alloc(size, 4096)
        for _ in range(1024):
            self.rq.post(self.sge, update_record=False)
        self.rq.write_record()

    def clean(self) -> int:
        """Poll the completions, and post as many requests; return their number."""
        found = 0
        while self.rq.cq.peek() is not None:
            self.rq.cq.ci += 1
            found += 1
            self.rq.post(self.sge, update_record=False)
        self.rq.cq.write_record()
        self.rq.write_record()
        return found


def sending(netdev: Netdev, post: Callable[[], object], count: int) -> Sampler:
    """Return the microseconds of each of ``count`` requests; only the last one is signaled."""

    def take() -> float:
        for _ in range(count):
            post()
        netdev.sq.nop(ring=False)
        start = time.perf_counter_ns()
        netdev.sq.ring_doorbell()
        netdev.node.settle()
        elapsed = time.perf_counter_ns() - start
        (done,) = netdev.sq.cq.drain()
        if done.syndrome:
            raise RuntimeError(f"this completion: {done}")
        return elapsed / 1000 / count

    return take


def receiving(netdev: Netdev, frames: Sequence[Frame], packets: int) -> Sampler:
    """Return the microseconds of each of the ``packets`` in the frames."""

    def take() -> float:
        start = time.perf_counter_ns()
        for frame in frames:
            arrive(netdev.hca, frame)
        elapsed = time.perf_counter_ns() - start
        netdev.node.settle()  # the round ends
        netdev.expect(packets)
        return elapsed / 1000 / packets

    return take


def packet(size: int, flow: int = 0) -> bytes:
    """Return a TCP packet in a frame of ``size`` bytes."""
    payload = bytes(number & 0xFF for number in range(size - TCP_HEADER_BYTES))
    return EthPacket(ports=(0x400 + flow << 16 | 80).to_bytes(4, "big"), payload=payload).frame()


def sends(count: int) -> list[Row]:
    """Return the rows of sends, many by one doorbell, with all checksums requested."""
    netdev = Netdev()
    small, full = (netdev.put(packet(size)) for size in (60, 1514))
    parts = netdev.put(packet(1514)[:66]) + netdev.put(packet(1514)[66:])
    large = netdev.put(bytes(LARGE_BYTES))
    header = EthPacket(payload=b"").frame()

    def post(sges: list[tuple[int, int, int]], **options: Any) -> Callable[[], object]:
        return lambda: netdev.sq.send(*sges, cs_flags=BOTH, ring=False, flags=0, **options)

    lso = post(large, opcode=Opcode.LSO, mss=MSS, headers=header)
    names = ("60 B", "1514 B", "1514 B in two segments")
    found = sample(
        count,
        *[sending(netdev, post(sges), BATCH) for sges in (small, full, parts)],
        sending(netdev, lso, 4),
    )
    rows = [
        Row(f"sent, {name}, {BATCH} by one doorbell, each", "us", taken, goal=Goal(MAX_SENT_US))
        for name, taken in zip(names, found)
    ]
    return [*rows, Row("sent, LSO of 64 KiB", "us", found[-1], goal=Goal(MAX_LARGE_US))]


def receipts(count: int) -> list[Row]:
    """Return the rows of received frames of 16 flows, with checksums made here, or vouched for."""
    netdev, jumbo = Netdev(), Netdev(9000)

    def burst(size: int, checked: bool) -> list[Frame]:
        return [Frame(packet(size, number % 16), 0, checked) for number in range(BATCH)]

    whole = unsegmented(EthPacket(payload=b"").frame(), bytes(LARGE_BYTES), MSS)
    assert whole is not None
    large = [Frame(whole, MSS, checked=True)]
    goal = Goal(MAX_RECEIVED_US)
    cases = (
        ("received, 60 B, each", receiving(netdev, burst(60, False), BATCH), goal),
        ("received, 1514 B, each", receiving(netdev, burst(1514, False), BATCH), goal),
        ("received, 1514 B without checksums", receiving(netdev, burst(1514, True), BATCH), goal),
        ("received, 9014 B, each", receiving(jumbo, burst(9014, False), BATCH), None),
        ("received, packets of an LSO, each", receiving(netdev, large, 45), goal),
    )
    found = sample(count, *[sampler for _, sampler, _ in cases])
    return [Row(name, "us", taken, goal=wanted) for (name, _, wanted), taken in zip(cases, found)]


@click.command()
@click.option("--count", default=200, show_default=True, help="Samples of each.")
@json_option
def main(count: int, as_json: bool) -> None:
    """Measure what an Ethernet packet costs."""
    logging.disable()
    show(
        [Section("ethernet", "Ethernet, in one process", [*sends(count), *receipts(count)])],
        as_json=as_json,
    )


if __name__ == "__main__":
    main()
