#!/usr/bin/env python3
"""RDS over RDMA between two guests: datagrams that arrive, and in order, without a connection.

After `modprobe rds_rdma`, with an address on each guest's interface:
    rds.py 10.0.0.1              sends back what comes to this address
    rds.py 10.0.0.2 10.0.0.1     sends messages of many sizes from the first to the second address,
                                 and compares what comes back
Two guests, because within one the kernel delivers messages by itself.
"""

from __future__ import annotations

import random
import socket
import sys

PORT = 4000
WRONG_DATA = 65
"""Exit status if other data come back."""
SIZES = (1, 100, 4096, 65536, 200_000)
"""The largest is near what net.core.wmem_max allows."""

SOL_RDS, SO_RDS_TRANSPORT, RDS_TRANS_IB = 276, 8, 0


def opened(address: str) -> socket.socket:
    """A socket that has no other way than RDMA."""
    opened = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    opened.setsockopt(SOL_RDS, SO_RDS_TRANSPORT, RDS_TRANS_IB)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    opened.bind((address, PORT))
    opened.settimeout(60)
    return opened


def serve(here: socket.socket) -> None:
    sys.stdout.write("rds: waits\n")
    sys.stdout.flush()
    for _ in SIZES:
        data, peer = here.recvfrom(1 << 20)
        here.sendto(data, peer)
    here.recvfrom(1 << 20)  # the peer has everything; before that nothing may end here


def call(here: socket.socket, there: str) -> None:
    for size in SIZES:
        data = random.Random(size).randbytes(size)
        here.sendto(data, (there, PORT))
        if here.recvfrom(1 << 20)[0] != data:
            sys.stderr.write(f"rds: {size} bytes came back changed\n")
            sys.exit(WRONG_DATA)
    here.sendto(b"end", (there, PORT))
    sys.stdout.write(f"rds: {len(SIZES)} messages came back as they were\n")


if __name__ == "__main__":
    addresses = sys.argv[1:]
    mine = opened(addresses[0])
    serve(mine) if len(addresses) == 1 else call(mine, addresses[1])
