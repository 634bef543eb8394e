"""Mooncake's store, its master and a client: values put and got by RDMA, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection

from mooncake.store import MooncakeDistributedStore
from second_process import SecondProcess

MASTER = "127.0.0.1:50051"
SEGMENT = 64 << 20
BUFFER = 16 << 20
SIZES = (64, 4096, 65_536, 1 << 20)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""


def part(device: str, segment: int) -> MooncakeDistributedStore:
    """Return a part of the store that offers ``segment`` bytes; exits if there can be none."""
    made = MooncakeDistributedStore()
    if made.setup("127.0.0.1", "P2PHANDSHAKE", segment, BUFFER, "rdma", device, MASTER):
        sys.exit(f"{device}: setup failed")
    return made


def serve(pipe: Connection) -> None:
    """Own the store's memory until the other process says that it is done."""
    made = part("mlx5_1", SEGMENT)
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        pipe.recv()
    made.close()


def wait_for(master: subprocess.Popen[bytes]) -> None:
    """Wait until the master accepts connections; exits if it ends."""
    host, port = MASTER.split(":")
    while master.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.2)
    sys.exit(f"the master ended with status {master.returncode}")


def exchange() -> int:
    """Return the exit status of a client that puts values, and gets them."""
    server = SecondProcess(serve)
    client = part("mlx5_0", 0)
    for number, size in enumerate(SIZES * ROUNDS):
        data = random.Random(number).randbytes(size)
        if status := client.put(f"key{number}", data):
            print(f"a put of {size} bytes: status {status}", file=sys.stderr)
            return 1
        got = client.get(f"key{number}")
        if not got:
            print(f"a get of {size} bytes: nothing", file=sys.stderr)
            return 1
        if got != data:
            return 65
    client.close()
    server.end()
    print(f"mooncake-store: {len(SIZES)} sizes put, got and compared")
    return 0


def main() -> int:
    """Return the exit status."""
    with subprocess.Popen(["mooncake_master", "--rpc_port", MASTER.split(":")[1]]) as master:
        try:
            wait_for(master)
            return exchange()
        finally:
            master.kill()


if __name__ == "__main__":
    sys.exit(main())
