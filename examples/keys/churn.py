#!/usr/bin/env python3
"""Memory keys at work, over and over: regions come and go, windows are bound, used, invalidated.

Runs in a guest on any device with type 2 memory windows (python3-pyverbs):

    mlx5emu run --share examples/keys -- python3 /mnt/share/churn.py --turns 100000

Each round registers a region, binds a window to every slice of it, each with the next tag, writes
through all windows from another queue pair, compares the region with what was written, invalidates
half of the windows here and half by the other end, and deregisters the region. A turn is one window
bound, used and invalidated. At the end the kernel holds as many objects as before.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time

import pyverbs.mem_alloc as mem
from pyverbs.addr import AHAttr
from pyverbs.base import inc_rkey
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

# The numbers are infiniband/verbs.h's: the modules that name them differ between versions.
RC, WINDOW_TYPE_2 = 2, 2
LOCAL_WRITE, REMOTE_WRITE, MW_BIND = 1, 2, 16
SIGNALED = 2
WITH_PD, WITH_SEND_OPS = 1 << 0, 1 << 6
OPS = 1 << 0 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 9  # write, send, local inv, bind, send with inv
SUCCESS = 0

WINDOWS = 16
SLICE = 256
SIZE = WINDOWS * SLICE
DEPTH = 4 * WINDOWS
POLL_SECONDS = 30


class End:
    """A queue pair with a completion queue of its own."""

    def __init__(self, ctx: Context, pd: PD, sges: int = 1) -> None:
        self.cq = CQ(ctx, 2 * DEPTH)
        attr = QPInitAttrEx(
            cap=QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=sges, max_recv_sge=sges),
            qp_type=RC, scq=self.cq, rcq=self.cq, pd=pd, send_ops_flags=OPS,
            comp_mask=WITH_PD | WITH_SEND_OPS,
        )  # fmt: skip
        self.qp = QPEx(ctx, attr)

    def connect(self, other: End, lid: int) -> None:
        attr = QPAttr(port_num=1, path_mtu=5)
        attr.dest_qp_num = other.qp.qp_num
        attr.qp_access_flags = LOCAL_WRITE | REMOTE_WRITE
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 18, 7, 7
        attr.ah_attr = AHAttr(dlid=lid, port_num=1, is_global=0)
        self.qp.to_rts(attr)

    def wait(self, count: int) -> None:
        """Take so many completions; each is a success."""
        deadline = time.monotonic() + POLL_SECONDS
        while count:
            polled, completions = self.cq.poll(count)
            for completion in completions:
                if completion.status != SUCCESS:
                    sys.exit(f"churn: completion status {completion.status}")
            count -= polled
            if time.monotonic() > deadline:
                sys.exit(f"churn: {count} completions are missing")


class Churn:
    """The two ends and what they share."""

    def __init__(self, device: str, seed: int) -> None:
        self.ctx = Context(name=device)
        self.pd = PD(self.ctx)
        self.server, self.client = End(self.ctx, self.pd), End(self.ctx, self.pd)
        lid = self.ctx.query_port(1).lid
        self.server.connect(self.client, lid)
        self.client.connect(self.server, lid)
        self.buffer = mem.mmap(length=SIZE)
        self.source = MR(self.pd, SIZE, LOCAL_WRITE)
        self.windows = [MW(self.pd, WINDOW_TYPE_2) for _ in range(WINDOWS)]
        self.keys = [window.rkey for window in self.windows]
        self.random = random.Random(seed)

    def round(self, number: int) -> None:
        """Every window once."""
        region = MR(self.pd, SIZE, LOCAL_WRITE | MW_BIND, address=self.buffer)
        data = self.random.randbytes(SIZE)
        self.source.write(data, SIZE)
        self.bind(region)
        self.write()
        if region.read(SIZE, 0) != data:
            sys.exit(f"churn: round {number}: the region is not what was written")
        self.invalidate()
        region.close()

    def bind(self, region: MR) -> None:
        """Each window to its slice, with the next tag."""
        qp = self.server.qp
        qp.wr_start()
        for index, window in enumerate(self.windows):
            self.keys[index] = inc_rkey(self.keys[index])
            qp.wr_id, qp.wr_flags = index, SIGNALED if index == WINDOWS - 1 else 0
            at = self.buffer + index * SLICE
            qp.wr_bind_mw(window, self.keys[index], MWBindInfo(region, at, SLICE, REMOTE_WRITE))
        qp.wr_complete()
        self.server.wait(1)

    def write(self) -> None:
        """From the other end, through every window."""
        qp = self.client.qp
        qp.wr_start()
        for index, key in enumerate(self.keys):
            qp.wr_id, qp.wr_flags = index, SIGNALED if index == WINDOWS - 1 else 0
            qp.wr_rdma_write(key, self.buffer + index * SLICE)
            qp.wr_set_sge(SGE(self.source.buf + index * SLICE, SLICE, self.source.lkey))
        qp.wr_complete()
        self.client.wait(1)

    def invalidate(self) -> None:
        """The even ones here, the odd ones by the other end."""
        qp = self.server.qp
        here, there = self.keys[::2], self.keys[1::2]
        nothing = SGE(self.source.buf, 0, self.source.lkey)
        for _ in there:
            qp.post_recv(RecvWR(sg=[nothing], num_sge=1))
        qp.wr_start()
        for key in here:
            qp.wr_id, qp.wr_flags = 0, SIGNALED
            qp.wr_local_inv(key)
        qp.wr_complete()
        qp = self.client.qp
        qp.wr_start()
        for key in there:
            qp.wr_id, qp.wr_flags = 0, SIGNALED
            qp.wr_send_inv(key)
            qp.wr_set_sge(nothing)
        qp.wr_complete()
        self.client.wait(len(there))
        self.server.wait(len(here) + len(there))

    def close(self) -> None:
        """Give everything back."""
        for window in self.windows:
            window.close()
        self.source.close()
        for end in (self.client, self.server):
            end.qp.close()
            end.cq.close()
        self.pd.close()
        self.ctx.close()
        mem.munmap(self.buffer, SIZE)


def objects() -> dict[str, int]:
    """How many objects of each kind the kernel knows."""
    found = subprocess.run(["rdma", "-j", "resource", "show"], capture_output=True, check=True)
    return {
        f"{device['ifname']} {kind}": device[kind]
        for device in json.loads(found.stdout)
        for kind in ("pd", "cq", "qp", "mr", "ctx")
    }


def main() -> None:
    """Churn, and say how fast it was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    parser.add_argument("--turns", type=int, default=3200, help="windows bound and invalidated")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.device, options.seed, 1)  # the driver makes queues of its own for the first region
    before = objects()
    start = time.monotonic()
    rounds = run(options.device, options.seed, options.turns)
    seconds = time.monotonic() - start
    after = objects()
    if after != before:
        sys.exit(f"churn: left behind: {before} before, {after} after")
    sys.stdout.write(
        f"{rounds * WINDOWS} turns, {rounds} regions, data right every time, nothing left:"
        f" {seconds:.1f} s\n"
    )


def run(device: str, seed: int, turns: int) -> int:
    """Churn with objects of its own; how many rounds it took."""
    churn = Churn(device, seed)
    rounds = -(-turns // WINDOWS)
    for number in range(rounds):
        churn.round(number)
    churn.close()
    return rounds


if __name__ == "__main__":
    main()
