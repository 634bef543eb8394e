#!/usr/bin/env python3
"""Requests that fail, as libmlx5 and UCX would tell of them. Runs in a guest.

    failures.py DEVICE          a line for each: its name, and the codes of its completion
    failures.py DEVICE full     makes queue pairs until there are no more: how many, and the error

The codes are those of the completion that libmlx5 dumps, in UCX's form. One WRITE with immediate
data finds no receive request: a line says how many of its 8192 bytes have come.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2 | 4 | 8  # local write, remote write, read and atomics
RC, UD = 2, 4
RDMA_WRITE, RDMA_WRITE_WITH_IMM, SEND, RDMA_READ = 0, 1, 2, 4
MTU_1024 = 3
SIZE = 8192
SECONDS = 60
BAD_KEY = 0xBAD00


class Pair:
    """Two connected queue pairs of one function; ``to`` is the receiver's memory."""

    def __init__(self, context: Context) -> None:
        self.pd = PD(context)
        self.source, self.to = (MR(self.pd, SIZE, ACCESS) for _ in range(2))
        self.source.write(b"1" * SIZE, SIZE)
        self.to.write(bytes(SIZE), SIZE)
        self.cqs = CQ(context, 16), CQ(context, 16)
        caps = QPCap(max_send_wr=4, max_recv_wr=4)
        self.one, self.two = (
            QP(self.pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=caps, sq_sig_all=1))
            for cq in self.cqs
        )
        lid = context.query_port(1).lid
        for own, peer in ((self.one, self.two), (self.two, self.one)):
            attr = QPAttr(port_num=1)
            attr.qp_access_flags, attr.dest_qp_num, attr.path_mtu = ACCESS, peer.qp_num, MTU_1024
            attr.ah_attr = AHAttr(dlid=lid, port_num=1)
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 14, 7, 0
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
            own.to_rts(attr)

    def post(
        self,
        opcode: int,
        length: int = 8,
        lkey: int | None = None,
        at: int = 0,
        rkey: int | None = None,
    ) -> None:
        """RDMA, from or to byte ``at`` of the sender's memory."""
        sge = SGE(self.source.buf + at, length, self.source.lkey if lkey is None else lkey)
        request = SendWR(opcode=opcode, num_sge=1, sg=[sge])
        request.set_wr_rdma(self.to.rkey if rkey is None else rkey, self.to.buf)
        self.one.post_send(request)

    def send(self, lkey: int) -> None:
        """To a receive request with this key."""
        self.two.post_recv(RecvWR(num_sge=1, sg=[SGE(self.to.buf, SIZE, lkey)]))
        sge = SGE(self.source.buf, 8, self.source.lkey)
        self.one.post_send(SendWR(opcode=SEND, num_sge=1, sg=[sge]))

    def wait(self, which: int) -> Any:
        """The first completion of the sender (0) or of the receiver (1)."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            count, found = self.cqs[which].poll()
            if count:
                return found[0]
        raise TimeoutError("no completion")


def dumped(pair: Pair, which: int) -> list[str]:
    """The words of the completion's last 16 bytes, which libmlx5 writes to its file."""
    pair.wait(which)
    ctypes.CDLL(None).fflush(None)
    return Path(os.environ["MLX5_DEBUG_FILE"]).read_text().splitlines()[-1].split()


def codes(word: str) -> str:
    """As UCX prints them."""
    hw, kind, vendor, syndrome = bytes.fromhex(word)
    return f"synd {syndrome:#x} vend {vendor:#x} hw_synd {kind >> 4}/{hw}"


FAILURES: dict[str, tuple[int, Callable[[Pair], None]]] = {
    "data to send: no such key": (0, lambda pair: pair.post(RDMA_WRITE, lkey=BAD_KEY)),
    "data to send: beyond the key": (0, lambda pair: pair.post(RDMA_WRITE, at=SIZE - 4)),
    "READ, its place beyond the key": (0, lambda pair: pair.post(RDMA_READ, at=SIZE - 4)),
    "receive request: no such key": (1, lambda pair: pair.send(BAD_KEY)),
    "peer's receive request: no such key": (0, lambda pair: pair.send(BAD_KEY)),
    "no receive request": (0, lambda pair: pair.post(RDMA_WRITE_WITH_IMM, length=SIZE)),
    "remote memory: no such key": (0, lambda pair: pair.post(RDMA_WRITE, rkey=BAD_KEY)),
}
"""By name: whose completion is read, the sender's (0) or the receiver's (1), and the request."""


def fail(context: Context) -> None:
    """Have each request fail."""
    for name, (which, post) in FAILURES.items():
        pair = Pair(context)
        post(pair)
        sys.stdout.write(f"{name}: {codes(dumped(pair, which)[1])}\n")
        if name == "no receive request":
            sys.stdout.write(f"bytes in place: {pair.to.read(SIZE, 0).count(b'1')}\n")
    sys.stdout.write(f"queue pair with remote memory: {pair.two.qp_num}\n")


def fill(context: Context) -> None:
    """Make queue pairs until no more can be made."""
    pd, cq, made = PD(context), CQ(context, 1), []
    caps = QPCap(max_send_wr=1, max_recv_wr=1)
    try:
        while True:
            made.append(QP(pd, QPInitAttr(qp_type=UD, scq=cq, rcq=cq, cap=caps)))
    except PyverbsRDMAError as error:
        sys.stdout.write(f"{len(made)} {errno.errorcode[error.error_code]}\n")


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as file:
        os.environ["MLX5_DEBUG_FILE"] = file.name
        (fill if "full" in sys.argv else fail)(Context(name=sys.argv[1]))
