"""MPI over UCX: messages, one-sided access and atomics between two ranks, all of it checked.

::

    mlx5emu run --package openmpi-bin --package python3-mpi4py --share examples/ucx -- \
        sh -c 'UCX_TLS=rc_x,self UCX_NET_DEVICES=mlx5_0:1 \
               mpirun --allow-run-as-root -n 2 --mca pml ucx --mca osc ucx \
               python3 /mnt/share/mpi.py'
"""

from __future__ import annotations

import random
import sys
from array import array
from itertools import chain

from mpi4py import MPI

SIZES = (1, 64, 8192, 100_000, 3_000_000)
WINDOW = 65536
ATOMICS = 50


def pattern(size: int, seed: int) -> bytes:
    """Bytes that both ranks can make."""
    return random.Random(seed).randbytes(size)


def messages(world: MPI.Comm, me: int, peer: int) -> None:
    """Eager and by rendezvous."""
    for number, size in enumerate(SIZES):
        got = bytearray(size)
        world.Sendrecv(pattern(size, 2 * number + me), peer, 0, got, peer, 0)
        assert got == pattern(size, 2 * number + peer), size
    assert world.allreduce(me + 1) == 3


def memory(world: MPI.Comm, me: int, peer: int) -> None:
    """Each writes into the other's window."""
    window = MPI.Win.Allocate(WINDOW, comm=world)
    ours = pattern(WINDOW, 100 + me)  # has to stay until the second fence
    window.Fence()
    window.Put(ours, peer)
    window.Fence()
    assert bytes(window.tomemory()) == pattern(WINDOW, 100 + peer)
    window.Free()


def atomics(world: MPI.Comm) -> None:
    """Both count in one place: each number comes up once."""
    counter = MPI.Win.Allocate(8, comm=world)
    counter.Fence()
    one, before = array("q", [1]), array("q", [0])
    counter.Lock_all()
    seen = []
    for _ in range(ATOMICS):
        counter.Fetch_and_op(one, before, 0, op=MPI.SUM)
        counter.Flush(0)
        seen.append(before[0])
    counter.Unlock_all()
    assert sorted(chain.from_iterable(world.allgather(seen))) == list(range(2 * ATOMICS))
    counter.Free()


def main() -> None:
    """Run as each of two ranks."""
    world = MPI.COMM_WORLD
    me, peer = world.rank, 1 - world.rank
    assert world.size == 2
    messages(world, me, peer)
    memory(world, me, peer)
    atomics(world)
    sys.stdout.write(f"mpi: rank {me} has all its data\n")


if __name__ == "__main__":
    main()
