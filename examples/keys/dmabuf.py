#!/usr/bin/env python3
"""A memory region of a dma-buf (ibv_reg_dmabuf_mr(3)), as a graphics card exports its memory.

Runs in a guest (python3-pyverbs):

    mlx5emu run --share examples/keys -- python3 /mnt/share/dmabuf.py

Here udmabuf exports it, which makes dma-bufs of ordinary memory: of pages in any order, so that
the region's bytes lie apart. They are seen through the dma-buf, and compared.
"""

from __future__ import annotations

import argparse
import fcntl
import mmap
import os
import struct
import sys
import time

from churn import LOCAL_WRITE, REMOTE_WRITE, SIGNALED, End
from pyverbs.device import Context
from pyverbs.mr import MR, DmaBufMR
from pyverbs.pd import PD
from pyverbs.wr import SGE, RecvWR, SendWR

WRITE, SEND = 0, 2
REMOTE_ACCESS_ERROR = 10
PAGE, PAGES = 4096, 16
OFFSET = 2 * PAGE + 512
LENGTH = 9 * PAGE + 100
_POLL_SECONDS = 30

_CREATE_LIST = 0x40087543
"""include/uapi/linux/udmabuf.h: UDMABUF_CREATE_LIST."""


def dma_buf() -> int:
    """A descriptor of a dma-buf of so many pages; the last of the memory's is its first."""
    memory = os.memfd_create("buffer", os.MFD_ALLOW_SEALING)
    os.truncate(memory, PAGES * PAGE)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    parts = [struct.pack("IIQQ", memory, 0, page * PAGE, PAGE) for page in reversed(range(PAGES))]
    device = os.open("/dev/udmabuf", os.O_RDWR)
    # What can be changed is changed, and only then the descriptor is what is returned.
    words = bytearray(struct.pack("II", 1, PAGES) + b"".join(parts))
    return int(fcntl.ioctl(device, _CREATE_LIST, words))


def check(found: bytes, wanted: bytes, what: str) -> None:
    if found != wanted:
        sys.exit(f"dmabuf: {what} is not what it should be")


def status_of(end: End) -> int:
    """Of the next completion."""
    deadline = time.monotonic() + _POLL_SECONDS
    while time.monotonic() < deadline:
        for completion in end.cq.poll(1)[1]:
            return int(completion.status)
    sys.exit("dmabuf: a completion is missing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    context = Context(name=parser.parse_args().device)
    pd = PD(context)
    here, there = End(context, pd), End(context, pd)
    lid = context.query_port(1).lid
    here.connect(there, lid)
    there.connect(here, lid)

    descriptor = dma_buf()
    seen = mmap.mmap(descriptor, PAGES * PAGE)
    region = DmaBufMR(pd, LENGTH, LOCAL_WRITE | REMOTE_WRITE, dmabuf=descriptor, offset=OFFSET)
    plain = MR(pd, LENGTH, LOCAL_WRITE | REMOTE_WRITE)
    data = os.urandom(LENGTH)
    plain.write(data, LENGTH)

    # Its addresses begin with its offset in the dma-buf.
    request = SendWR(
        num_sge=1, sg=[SGE(plain.buf, LENGTH, plain.lkey)], opcode=WRITE, send_flags=SIGNALED
    )
    request.set_wr_rdma(region.rkey, OFFSET)
    here.qp.post_send(request)
    here.wait(1)
    check(seen[OFFSET : OFFSET + LENGTH], data, "what was written")
    check(seen[:OFFSET] + seen[OFFSET + LENGTH :], bytes(PAGES * PAGE - LENGTH), "the rest")

    seen[OFFSET : OFFSET + LENGTH] = data[::-1]
    plain.write(bytes(LENGTH), LENGTH)
    there.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(plain.buf, LENGTH, plain.lkey)]))
    gathered = [SGE(OFFSET, LENGTH, region.lkey)]
    here.qp.post_send(SendWR(num_sge=1, sg=gathered, opcode=SEND, send_flags=SIGNALED))
    here.wait(1)
    there.wait(1)
    check(plain.read(LENGTH, 0), data[::-1], "what was sent")

    request.set_wr_rdma(region.rkey, OFFSET + 1)
    here.qp.post_send(request)
    if status_of(here) != REMOTE_ACCESS_ERROR:
        sys.exit("dmabuf: a write beyond the region was not refused")
    check(seen[OFFSET : OFFSET + LENGTH], data[::-1], "what a refused write leaves")
    region.close()
    sys.stdout.write(f"{LENGTH} bytes written, sent and compared, one more refused\n")


if __name__ == "__main__":
    main()
