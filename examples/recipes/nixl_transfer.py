"""NIXL's agents with the UCX backend, two processes: writes and reads of remote memory, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from second_process import SecondProcess

SIZE = 1 << 20
SIZES = (64, 4096, 65_536, SIZE)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""


def agent(name: str, device: str) -> tuple[Any, ctypes.Array[ctypes.c_char], int]:
    """Return an agent on one function, its memory and the memory's address."""
    os.environ["UCX_NET_DEVICES"] = f"{device}:1"
    os.environ["UCX_TLS"] = "rc,self"
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    made = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    memory = ctypes.create_string_buffer(SIZE)
    address = ctypes.addressof(memory)
    made.register_memory([(address, SIZE, 0, "")], "DRAM")
    return made, memory, address


def serve(pipe: Connection) -> None:
    """Own the remote memory until the other process says that it is done."""
    made, _memory, address = agent("server", "mlx5_1")
    pipe.send((made.get_agent_metadata(), address))
    while not pipe.poll(0.01):
        made.get_new_notifs()  # progress


def carry_out(made: Any, operation: str, local: int, remote: int, size: int) -> bool:
    """Return whether a transfer of ``size`` bytes has ended well."""
    ours = made.get_xfer_descs([(local, size, 0)], "DRAM")
    theirs = made.get_xfer_descs([(remote, size, 0)], "DRAM")
    handle = made.initialize_xfer(operation, ours, theirs, "server")
    state = made.transfer(handle)
    while state == "PROC":
        time.sleep(0.001)
        state = made.check_xfer_state(handle)
    made.release_xfer_handle(handle)
    return bool(state == "DONE")


def main() -> int:
    """Return the exit status."""
    server = SecondProcess(serve)
    metadata, remote = server.sent
    made, memory, address = agent("client", "mlx5_0")
    made.add_remote_agent(metadata)
    for size in SIZES * ROUNDS:
        data = random.Random(size).randbytes(size)
        ctypes.memmove(address, data, size)
        for operation in ("WRITE", "READ"):
            if not carry_out(made, operation, address, remote, size):
                print(f"{operation} of {size} bytes failed", file=sys.stderr)
                return 1
            if operation == "WRITE":
                ctypes.memset(address, 0, size)
        if memory.raw[:size] != data:
            return 65
    made.remove_remote_agent("server")
    server.end()
    print(f"nixl: {len(SIZES)} sizes written, read and compared")
    return 0


if __name__ == "__main__":
    ended = main()
    sys.stdout.flush()
    # A destructor of libnl-route, of which the wheel has a copy, ends a normal exit by SIGSEGV.
    os._exit(ended)
