"""Starway's server and client: messages of many sizes there and back, compared.

The argument is the IP address of an RDMA function. Status 65: other data arrive.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

os.environ["UCX_NET_DEVICES"] = "mlx5_0:1"
os.environ["UCX_TLS"] = "rc,self"

import numpy as np
from starway import Client, Server

SIZES = (64, 4096, 65_536, 1 << 20)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""
PORT = 19_198


async def exchange(address: str) -> int:
    """Return the exit status of a client that sends, and receives what the server sends back."""
    server, client = Server(), Client()
    server.listen(address, PORT)
    await client.aconnect(address, PORT)
    (peer,) = server.list_clients()
    for tag, size in enumerate(SIZES * ROUNDS):
        data = np.frombuffer(random.Random(size).randbytes(size), dtype=np.uint8).copy()
        there, back = np.zeros_like(data), np.zeros_like(data)
        arrives = server.arecv(there, tag, 0xFFFF)
        await client.asend(data, tag)
        await arrives
        arrives = client.arecv(back, tag, 0xFFFF)
        await server.asend(peer, there, tag)
        await arrives
        if not np.array_equal(back, data):
            return 65
    await asyncio.gather(client.aclose(), server.aclose())
    return 0


def main() -> int:
    """Return the exit status."""
    try:
        status = asyncio.run(exchange(sys.argv[1]))
    except Exception as error:  # of a library that raises Exception itself
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"starway: {len(SIZES)} sizes sent, sent back and compared")
    return status


sys.exit(main())
