"""Measures, in the guest, ``ibv_reg_mr`` of resident memory; prints seconds as JSON.

Arguments: device, MiB, repetitions. The memory is mapped and touched before the clock starts.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import time

from pyverbs.device import Context
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE


def main(device: str, mebibytes: int, rounds: int) -> None:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    memory = mmap.mmap(-1, mebibytes << 20, flags)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    seconds = []
    with Context(name=device) as context, PD(context) as pd:
        for _ in range(rounds):
            start = time.perf_counter()
            region = MR(pd, len(memory), ACCESS, address=address)
            seconds.append(time.perf_counter() - start)
            region.close()
    print(json.dumps(seconds))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
