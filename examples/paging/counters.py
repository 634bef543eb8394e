#!/usr/bin/env python3
"""What the driver and the device count of on-demand paging, beside what was done.

Runs in a guest on any device with on-demand paging (python3-pyverbs, iproute2):

    mlx5emu run --share examples/paging -- python3 /mnt/share/counters.py

One region's pages are brought in by an RDMA READ, by prefetching and, after some have been
discarded, by an RDMA WRITE. Then ``rdma statistic`` says how many pages the driver has counted for
the region, and how many requests and bytes the port has counted: those of two messages, however
often a page was missing. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from stress import CQ_SIZE, PAGE, End, Memory, Traffic, connected

FILLED, PREFETCHED, DISCARDED = 16, 8, 4
"""Pages of the region: a READ fills the first ones, prefetching brings in those behind them."""
PREFETCH_WRITE, FLUSH = 1, 1  # ibv_advise_mr_advice, IBV_ADVISE_MR_FLAG_FLUSH
PORT_COUNTERS = "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"


def statistics(*what: str) -> list[dict[str, int]]:
    """What ``rdma statistic show`` says."""
    command = ["rdma", "-j", "statistic", "show", *what]
    answer = subprocess.run(command, check=True, capture_output=True).stdout
    found: list[dict[str, int]] = json.loads(answer)
    return found


def counters(device: str) -> dict[str, int]:
    """Of the port and its counter set."""
    (found,) = statistics("link", f"{device}/1")
    folder = Path("/sys/class/infiniband") / device / "ports/1/counters"
    port = {name: int((folder / name).read_text()) for name in PORT_COUNTERS}
    return port | {name: value for name, value in found.items() if isinstance(value, int)}


def move(pd: PD, source: End, target: End, traffic: Traffic) -> None:
    """Bring pages of the target in by three ways, and take some away in between."""
    length = FILLED * PAGE
    source.memory.write(0, b"\x5a" * length)
    traffic.read(source, target, 0, 0, length)
    assert target.memory.read(0, length) == source.memory.read(0, length)
    pd.advise_mr(PREFETCH_WRITE, FLUSH, [target.sge(length, PREFETCHED * PAGE)])
    target.memory.discard(0, DISCARDED)
    traffic.write(target, source, 0, 0, DISCARDED * PAGE)
    assert source.memory.read(0, DISCARDED * PAGE) == bytes(DISCARDED * PAGE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="mlx5_0")
    options = parser.parse_args()
    with Context(name=options.device) as context:
        pd, cq = PD(context), CQ(context, CQ_SIZE)
        memories = Memory(None), Memory(None)
        ends = connected(pd, cq, context.query_port(1).lid, memories, [False, False])
        source, target = ends
        before = counters(options.device)
        move(pd, source, target, Traffic(pd, cq, ends, random.Random(1)))
        after = counters(options.device)
        told = {
            "regions": statistics("mr"),
            "port": {name: after[name] - value for name, value in before.items()},
        }
        for end in ends:
            end.qp.close()
            end.region.close()
    sys.stdout.write(f"{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
