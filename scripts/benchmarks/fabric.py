"""Packet path between two processes on one fabric, without a guest.

A forked process has a function of its own; a reliable connection to it uses a socket. The times
include both engines, the packets and the socket. Results are one write from doorbell to completion,
a round trip of messages, and the throughput of large writes and reads. Prints a table, or JSON with
--json.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click
from figures import Goal, Row, Section
from rig import MODEL, MTU_4096, MappedMemory
from tables import json_option, show

from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar

# The test suite's drivers are used.
from emu.driver.command.driver import Driver, Fields
from emu.driver.nodes.roce import MODEL as ETHERNET_MODEL
from emu.driver.nodes.roce import RoceNode
from emu.driver.verbs.completions import Completion
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.uplinks import Uplinks
from emu.server.net.fabric.protocol import Identity
from emu.server.net.ib.sockets import SocketFabric
from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import PAGE_SIZE
from firmware_cmds import TABLE

T = TypeVar("T")

MIB = 1 << 20
DEPTH = 16
"""Number of large messages in flight."""
BATCH = 64
STEP_NS = 100_000_000
PATIENCE_S = 30.0
WARM_UP = 10
PSN = 0x10
ANSWER = 1
"""Immediate data that request a message from the peer."""

MAX_SMALL_US = 300.0
MIN_MIB_S = 954.0
"""Minimum throughput in MiB/s: a gigabyte."""


class End:
    """Process's side: its function on the fabric, a queue pair and some memory."""

    wanted = Identity()

    def __init__(self, name: str, others: int = 0) -> None:
        """Join the fabric; ``others`` are functions without a driver, which are also its ports."""
        self.loop = Loop()
        self.uplinks = Uplinks(Segments(self.loop))
        wanted = [self.wanted] * (1 + others)
        self.wire = SocketFabric(name, self.loop, wanted, ethernet=self.uplinks)
        identity, *self._others = self.wire.join()
        memory, irqs = MappedMemory(), IrqList()
        self.function = self.make(identity, memory, irqs)
        driver = Driver(FunctionBar(self.function), memory, irqs).probe()
        self.node = self.bring_up(driver)
        self.qp = self.node.queue_pair(log_sq_size=10, log_cq_size=10)
        self.region = self.node.region(MIB)

    def make(self, identity: Identity, memory: MappedMemory, irqs: IrqList) -> Function:
        """Return the function, without a driver."""
        options = HcaOptions(guid=identity.guid, lid=identity.lid)
        return Function(MODEL, options, TABLE, memory, irqs, self.loop, self.wire)

    def bring_up(self, driver: Driver) -> Node:
        """Return the node of the probed function."""
        return Node(self.function, driver)

    def add_others(self) -> None:
        """Create the other functions, for seconds during which the peer needs answers."""
        for identity in self._others:
            self.make(identity, MappedMemory(PAGE_SIZE), IrqList())
            self.loop.step()

    def address(self) -> Any:
        """Return the address for the peer, as JSON."""
        return self.node.lid

    def path_to(self, address: Any) -> Fields:
        """Return the path to a peer with this address."""
        return {"rlid": address}

    def connect(self, stream: socket.socket) -> tuple[int, int]:
        """Connect to the peer over ``stream``; return the remote key and address."""
        mine = [self.address(), self.qp.qpn, self.region.key, self.region.va]
        stream.sendall(json.dumps(mine).encode() + b"\n")
        stream.setblocking(False)
        address, qpn, key, va = json.loads(self.read_line(stream))
        path = self.path_to(address)
        self.qp.init().to_rtr(qpn=qpn, psn=PSN, mtu=MTU_4096, path=path).to_rts(PSN)
        stream.sendall(b"\n")
        self.read_line(stream)
        return key, va

    def read_line(self, stream: socket.socket) -> bytes:
        """Return the peer's next line.

        The loop runs meanwhile, because the peer needs it to join.
        """
        line = b""
        while not line.endswith(b"\n"):
            self.loop.step(STEP_NS // 100)
            try:
                byte = stream.recv(1)
            except BlockingIOError:
                continue
            if not byte:
                raise RuntimeError("the other process has ended")
            line += byte
        return line

    def poll(self) -> list[int]:
        """Run one round like a server; return the immediate data of all completions."""
        busy = self.function.poll()
        self.loop.step(0 if busy else STEP_NS)
        found = self.qp.cq.drain()
        for done in found:
            if done.syndrome:
                raise RuntimeError(f"not what was wanted: {done}")
        return [done.immediate for done in found if isinstance(done, Completion)]

    def wait(self, count: int) -> float:
        """Wait until ``count`` requests and receives are complete; return the seconds."""
        start = time.perf_counter()
        while count > 0:
            count -= len(self.poll())
            if time.perf_counter() > start + PATIENCE_S:
                raise RuntimeError("the other process does not answer")
        return time.perf_counter() - start


class RoceEnd(End):
    """Function with an Ethernet port, on a segment that all processes of the fabric have."""

    wanted = Identity(is_ethernet=True)
    node: RoceNode

    def make(self, identity: Identity, memory: MappedMemory, irqs: IrqList) -> Function:
        """Return the function, without a driver."""
        options, port = HcaOptions(guid=identity.guid), self.uplinks.segments.plug("function", 0)
        return Function(
            ETHERNET_MODEL, options, TABLE, memory, irqs, self.loop, None, eth_wire=port
        )

    def bring_up(self, driver: Driver) -> RoceNode:
        """Return the node of the probed function."""
        return RoceNode(self.function, driver)

    def address(self) -> Any:
        """Return MAC address and GID, as JSON."""
        return self.node.mac.hex(), self.node.gids[self.node.index].hex()

    def path_to(self, address: Any) -> Fields:
        """Return the path to a peer with this address."""
        mac, gid = map(bytes.fromhex, address)
        return self.node.path_to_address(mac, gid)


ENDS = {"unix": End, "tcp": End, "roce": RoceEnd}


def serve(end: End, stream: socket.socket) -> None:
    """Run the peer: answer messages with ANSWER, until the stream ends."""
    for _ in range(BATCH):
        end.qp.post_recv(end.region.sge())
    end.connect(stream)
    ended: list[bool] = []
    end.loop.add_reader(stream.fileno(), lambda: ended.append(True))
    while not ended:
        for _ in range(end.poll().count(ANSWER)):
            end.qp.post_recv(end.region.sge())
            end.qp.send(end.region.sge(0, 2))


def measure(end: End, stream: socket.socket, count: int) -> list[Row]:
    """Run our side; return all rows."""
    qp, region = end.qp, end.region
    remote = end.connect(stream)
    end.add_others()

    def one() -> float:
        qp.write(remote, region.sge(0, 64))
        return 1e6 * end.wait(1)

    def many() -> float:
        for _ in range(BATCH):
            qp.write(remote, region.sge(0, 64), ring=False)
        qp.ring()
        return 1e6 * end.wait(BATCH) / BATCH

    def there_and_back() -> float:
        qp.post_recv(region.sge())
        qp.send(region.sge(0, 2), imm=ANSWER)
        return 1e6 * end.wait(2) / 2

    def large(post: Callable[..., int]) -> Callable[[], float]:
        def take() -> float:
            for _ in range(DEPTH):
                post(remote, region.sge(), ring=False)
            qp.ring()
            return DEPTH / end.wait(DEPTH)

        return take

    small, fast = Goal(MAX_SMALL_US), Goal(MIN_MIB_S, at_least=True)
    rows = [
        Row("RDMA WRITE of 64 B", "us", samples(one, count), goal=small),
        Row(f"the same, {BATCH} by one doorbell, each", "us", samples(many, count // 4)),
        Row("SEND of 2 B, half of there and back", "us", samples(there_and_back, count)),
        Row("RDMA WRITE of 1 MiB", "MiB/s", samples(large(qp.write), count // 20), goal=fast),
        Row("RDMA READ of 1 MiB", "MiB/s", samples(large(qp.read), count // 20)),
    ]
    end.wire.close()
    return rows


def samples(take: Callable[[], float], count: int) -> list[float]:
    """Take ``count`` samples, after some warm-up samples that are discarded."""
    for _ in range(min(WARM_UP, count)):
        take()
    return [take() for _ in range(max(count, 1))]


def in_child(work: Callable[[], T]) -> Callable[[], T]:
    """Start ``work`` in a forked process; return a function that waits for its result.

    The result is passed on as JSON.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(writer, "w") as out:
                json.dump(work(), out)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)

    def wait() -> T:
        with os.fdopen(reader) as result:
            text = result.read()
        if os.waitpid(child, 0)[1]:
            raise click.ClickException("the other process has failed")
        found: T = json.loads(text)
        return found

    return wait


def measure_pair(count: int, scheme: str, others: int = 0) -> Section:
    """Run both processes on a fabric of this kind; return the measuring one's rows.

    The measuring process has ``others`` more ports.
    """
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory() as directory, ours, theirs:
        name = f"tcp:127.0.0.1:{free_port()}" if scheme == "tcp" else f"unix:{directory}/fabric"

        def peer() -> None:
            ours.close()
            serve(ENDS[scheme](name), theirs)

        wait = in_child(peer)
        rows = measure(ENDS[scheme](name, others), ours, count)
        ours.close()
        wait()
    remark = f"One large message is {MIB // 4096} packets; {DEPTH} of them are under way."
    title = f"Packets between two processes ({scheme})"
    return Section(f"fabric {scheme}", title, rows, remarks=[remark])


def free_port() -> int:
    """Return an unused TCP port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@click.command(help=__doc__)
@click.option("--count", default=400, show_default=True, help="Samples of what is small.")
@json_option
def main(count: int, as_json: bool) -> None:
    """Measure."""
    logging.disable(logging.WARNING)
    sections = [measure_pair(count, scheme) for scheme in ENDS]
    show(sections, as_json=as_json)


if __name__ == "__main__":
    main()
