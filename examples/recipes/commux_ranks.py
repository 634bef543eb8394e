"""torch.distributed with commux's backend of UCX, two ranks: sums and messages, compared.

Status 65: other data arrive.
"""

from __future__ import annotations

import os
import subprocess
import sys

SIZES = (1, 1000, 100_000)
ENVIRONMENT = {
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "2"},
    **{"UCX_TLS": "rc,self", "OMP_NUM_THREADS": "1"},
}


def rank(number: int) -> int:
    """Return the exit status of one rank."""
    import commux
    import torch
    import torch.distributed as dist

    commux.register()
    dist.init_process_group("ucx", rank=number, world_size=2)
    for size in SIZES:
        ours = torch.arange(size, dtype=torch.float32) + number
        dist.all_reduce(ours)
        if not torch.equal(ours, 2 * torch.arange(size, dtype=torch.float32) + 1):
            return 65
        message = torch.full((size,), float(size))
        if number:
            dist.recv(message.zero_(), 0)
        else:
            dist.send(message, 1)
        if not torch.equal(message, torch.full((size,), float(size))):
            return 65
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main() -> int:
    """Return the exit status: that of the first rank that fails; the other one is ended then."""
    if len(sys.argv) > 1:
        return rank(int(sys.argv[1]))
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(number)],
            env=os.environ | ENVIRONMENT | {"UCX_NET_DEVICES": f"mlx5_{number}:1"},
        )
        for number in range(2)
    ]
    for one in ranks:
        if status := one.wait():
            for other in ranks:
                other.kill()
            return status if status > 0 else 128 - status
    print(f"commux: {len(SIZES)} sizes summed and sent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
