#!/usr/bin/env python3
"""libmlx5 copies received data to an address that is only the adapter's (user space's, not ours).

Runs in a guest (python3-pyverbs), and ends with SIGSEGV in libmlx5:

    mlx5emu run --share examples/findings -- \
        python3 /mnt/share/scattered-data-of-a-region-with-an-iova.py

A region by ibv_reg_mr_iova(3) has addresses for the adapter that need not be the program's. Data
of a short message come in its completion; whoever polls that has libmlx5 copy them to the receive
request's address. With MLX5_SCATTER_TO_CQE=0 they come to memory, and the program prints them.
"""

import ctypes
import mmap
import os
import sys
import time
from collections.abc import Callable
from functools import partial

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LOCAL_WRITE, RC, SEND, SIGNALED, MTU_1024 = 1, 2, 2, 2, 3
IOVA, SIZE, SECONDS = 0x1000, 4096, 30
_LKEY = 36
"""Offset in ibv_mr."""
DATA = b"a short message."


def region_at(context: Context, pd: PD, memory: mmap.mmap) -> tuple[int, Callable[[], int]]:
    """Register memory at IOVA; return its lkey, and its end. pyverbs does not have the call."""
    verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name in ("ibv_import_device", "ibv_import_pd", "ibv_reg_mr_iova"):
        getattr(verbs, name).restype = pointer
    verbs.ibv_import_pd.argtypes = (pointer, ctypes.c_uint32)
    verbs.ibv_reg_mr_iova.argtypes = (pointer, pointer, size, ctypes.c_uint64, ctypes.c_int)
    same = verbs.ibv_import_pd(verbs.ibv_import_device(os.dup(context.cmd_fd)), pd.handle)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    region = verbs.ibv_reg_mr_iova(same, start, SIZE, IOVA, LOCAL_WRITE)
    if not region:
        sys.exit(f"ibv_reg_mr_iova: {os.strerror(ctypes.get_errno())}")
    end = partial(verbs.ibv_dereg_mr, pointer(region))
    return ctypes.c_uint32.from_address(region + _LKEY).value, end


def connect(qp: QP, peer: QP, lid: int) -> None:
    attr = QPAttr(port_num=1)
    attr.dest_qp_num, attr.path_mtu = peer.qp_num, MTU_1024
    attr.ah_attr = AHAttr(dlid=lid, port_num=1)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    qp.to_rts(attr)


def main() -> None:
    context = Context(name="mlx5_0")
    pd, memory = PD(context), mmap.mmap(-1, SIZE)
    source, (lkey, end) = MR(pd, SIZE, LOCAL_WRITE), region_at(context, pd, memory)
    cqs = [CQ(context, 4) for _ in range(2)]
    cap = QPCap(max_send_wr=2, max_recv_wr=2)
    one, two = (QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=cap)) for cq in cqs)
    lid = context.query_port(1).lid
    connect(one, two, lid)
    connect(two, one, lid)
    source.write(DATA, len(DATA))
    two.post_recv(RecvWR(num_sge=1, sg=[SGE(IOVA, len(DATA), lkey)]))
    sent = SGE(source.buf, len(DATA), source.lkey)
    one.post_send(SendWR(num_sge=1, sg=[sent], opcode=SEND, send_flags=SIGNALED))
    until, found = time.monotonic() + SECONDS, 0
    while not found and time.monotonic() < until:
        found, _ = cqs[1].poll()
    sys.stdout.write(f"{memory[: len(DATA)].decode()}\n" if found else "no completion\n")
    end()


if __name__ == "__main__":
    main()
