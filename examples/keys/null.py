#!/usr/bin/env python3
"""A null memory region (ibv_alloc_null_mr(3)): reads as zeros, swallows what is written.

Runs in a guest (python3-pyverbs):

    mlx5emu run --share examples/keys -- python3 /mnt/share/null.py

python3-pyverbs does not have the call. In C it is inline and goes through the table in front of the
device's context, which only ever grows at its front: here it is found from the other end.
"""

from __future__ import annotations

import argparse
import ctypes
import sys

from churn import LOCAL_WRITE, REMOTE_WRITE, SIGNALED, End
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.wr import SGE, RecvWR, SendWR

SEND, WRITE = 2, 0
SIZE, HOLE, EDGE = 4096, 1000, 16
DATA = bytes(range(1, 251)) * 16

_ALLOC_NULL_MR = -38 * ctypes.sizeof(ctypes.c_void_p)
"""Where the call stands, from the ibv_context behind the table (verbs.h: verbs_context)."""
_LKEY = 36
"""Offset in ibv_mr."""


class Null:
    """Null regions of a device, by a context of libibverbs' own."""

    def __init__(self, device: str) -> None:
        verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        pointer = ctypes.c_void_p
        for name in ("ibv_get_device_list", "ibv_get_device_name", "ibv_open_device"):
            getattr(verbs, name).argtypes = (pointer,)
        verbs.ibv_get_device_list.restype = ctypes.POINTER(pointer)
        verbs.ibv_get_device_name.restype = ctypes.c_char_p
        verbs.ibv_open_device.restype = pointer
        verbs.ibv_alloc_pd.argtypes, verbs.ibv_alloc_pd.restype = (pointer,), pointer
        devices = {}
        for found in verbs.ibv_get_device_list(None):
            if not found:
                break
            devices[verbs.ibv_get_device_name(found).decode()] = found
        self.context = verbs.ibv_open_device(devices[device])
        self.pd = verbs.ibv_alloc_pd(self.context)

    def lkey(self) -> int:
        """Of a new null region."""
        entry = pointer_at(self.context + _ALLOC_NULL_MR)
        region = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, use_errno=True)(entry)(self.pd)
        if not region:
            sys.exit("null: the device has no null regions")
        return ctypes.c_uint32.from_address(region + _LKEY).value


def pointer_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def check(found: bytes, wanted: bytes, what: str) -> None:
    if found != wanted:
        sys.exit(f"null: {what} is not what it should be")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    options = parser.parse_args()
    lkey = Null(options.device).lkey()
    context = Context(name=options.device)
    pd = PD(context)
    ends = [End(context, pd, sges=3) for _ in range(2)]
    lid = context.query_port(1).lid
    ends[0].connect(ends[1], lid)
    ends[1].connect(ends[0], lid)
    source, target = (MR(pd, SIZE, LOCAL_WRITE | REMOTE_WRITE) for _ in range(2))
    source.write(DATA, len(DATA))

    def with_a_hole(region: MR) -> list[SGE]:
        return [
            SGE(region.buf, EDGE, region.lkey),
            SGE(0, HOLE, lkey),
            SGE(region.buf + EDGE, EDGE, region.lkey),
        ]

    target.write(DATA, len(DATA))
    request = SendWR(num_sge=3, sg=with_a_hole(source), opcode=WRITE, send_flags=SIGNALED)
    request.set_wr_rdma(target.rkey, target.buf)
    ends[0].qp.post_send(request)
    ends[0].wait(1)
    holed = DATA[:EDGE] + bytes(HOLE) + DATA[EDGE : 2 * EDGE]
    check(target.read(len(holed) + 1, 0), holed + DATA[len(holed) : len(holed) + 1], "the WRITE")

    ends[1].qp.post_recv(RecvWR(num_sge=3, sg=with_a_hole(target)))
    whole = SGE(source.buf, 2 * EDGE + HOLE, source.lkey)
    ends[0].qp.post_send(SendWR(num_sge=1, sg=[whole], opcode=SEND, send_flags=SIGNALED))
    ends[0].wait(1)
    ends[1].wait(1)
    end = EDGE + HOLE
    check(target.read(2 * EDGE, 0), DATA[:EDGE] + DATA[end : end + EDGE], "what arrived")
    sys.stdout.write(f"lkey {lkey:#x}: sent zeros, and swallowed {HOLE} bytes\n")


if __name__ == "__main__":
    main()
