"""InfiniStore's server and a client: blocks of a cache written and read by RDMA, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import asyncio
import ctypes
import random
import socket
import subprocess
import sys
import time

import infinistore

PORT, MANAGE_PORT = 22345, 18080
BLOCK, BLOCKS = 65_536, 8
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""
SERVER = [
    *(sys.executable, "-m", "infinistore.server", "--dev-name", "mlx5_1", "--prealloc-size", "1"),
    *("--service-port", str(PORT), "--manage-port", str(MANAGE_PORT), "--link-type", "IB"),
]


def is_listening() -> bool:
    """Return whether the server accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0


async def exchange() -> int:
    """Return the exit status of a client that writes blocks, and reads them."""
    connection = infinistore.InfinityConnection(
        infinistore.ClientConfig(
            host_addr="127.0.0.1",
            service_port=PORT,
            connection_type=infinistore.TYPE_RDMA,
            dev_name="mlx5_0",
            link_type=infinistore.LINK_IB,
        )
    )
    await connection.connect_async()
    size = BLOCK * BLOCKS
    memory = ctypes.create_string_buffer(size)
    address = ctypes.addressof(memory)
    connection.register_mr(address, size)
    for number in range(ROUNDS):
        data = random.Random(number).randbytes(size)
        ctypes.memmove(address, data, size)
        blocks = [(f"key{number}.{index}", index * BLOCK) for index in range(BLOCKS)]
        await connection.rdma_write_cache_async(blocks, BLOCK, address)
        ctypes.memset(address, 0, size)
        await connection.rdma_read_cache_async(blocks, BLOCK, address)
        if memory.raw[:size] != data:
            return 65
    connection.close()
    return 0


def main() -> int:
    """Return the exit status."""
    with subprocess.Popen(SERVER) as server:
        try:
            while not is_listening():
                if server.poll() is not None:
                    print(f"the server ended with status {server.returncode}", file=sys.stderr)
                    return 1
                time.sleep(0.2)
            status = asyncio.run(exchange())
        except Exception as error:  # of a library that raises Exception itself
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        finally:
            server.kill()
    print(f"infinistore: {ROUNDS} x {BLOCKS} blocks written and read")
    return status


if __name__ == "__main__":
    sys.exit(main())
