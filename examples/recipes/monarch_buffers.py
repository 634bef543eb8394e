"""Monarch's actors in two processes: one reads and writes the other's RDMA buffer, compared.

The first function needs an IP address, whose GID of RoCE v2 is the only kind that Monarch uses.
Status 65: other data arrive.
"""

from __future__ import annotations

import asyncio
import random
import sys

from monarch.actor import Actor, endpoint, this_host
from monarch.config import configured
from monarch.rdma import RDMABuffer

SIZES = (64, 4096, 65_536, 1 << 20)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""


class Owner(Actor):
    """The actor with the memory."""

    def __init__(self) -> None:
        self.memory = bytearray(max(SIZES))

    @endpoint
    async def buffer(self, size: int) -> RDMABuffer:
        """Return a buffer for the first ``size`` bytes."""
        return RDMABuffer(memoryview(self.memory)[:size])


class User(Actor):
    """The actor that writes and reads the other's memory."""

    @endpoint
    async def is_same(self, buffer: RDMABuffer, data: bytes) -> bool:
        """Return whether what was written into the buffer is what is read from the buffer."""
        await buffer.write_from(memoryview(bytearray(data)))
        back = bytearray(len(data))
        await buffer.read_into(memoryview(back))
        return back == data


async def exchange() -> int:
    """Return the exit status."""
    one = this_host().spawn_procs(per_host={"processes": 1})
    other = this_host().spawn_procs(per_host={"processes": 1})
    owner, user = one.spawn("owner", Owner), other.spawn("user", User)
    for size in SIZES * ROUNDS:
        data = random.Random(size).randbytes(size)
        buffer = await owner.buffer.call_one(size)
        if not await user.is_same.call_one(buffer, data):
            return 65
    await one.stop()
    await other.stop()
    return 0


def main() -> int:
    """Return the exit status."""
    try:
        with configured(rdma_allow_tcp_fallback=False, rdma_ibverbs_target="nic:mlx5_0"):
            status = asyncio.run(exchange())
    except Exception as error:  # of a library that raises Exception itself
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"monarch: {len(SIZES)} sizes written, read and compared")
    return status


if __name__ == "__main__":
    sys.exit(main())
