"""Two functions in this process, initialized by drivers, for benchmarks without a guest.

The drivers are the test suite's. Guest memory is not: it is mapped and accessed like a client's.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from emu.device.models import MODELS
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.world.clock import HandClock
from emu.driver.world.memory import Memory
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import PAGE_SIZE

MODEL = MODELS["connectx6"]
MTU_4096 = 5


class MappedMemory(Memory):
    """Page allocator of the tests, over a memfd that is granted as by DMA_MAP."""

    def __init__(self, size: int = 64 << 20) -> None:
        super().__init__(mmap.PAGESIZE)
        fd = os.memfd_create("guest-ram", os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        ram: Any = mmap.mmap(fd, size)
        self.ram = ram
        self._map = DmaMap(trust_unsealed=True)
        self._map.map(self.base, size, 0, READ | WRITE, fd)
        os.close(fd)
        for name in ("read", "write", "view", "segments", "equal_views"):
            setattr(self, name, getattr(self._map, name))

    def pages(self, size: int) -> list[int]:
        """Allocate pages and touch them, so that no host page faults are measured later."""
        pages: list[int] = super().pages(size)
        for page in pages:
            self.write(page, bytes(PAGE_SIZE))
        return pages


class Pair:
    """Two functions with a reliable connection, or several, and memory of the same size."""

    def __init__(
        self,
        wire: Callable[[HandClock], IbWire[Hca]],
        size: int,
        connections: int = 1,
        log_ring: int = 10,
        ram: int = 64 << 20,
    ) -> None:
        """Create the pair.

        ``log_ring`` is the size of each send queue and its CQ; ``ram`` the bytes of each function's
        guest.
        """
        clock = HandClock()
        made: Any = wire(clock)
        carriers = (made,) if hasattr(made, "poll") else ()
        make_memory = partial(MappedMemory, ram)
        self.left, self.right = two_nodes(MODEL, clock, made, *carriers, make_memory=make_memory)
        self._carriers, self._budget = carriers, clock.budget
        self._awake = {node.function: None for node in (self.left, self.right)}
        for function in self._awake:
            function.on_work = partial(self._awake.setdefault, function)
        self.qps = [
            self.left.queue_pair(log_sq_size=log_ring, log_cq_size=log_ring)
            for _ in range(connections)
        ]
        peers = [self.right.queue_pair() for _ in self.qps]
        for qp, peer in zip(self.qps, peers):
            connect(qp, peer, mtu=MTU_4096)
        self.qp, self.peer = self.qps[0], peers[0]
        self.source, self.target = self.left.region(size), self.right.region(size)
        self.remote = self.target.key, self.target.va

    def write_us(self, size: int, remote: tuple[int, int] | None = None, count: int = 1) -> float:
        """Return microseconds of each of ``count`` writes by one doorbell, to the target region."""
        source, there = self.source.sge(0, size), remote or self.remote
        return doorbell_to_cqe(self.qp, lambda: self.qp.write(there, source, ring=False), count)

    def read_us(self, size: int) -> float:
        """Return the microseconds of a read from the target region."""
        source = self.source.sge(0, size)
        return doorbell_to_cqe(self.qp, lambda: self.qp.read(self.remote, source, ring=False))

    def ring(self) -> None:
        """Ring the queue pair's doorbell, and run rounds until all is idle."""
        self.qp.ring()
        self.run()

    def run(self) -> None:
        """Run rounds until all is idle: each polls the functions with work, as the loop does."""
        awake, functions = self._awake, (self.left.function, self.right.function)
        busy = True
        while busy or awake:
            self._budget.begin()
            for function in [*awake]:
                del awake[function]
                if function.poll():
                    awake[function] = None
            busy = any(carrier.poll() for carrier in self._carriers)
            if busy:
                awake.update(dict.fromkeys(functions))


def doorbell_to_cqe(qp: QueuePair, post: Callable[[], object], count: int = 1) -> float:
    """Return microseconds per work request for the ``count`` that ``post`` puts into the ring."""
    return doorbells_to_cqes([qp], [post], count)


def doorbells_to_cqes(
    qps: Sequence[QueuePair], posts: Sequence[Callable[[], object]], count: int
) -> float:
    """Return the same for ``count`` in the ring of each queue pair, after all doorbells."""
    for post in posts:
        for _ in range(count):
            post()
    start = time.perf_counter_ns()
    for qp in qps:
        qp.ring()
    qps[0].node.settle()
    elapsed = time.perf_counter_ns() - start
    for qp in qps:
        done = qp.cq.drain()
        if [entry.syndrome for entry in done] != [0] * count:
            raise RuntimeError(f"{count} requests, but these completions: {done}")
    return elapsed / 1000 / count / len(qps)
