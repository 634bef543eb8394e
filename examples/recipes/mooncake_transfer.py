"""Mooncake's transfer engine between two processes: writes and reads of remote memory, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
from multiprocessing.connection import Connection

from mooncake.engine import TransferEngine
from second_process import SecondProcess

SIZE = 1 << 20
SIZES = (64, 4096, 65_536, SIZE)


def engine(device: str) -> tuple[TransferEngine, ctypes.Array[ctypes.c_char], int]:
    """Return an engine of one function, with registered memory and its address."""
    made = TransferEngine()
    if made.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", device):
        sys.exit("initialize failed")
    memory = ctypes.create_string_buffer(SIZE)
    address = ctypes.addressof(memory)
    if made.register_memory(address, SIZE):
        sys.exit("register_memory failed")
    return made, memory, address


def serve(pipe: Connection) -> None:
    """Own the remote memory until the other process says that it is done."""
    made, _memory, address = engine("mlx5_1")
    pipe.send((made.get_rpc_port(), address))
    with contextlib.suppress(EOFError):
        pipe.recv()


def main() -> int:
    """Return the exit status."""
    server = SecondProcess(serve)
    port, remote = server.sent
    made, memory, address = engine("mlx5_0")
    peer = f"127.0.0.1:{port}"
    for size in SIZES:
        data = random.Random(size).randbytes(size)
        ctypes.memmove(address, data, size)
        if made.transfer_sync_write(peer, address, remote, size):
            print(f"a write of {size} bytes failed", file=sys.stderr)
            return 1
        ctypes.memset(address, 0, size)
        if made.transfer_sync_read(peer, address, remote, size):
            print(f"a read of {size} bytes failed", file=sys.stderr)
            return 1
        if memory.raw[:size] != data:
            return 65
    server.end()
    print(f"mooncake: {len(SIZES)} sizes written, read and compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
