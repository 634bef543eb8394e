#!/usr/bin/env python3
"""Memory windows over memory that is paged on demand, while a thread takes its pages away.

Runs in a guest on any device with on-demand paging and type 2 memory windows (python3-pyverbs):

    mlx5emu run --share examples/paging -- python3 /mnt/share/windows.py --seconds 600

Each process binds a window to part of a region, reads and writes through it from another queue
pair, invalidates it, and deregisters the region now and then. Meanwhile a thread discards the
region's pages and maps the region over itself. One request in ten is wrong on purpose, and has to
fail; some race with the window's invalidation, and may. All others have to succeed, with the bytes
that were sent. What the driver may refuse then, by its ``PAGE FAULT error`` (dynamic debug of
odp.c):

- -14, EFAULT: the memory is not mapped, which is one of the wrong requests.
- -16, EBUSY: pages have gone for longer than the kernel tries (HMM_RANGE_DEFAULT_TIMEOUT, a
  second). One invalidation is enough when the second has passed, as on a host that lets the guest
  or the device wait for so long. That request is counted and told on stderr.

``--deregister`` deregisters regions while requests use them, and registers them again, often with
the same key. A page fault of the last region is then taken for one of the new region's, and refused
(EFAULT) where its address is not there; with ``odp=2`` one of a key that no region has is, too.
Linux 6.12 makes new regions known before their keys are valid (hw/mr.c: create_user_odp_mr). A page
fault that comes in between makes the driver update such a key by a UMR that must fail then
(MW_BIND_ERR): the kernel warns in mlx5r_umr_post_send_wait, and refuses the page fault.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from pyverbs.addr import AHAttr
from pyverbs.base import inc_rkey
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE
from stress import COMPLETION_S, KERNEL_S, ON_DEMAND, PAGE, RC, REGION, SUCCESS, Memory, run_all

# The numbers are infiniband/verbs.h's: the modules that name them differ between versions.
WINDOW_TYPE_2, SIGNALED = 2, 2
WITH_PD, WITH_SEND_OPS = 1 << 0, 1 << 6
OPS = 1 << 0 | 1 << 4 | 1 << 7 | 1 << 8  # write, read, local invalidate, bind
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, BIND = 1, 2, 4, 16
REMOTE_ACCESS_ERR = 10

ONE_WRONG_IN = ONE_RACE_IN = 10
WRONG = ("old tag", "too long", "no right", "invalidated", "unmapped")
INVALIDATED, DEREGISTERED = "invalidated meanwhile", "deregistered meanwhile"
NEW_REGION_EVERY = 17
LEAST = ONE_WRONG_IN * len(WRONG)
"""Requests of a process, however short the time: each mistake is made once."""
POLL_S = 0.0002


class End:
    """A queue pair with its completion queue."""

    def __init__(self, context: Context, pd: PD) -> None:
        self.cq = CQ(context, 16)
        attr = QPInitAttrEx(
            cap=QPCap(max_send_wr=8, max_recv_wr=1), qp_type=RC, scq=self.cq, rcq=self.cq, pd=pd,
            send_ops_flags=OPS, comp_mask=WITH_PD | WITH_SEND_OPS,
        )  # fmt: skip
        self.qp = QPEx(context, attr)

    def connect(self, other: End, lid: int) -> None:
        attr = QPAttr(port_num=1, path_mtu=3)
        attr.dest_qp_num = other.qp.qp_num
        attr.qp_access_flags = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.ah_attr = AHAttr(dlid=lid, port_num=1, is_global=0)
        self.qp.to_rts(attr)

    @contextlib.contextmanager
    def posting(self) -> Iterator[None]:
        """For one request."""
        self.qp.wr_start()
        self.qp.wr_id, self.qp.wr_flags = 1, SIGNALED
        yield
        self.qp.wr_complete()

    def wait(self) -> int:
        """The status of the next completion."""
        deadline = time.monotonic() + COMPLETION_S
        while True:
            number, found = self.cq.poll()
            if number:
                return int(found[0].status)
            assert time.monotonic() < deadline, "a completion never came"
            time.sleep(POLL_S)  # one who does not rest keeps the interpreter from the thread

    def close(self) -> None:
        self.qp.close()
        self.cq.close()


class Request(NamedTuple):
    """An RDMA through the window, which is bound to just its range."""

    is_write: bool
    at: int
    length: int
    wrong: str | None
    """What is wrong on purpose."""
    race: str | None
    """What happens meanwhile, that would make it wrong."""

    def __str__(self) -> str:
        kind = "write" if self.is_write else "read"
        return f"{self.wrong or self.race or 'right'}: {kind} of {self.length} bytes"


class Thief(threading.Thread):
    """Takes pages of a mapping away, over and over, while it is told to."""

    def __init__(self, memory: Memory, seed: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.memory, self.random, self.pause = memory, random.Random(seed), pause
        self.lock = threading.Lock()
        self.taken = 0

    def run(self) -> None:
        while True:
            with self.lock:
                self._take()
            self.taken += 1
            time.sleep(self.pause)

    def _take(self) -> None:
        if self.random.random() < 0.2:
            self.memory.replace()
        else:
            start = self.random.randrange(REGION // PAGE)
            self.memory.discard(start, self.random.randint(1, REGION // PAGE - start))


class Traffic:
    """Requests through a window, one at a time, each with the outcome that it must have."""

    def __init__(self, context: Context, seed: int, pause: float, races: tuple[str, ...]) -> None:
        self.races = races
        self.context, self.pd, self.random = context, PD(context), random.Random(seed)
        self.lid = context.query_port(1).lid
        file = os.memfd_create("paged")
        os.ftruncate(file, REGION)
        self.memory, self.counts = Memory(file), Counter[str]()
        self.local = MR(self.pd, REGION, LOCAL_WRITE)
        self.thief = Thief(self.memory, seed, pause)
        self._register()
        self._connect()
        self.thief.start()

    def _register(self) -> None:
        rights = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | BIND | ON_DEMAND
        self.region = MR(self.pd, REGION, rights, address=self.memory.address)

    def _connect(self) -> None:
        self.server, self.client = End(self.context, self.pd), End(self.context, self.pd)
        self.server.connect(self.client, self.lid)
        self.client.connect(self.server, self.lid)
        self.window = MW(self.pd, WINDOW_TYPE_2)
        self.key = self.window.rkey

    def _renew(self) -> None:
        """A failed request has stopped the queue pairs, and with its own its window is lost."""
        for old in (self.window, self.client, self.server):
            old.close()
        self._connect()

    def step(self, number: int) -> None:
        """Bind, use, invalidate."""
        if number % NEW_REGION_EVERY == 0:
            self.region.close()
            self._register()
        request = self._choose(number)
        old_key, data = self.key, self.random.randbytes(request.length)
        self._bind(request)
        if request.wrong == "invalidated":
            self._invalidate()
        key = old_key if request.wrong == "old tag" else self.key
        self._fill(request, data)
        status, took = self._carry_out(request, key)
        self._judge(request, status, took)
        if status == SUCCESS:
            self._compare(request, data)
        if status == SUCCESS and request.race is None:
            self._invalidate()
        else:
            self._renew()

    def _choose(self, number: int) -> Request:
        rng = self.random
        length = rng.randint(1, REGION - PAGE)
        at = rng.randrange(REGION - length)
        turn, is_right = divmod(number, ONE_WRONG_IN)
        wrong = None if is_right else WRONG[turn % len(WRONG)]
        race = rng.choice(self.races) if wrong is None and rng.randrange(ONE_RACE_IN) == 0 else None
        is_write = wrong == "no right" or rng.random() < 0.5
        return Request(is_write, at, length, wrong, race)

    def _bind(self, request: Request) -> None:
        self.key = inc_rkey(self.key)
        rights = REMOTE_READ if request.wrong == "no right" else REMOTE_READ | REMOTE_WRITE
        start = self.memory.address + request.at
        info = MWBindInfo(self.region, start, request.length, rights)
        with self.server.posting():
            self.server.qp.wr_bind_mw(self.window, self.key, info)
        assert self.server.wait() == SUCCESS, "bind"

    def _invalidate(self) -> None:
        with self.server.posting():
            self.server.qp.wr_local_inv(self.key)
        assert self.server.wait() == SUCCESS, "invalidate"

    def _fill(self, request: Request, data: bytes) -> None:
        if request.is_write:
            self.local.write(data, request.length)
        else:
            self.memory.write(request.at, data)

    def _compare(self, request: Request, data: bytes) -> None:
        at, length = request.at, request.length
        found = self.memory.read(at, length) if request.is_write else self.local.read(length, 0)
        assert found == data, "the bytes are not those that were sent"

    def _carry_out(self, request: Request, key: int) -> tuple[int, float]:
        """Status and seconds."""
        is_unmapped = request.wrong == "unmapped"
        with self.thief.lock if is_unmapped else contextlib.nullcontext():
            if is_unmapped:
                self.memory.unmap()
            self._post(request, key)
            start = time.monotonic()
            self._race(request.race)
            status, took = self.client.wait(), time.monotonic() - start
            if is_unmapped:
                self.memory.replace()
        return status, took

    def _post(self, request: Request, key: int) -> None:
        qp, length = self.client.qp, request.length + (request.wrong == "too long")
        post = qp.wr_rdma_write if request.is_write else qp.wr_rdma_read
        with self.client.posting():
            post(key, self.memory.address + request.at)
            qp.wr_set_sge(SGE(self.local.buf, length, self.local.lkey))

    def _race(self, race: str | None) -> None:
        """What would make the request wrong, if it came earlier."""
        if race == INVALIDATED:
            self._invalidate()
        elif race == DEREGISTERED:
            self.region.close()
            self._register()

    def _judge(self, request: Request, status: int, took: float) -> None:
        said = f"{request}: status {status} after {took:.3f} s"
        assert status in (SUCCESS, REMOTE_ACCESS_ERR), said
        outcome = request.wrong or "right"
        if request.wrong is not None:
            assert status == REMOTE_ACCESS_ERR, said
        elif request.race is not None:
            outcome = f"{request.race}, {'and failed' if status else 'too late'}"
        elif status != SUCCESS:
            assert took > KERNEL_S, said
            outcome = "given up by the kernel"
            sys.stderr.write(f"{said}\n")
        self.counts[outcome] += 1


def work(
    device: str, deadline: float, pause: float, races: tuple[str, ...], seed: int
) -> Counter[str]:
    """One process's requests."""
    with Context(name=device) as context:
        traffic = Traffic(context, seed, pause, races)
        number = 1
        while number <= LEAST or time.monotonic() < deadline:
            traffic.step(number)
            number += 1
        with traffic.thief.lock:  # it takes nothing any more
            traffic.counts["pages taken away"] = traffic.thief.taken
            for thing in (traffic.window, traffic.client, traffic.server, traffic.region):
                thing.close()
        return traffic.counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.002, help="seconds the thread rests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deregister", action="store_true", help="regions that are in use, too")
    options = parser.parse_args()
    races = (INVALIDATED, DEREGISTERED) if options.deregister else (INVALIDATED,)
    deadline = time.monotonic() + options.seconds
    jobs: list[Callable[[], Counter[str]]] = [
        partial(work, options.device, deadline, options.pause, races, options.seed + number)
        for number in range(options.processes)
    ]
    total, failed = run_all(jobs)
    done = ", ".join(f"{count} x {what}" for what, count in sorted(total.items()))
    sys.stdout.write(f"{done}\n")
    if failed:
        sys.exit(f"{failed} processes failed")
    sys.stdout.write("data right every time\n")


if __name__ == "__main__":
    main()
