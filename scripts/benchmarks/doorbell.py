"""Path of a small message through the server, without QEMU: from its doorbell to memory.

A forked process is the guest: it rings by a posted write on the socket, like QEMU, and polls memory
until the byte arrives. Two queue pairs of one function alternate, as in a ping-pong. Each process
needs a processor of its own: on a busy machine the server is woken later, and does not poll for
messages. Prints a table, or JSON with --json.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from fabric import in_child, samples
from figures import Row, Section
from rig import MODEL, MTU_4096, MappedMemory
from tables import json_option, show
from transport import serve_until_left

from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.nodes.two_nodes import GUID
from emu.driver.transport.vfio_client import VfioClient
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.region import Region
from emu.driver.verbs.segments import PAGE
from emu.driver.world.interrupts import IrqList
from emu.server.net.ib.local import LocalFabric
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import REGION_REQUEST, MessageFlag, VfioCommand
from emu.server.vfio.vfio_user import VfioUserServer
from firmware_cmds import TABLE

POSTED_WRITE = int(MessageFlag.NO_REPLY)
SEND_DOORBELL = 0x800
SIZE = 2
PATIENCE_S = 30.0
OTHERS_MEMORY = 8 << 20


class Rig:
    """Function with two connected queue pairs, whose memory a forked process shares.

    Its server may have ``others`` besides: idle functions, on sockets of their own.
    """

    def __init__(self, path: Path, others: int = 0) -> None:
        self.loop = Loop()
        self.memory, irqs = MappedMemory(), IrqList()
        self._wire = wire = LocalFabric(self.loop)
        options = HcaOptions(guid=GUID)
        function = Function(MODEL, options, TABLE, self.memory, irqs, self.loop, wire)
        node = Node(function, Driver(FunctionBar(function), self.memory, irqs).probe())
        self.ends = [
            (node.queue_pair(log_sq_size=10, log_cq_size=10), node.region(PAGE)) for _ in range(2)
        ]
        connect(self.ends[0][0], self.ends[1][0], mtu=MTU_4096)
        self.server = self._serve_at(path, function)
        self._others = [self._other(path, number) for number in range(1, others + 1)]

    def _serve_at(self, path: Path, function: Function) -> VfioUserServer:
        server = VfioUserServer(path)
        server.listen(function)
        self.loop.add_transport(server)
        return server

    def _other(self, path: Path, number: int) -> Path:
        memory, irqs = MappedMemory(OTHERS_MEMORY), IrqList()
        options = HcaOptions(guid=GUID + number, lid=1 + number)
        function = Function(MODEL, options, TABLE, memory, irqs, self.loop, self._wire)
        Driver(FunctionBar(function), memory, irqs).probe()
        where = path.with_name(f"{path.name}-{number}")
        self._serve_at(where, function)
        return where

    def ring_by(self, path: Path) -> list[Callable[[], float]]:
        """Send a message to the other end, for each end.

        Returns the microseconds until it arrives.
        """
        client = VfioClient(path)
        self._clients = [client, *map(VfioClient, self._others)]
        for each in self._clients:
            each.negotiate()
        ends = self.ends
        return [self._sender(client, *ends[at], ends[1 - at][1]) for at in range(len(ends))]

    def _sender(
        self, client: VfioClient, qp: QueuePair, source: Region, target: Region
    ) -> Callable[[], float]:
        offset = qp.node.driver.uar * PAGE + SEND_DOORBELL
        data = (0).to_bytes(4, "big") + (qp.qpn << 8).to_bytes(4, "big")
        size = REGION_REQUEST.size + len(data)
        doorbell = header(offset, size, len(data)) + data
        ram = memoryview(self.memory.ram)
        at, there = (region.pages[0] - self.memory.base for region in (source, target))
        clock = time.perf_counter_ns

        def take() -> float:
            value = ram[there] + 1 & 0xFF
            ram[at] = value
            qp.write((target.key, target.va), source.sge(0, SIZE), ring=False)
            start = clock()
            client.sock.send(doorbell)
            while ram[there] != value:
                if clock() - start > PATIENCE_S * 1e9:
                    raise RuntimeError("the message does not arrive")
            took = (clock() - start) / 1000
            while not qp.cq.drain():
                pass
            return took

        return take


def header(offset: int, size: int, count: int) -> bytes:
    """Return the header of a posted write to BAR 0."""
    return REGION_REQUEST.pack(0, VfioCommand.REGION_WRITE, size, POSTED_WRITE, 0, offset, 0, count)


def sampled(count: int, others: int = 0) -> list[float]:
    """Run both processes; return each message's duration in microseconds."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "socket")
        rig = Rig(path, others)

        def client() -> list[float]:
            one, other = rig.ring_by(path)
            return samples(lambda: (one() + other()) / 2, count)

        wait = in_child(client)
        serve_until_left(rig.loop, rig.server)
        return wait()


def measure(count: int) -> Section:
    """Return the one row."""
    row = Row(f"RDMA WRITE of {SIZE} B, from its doorbell to memory", "us", sampled(count))
    return Section("doorbell", "A small message through the server, without QEMU", [row])


@click.command(help=__doc__)
@click.option("--count", default=2000, show_default=True, help="Round trips.")
@json_option
def main(count: int, as_json: bool) -> None:
    """Measure."""
    logging.disable(logging.WARNING)
    show([measure(count)], as_json=as_json)


if __name__ == "__main__":
    main()
