"""nvmeof's controller: blocks of a namespace written and read by RDMA, compared.

The argument is the target's IP address, NQN its subsystem's name. Status 65: other data arrive.
"""

from __future__ import annotations

import os
import random
import sys

import nvmeof

SIZES = (4096, 65_536, 1 << 20)
ROUNDS = 5
"""A failure begins at one of the first 40 work requests."""


def exchange(address: str) -> int:
    """Return the exit status of an initiator that writes blocks, and reads them."""
    with nvmeof.Controller.connect(address, os.environ["NQN"], timeout=10) as controller:
        namespace = controller.namespace(1)
        for size in SIZES * ROUNDS:
            blocks = size // namespace.lba_size
            data = random.Random(size).randbytes(size)
            with controller.allocate(size) as buffer:
                buffer.write(data)
                namespace.write(buffer, slba=0, blocks=blocks)
                buffer.write(bytes(size))
                namespace.read(buffer, slba=0, blocks=blocks)
                if buffer.read() != data:
                    return 65
    return 0


def main() -> int:
    """Return the exit status."""
    try:
        status = exchange(sys.argv[1])
    except (OSError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"nvmeof: {len(SIZES)} sizes written, read and compared")
    return status


sys.exit(main())
