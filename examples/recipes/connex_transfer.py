"""Two engines of connex-rs, two processes: writes and reads of remote memory, compared.

The argument is the IP address of an RDMA function. Status 65: other data arrive.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import sys
from multiprocessing.connection import Connection
from typing import Any

from second_process import SecondProcess

SIZE = 1 << 20
SIZES = (64, 4096, 65_536, SIZE)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""
FIRST_PORT = 51_000
LIMIT_MS = 20_000
"""The time limit of a transfer; a peer without a heartbeat for as long has failed."""


def engine(stage: int) -> tuple[Any, ctypes.Array[ctypes.c_char], int]:
    """Return the engine of a stage, with registered memory and its address."""
    os.environ["UCX_NET_DEVICES"] = "mlx5_0:1"
    os.environ["UCX_TLS"] = "rc"
    import connex_rs

    made = connex_rs.Engine(
        "model",
        stage=stage,
        shard=0,
        replica=0,
        listen_ip=sys.argv[1],
        port=FIRST_PORT + stage,
        heartbeat_ms=LIMIT_MS // 10,
        heartbeat_timeout_ms=LIMIT_MS,
    )
    memory = ctypes.create_string_buffer(SIZE)
    address = ctypes.addressof(memory)
    made.register_memory(address, SIZE)
    return made, memory, address


def serve(pipe: Connection) -> None:
    """Own the remote memory until the other process says that it is done."""
    made, _memory, address = engine(1)
    pipe.send((made.local_url, address))
    with contextlib.suppress(EOFError):
        pipe.recv()
    made.close()


def main() -> int:
    """Return the exit status."""
    server = SecondProcess(serve)
    peer, remote = server.sent
    made, memory, address = engine(0)
    for size in SIZES * ROUNDS:
        data = random.Random(size).randbytes(size)
        ctypes.memmove(address, data, size)
        if status := made.transfer_sync_write(peer, address, remote, size, LIMIT_MS):
            print(f"a write of {size} bytes: status {status}", file=sys.stderr)
            return 1
        ctypes.memset(address, 0, size)
        if status := made.transfer_sync_read(peer, address, remote, size, LIMIT_MS):
            print(f"a read of {size} bytes: status {status}", file=sys.stderr)
            return 1
        if memory.raw[:size] != data:
            return 65
    made.close()
    server.end()
    print(f"connex: {len(SIZES)} sizes written, read and compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
