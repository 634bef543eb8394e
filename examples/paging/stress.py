#!/usr/bin/env python3
"""RDMA on memory that is paged on demand, while everything pulls its pages away.

Runs in a guest on any device with on-demand paging (python3-pyverbs):

    mlx5emu run --share examples/paging -- python3 /mnt/share/stress.py --seconds 600

Each process connects two queue pairs of its own and moves data both ways, by SEND, WRITE, READ and
atomics (where these may page on demand: odp_all=1), between regions whose pages it discards, unmaps
and maps again, evicts to disk, and shares with children that write to them. One process more takes
memory from all others and has the kernel move pages about. What arrives is compared byte by byte
with what was sent. At the end it says what was done how often; a process that has lost data or
waited in vain makes it fail.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# The numbers are infiniband/verbs.h's: the modules that name them differ between versions.
RC, MTU_1024, SUCCESS, SIGNALED = 2, 3, 0, 2
WRITE, SEND, READ, FETCH_ADD = 0, 2, 4, 6
ACCESS, ON_DEMAND = 1 | 2 | 4 | 8, 1 << 6  # local write, remote write, read and atomic
IMPLICIT_PAGING, ATOMICS = 1 << 1, 1 << 4

PAGE = 4096
REGION = 64 * PAGE
MOST = 48 * 1024
CQ_SIZE = 16
COMPLETION_S = 120.0
KERNEL_S = 1.0
"""How long the kernel tries to bring pages in that keep going away (HMM_RANGE_DEFAULT_TIMEOUT)."""

MADV_PAGEOUT = 21

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
_libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_MAP_FIXED = 0x10


class Memory:
    """A mapping at a fixed address, of a file or of nothing, that can go and come back."""

    def __init__(self, file: int | None) -> None:
        self.file = -1 if file is None else file
        self.address = self._map(None)

    def _map(self, address: int | None) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if self.file < 0 else mmap.MAP_SHARED
        if address is not None:
            flags |= _MAP_FIXED
        found: int = _libc.mmap(
            address, REGION, mmap.PROT_READ | mmap.PROT_WRITE, flags, self.file, 0
        )
        assert found not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
        return found

    def read(self, at: int, length: int) -> bytes:
        return ctypes.string_at(self.address + at, length)

    def write(self, at: int, data: bytes) -> None:
        ctypes.memmove(self.address + at, data, len(data))

    def discard(self, start: int, pages: int) -> None:
        _libc.madvise(self.address + start * PAGE, pages * PAGE, mmap.MADV_DONTNEED)

    def evict(self, start: int, pages: int) -> None:
        _libc.madvise(self.address + start * PAGE, pages * PAGE, MADV_PAGEOUT)

    def unmap(self) -> None:
        _libc.munmap(self.address, REGION)

    def replace(self) -> None:
        """Map it anew; where it was mapped, there is no moment without a mapping."""
        self._map(self.address)

    def map_again(self) -> None:
        self.unmap()
        self.replace()


class End:
    """A queue pair, its memory and its key."""

    def __init__(self, pd: PD, cq: CQ, memory: Memory, *, is_implicit: bool) -> None:
        self.memory = memory
        length, address = (0, 0) if is_implicit else (REGION, memory.address)
        self.region = MR(pd, length, ACCESS | ON_DEMAND, address=address, implicit=is_implicit)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        # With sq_sig_all mlx5 has old values of atomics in completions, where they are big-endian.
        self.qp = QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=0))

    def connect(self, lid: int, peer: End) -> None:
        attr = QPAttr(port_num=1)
        attr.path_mtu, attr.dest_qp_num = MTU_1024, peer.qp.qp_num
        attr.ah_attr = AHAttr(port_num=1, dlid=lid, is_global=0)
        attr.qp_access_flags = ACCESS
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        self.qp.to_rts(attr)

    def sge(self, at: int, length: int) -> SGE:
        return SGE(self.memory.address + at, length, self.region.lkey)


class GaveUpError(Exception):
    """A page kept going away for longer than the kernel tries: a starved host, and no mistake."""


class Traffic:
    """Messages between two ends, one at a time, each checked."""

    def __init__(
        self, pd: PD, cq: CQ, ends: list[End], rng: random.Random, *, has_atomics: bool = False
    ) -> None:
        self.pd, self.cq, self.ends, self.rng = pd, cq, ends, rng
        self.kinds = ("send", "write", "read", *(("atomic",) if has_atomics else ()))
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        rng = self.rng
        source, target = rng.sample(self.ends, 2)
        length = rng.randint(1, MOST)
        at, to = (rng.randrange(REGION - length) for _ in range(2))
        kind = rng.choice(self.kinds)
        if kind == "atomic":
            self._atomic(source, target, at & ~7, to & ~7)
        else:
            data = rng.randbytes(length)
            source.memory.write(at, data)
            self._disturb(target.memory, source.memory)
            getattr(self, kind)(source, target, at, to, length)
            found = target.memory.read(to, length)
            assert found == data, f"{kind} of {length} bytes: {_difference(found, data)}"
        self.counts[kind] += 1

    def _disturb(self, target: Memory, source: Memory) -> None:
        """Take pages of the target away, and make those of the source move."""
        what = self.rng.choice(("nothing", "discard", "map again", "evict", "fork"))
        start = self.rng.randrange(REGION // PAGE)
        pages = self.rng.randint(1, REGION // PAGE - start)
        if what == "discard":
            target.discard(start, pages)
        elif what == "map again":
            target.map_again()
        elif what == "evict":
            target.evict(start, pages)
            source.evict(start, pages)
        elif what == "fork":
            self._fork(target)
        self.counts[what] += 1

    def _fork(self, memory: Memory) -> None:
        """A child that writes to what it has inherited: private pages part their ways."""
        pid = os.fork()
        if not pid:
            if memory.file < 0:
                memory.write(0, b"child" * 1000)
            os._exit(0)
        os.waitpid(pid, 0)

    def send(self, source: End, target: End, at: int, to: int, length: int) -> None:
        target.qp.post_recv(RecvWR(num_sge=1, sg=[target.sge(to, length)]))
        source.qp.post_send(self._request(source, at, length, SEND))
        self._wait(2)

    def write(self, source: End, target: End, at: int, to: int, length: int) -> None:
        request = self._request(source, at, length, WRITE)
        request.set_wr_rdma(target.region.rkey, target.memory.address + to)
        source.qp.post_send(request)
        self._wait(1)

    def read(self, source: End, target: End, at: int, to: int, length: int) -> None:
        request = self._request(target, to, length, READ)
        request.set_wr_rdma(source.region.rkey, source.memory.address + at)
        target.qp.post_send(request)
        self._wait(1)

    def _atomic(self, source: End, target: End, at: int, to: int) -> None:
        old, add = self.rng.getrandbits(64), self.rng.getrandbits(32)
        target.memory.write(to, old.to_bytes(8, "little"))
        self._disturb(source.memory, target.memory)
        request = self._request(source, at, 8, FETCH_ADD)
        request.set_wr_atomic(target.region.rkey, target.memory.address + to, add)
        source.qp.post_send(request)
        self._wait(1)
        assert source.memory.read(at, 8) == old.to_bytes(8, "little"), "atomic: old value"
        new = (old + add) % (1 << 64)
        assert target.memory.read(to, 8) == new.to_bytes(8, "little"), "atomic: new value"

    def _request(self, end: End, at: int, length: int, opcode: int) -> SendWR:
        return SendWR(num_sge=1, sg=[end.sge(at, length)], opcode=opcode, send_flags=SIGNALED)

    def _wait(self, completions: int) -> None:
        start = time.monotonic()
        deadline = start + COMPLETION_S
        while completions:
            number, found = self.cq.poll(completions)
            for completion in found:
                if completion.status != SUCCESS and time.monotonic() - start > KERNEL_S:
                    raise GaveUpError
                assert completion.status == SUCCESS, f"completion status {completion.status}"
            completions -= number
            assert time.monotonic() < deadline, "a completion never came"


def _difference(found: bytes, wanted: bytes) -> str:
    wrong = [at for at, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b]
    zeros = sum(not found[at] for at in wrong)
    return f"{len(wrong)} bytes differ from {wrong[0]} on, {zeros} of them are zero"


def work(device: str, deadline: float, seed: int) -> Counter[str]:
    """One process's traffic: the first end is mapped from a file, the second from nothing."""
    rng = random.Random(seed)
    with tempfile.TemporaryFile(dir="/var/tmp") as file, contextlib.ExitStack() as stack:
        file.truncate(REGION)
        context = stack.enter_context(Context(name=device))
        lid = context.query_port(1).lid
        pd, cq = PD(context), CQ(context, CQ_SIZE)
        caps = context.query_device_ex().odp_caps
        has_implicit = caps.general_caps & IMPLICIT_PAGING
        memories = Memory(file.fileno()), Memory(None)
        implicit = [bool(has_implicit) and rng.random() < 0.5 for _ in memories]
        ends = connected(pd, cq, lid, memories, implicit)
        traffic = Traffic(pd, cq, ends, rng, has_atomics=bool(caps.rc_odp_caps & ATOMICS))
        while time.monotonic() < deadline:
            try:
                traffic.step()
            except GaveUpError:
                traffic.counts["given up by the kernel"] += 1
                for end in ends:
                    end.qp.close()
                    end.region.close()
                ends[:] = connected(pd, cq, lid, memories, implicit)
                while cq.poll(CQ_SIZE)[0]:
                    pass
        for end in ends:
            end.qp.close()
            end.region.close()
        return traffic.counts


def connected(
    pd: PD, cq: CQ, lid: int, memories: tuple[Memory, Memory], implicit: list[bool]
) -> list[End]:
    """Two ends that talk to each other."""
    ends = [
        End(pd, cq, memory, is_implicit=flag)
        for memory, flag in zip(memories, implicit, strict=True)
    ]
    ends[0].connect(lid, ends[1])
    ends[1].connect(lid, ends[0])
    return ends


def press(deadline: float) -> Counter[str]:
    """Memory pressure: take what is free, give it back, have the rest moved together."""
    counts: Counter[str] = Counter()
    while time.monotonic() < deadline:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) << 10
        with mmap.mmap(-1, max(free * 7 // 8 & -PAGE, PAGE)) as memory:
            for at in range(0, len(memory), PAGE):
                memory[at] = 1
                if time.monotonic() > deadline:
                    break
        Path("/proc/sys/vm/compact_memory").write_text("1")
        counts["pressure"] += 1
        time.sleep(1)
    return counts


def run_all(jobs: list[Callable[[], Counter[str]]]) -> tuple[Counter[str], int]:
    """Each job in a process of its own: the sum of what they did, and how many failed."""
    pipes = {}
    for number, job in enumerate(jobs):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            status = 0
            try:
                os.write(writer, json.dumps(job()).encode())
            except Exception as error:  # whatever it was, it is told
                sys.stderr.write(f"process {number}: {type(error).__name__}: {error}\n")
                status = 1
            sys.stderr.flush()
            os._exit(status)
        os.close(writer)
        pipes[pid] = reader
    total: Counter[str] = Counter()
    failed = 0
    for pid, reader in pipes.items():
        with open(reader, "rb") as answer:
            total.update(json.loads(answer.read() or b"{}"))
        failed += os.waitpid(pid, 0)[1] != 0
    return total, failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    jobs = [
        partial(work, options.device, deadline, options.seed + number)
        for number in range(options.processes)
    ]
    total, failed = run_all([*jobs, partial(press, deadline)])
    done = ", ".join(f"{count} x {what}" for what, count in sorted(total.items()))
    sys.stdout.write(f"{done}\n")
    if failed:
        sys.exit(f"{failed} processes failed")
    sys.stdout.write("data right every time\n")


if __name__ == "__main__":
    main()
