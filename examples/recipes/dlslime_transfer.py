"""DLSlime's RDMA endpoints of the two functions: writes and reads of remote memory, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import ctypes
import random
import sys

from dlslime import RDMAContext, RDMAEndpoint, RDMAMemoryPool

SIZE = 1 << 20
SIZES = (64, 4096, 65_536, SIZE)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""


class End:
    """One function: a context, an endpoint, and registered memory."""

    def __init__(self, device: str) -> None:
        self.context = RDMAContext()
        if self.context.init(device, 1, "IB"):
            sys.exit(f"{device}: init failed")
        self.pool = RDMAMemoryPool(self.context)
        self.memory = ctypes.create_string_buffer(SIZE)
        self.address = ctypes.addressof(self.memory)
        self.key = self.pool.register_memory_region(self.address, SIZE, "memory")
        self.endpoint = RDMAEndpoint(self.pool, 1)


def main() -> int:
    """Return the exit status."""
    one, other = End("mlx5_0"), End("mlx5_1")
    one_info, other_info = one.endpoint.endpoint_info(), other.endpoint.endpoint_info()
    one.endpoint.connect(other_info)
    other.endpoint.connect(one_info)
    remote = one.endpoint.register_remote_memory_region("memory", other.pool.mr_info()["memory"])
    for size in SIZES * ROUNDS:
        data = random.Random(size).randbytes(size)
        ctypes.memmove(one.address, data, size)
        for operation in (one.endpoint.write, one.endpoint.read):
            status = operation([(one.key, remote, 0, 0, size)], None).wait()
            if status:
                print(f"{operation.__name__} of {size} bytes: status {status}", file=sys.stderr)
                return 1
            if operation.__name__ == "write":
                ctypes.memset(one.address, 0, size)
        if one.memory.raw[:size] != data:
            return 65
    for end in (one, other):
        end.endpoint.shutdown()
        end.context.stop_future()
    print(f"dlslime: {len(SIZES)} sizes written, read and compared")
    return 0


sys.exit(main())
