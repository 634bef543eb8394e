"""Cost of a message where everything is numerous: queue pairs, functions, ports.

Each row's reference is the small case in the same run. The cost of a message must not depend on the
number of other objects. Equal senders at the same time must get equal service. Prints a table, or
JSON with --json.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

import click
import doorbell
import engine
import fabric
from figures import Goal, Row, Section, ratio_at_most
from rig import Pair, doorbells_to_cqes
from tables import json_option, show

from emu.driver.verbs.queue_pair import QueuePair
from emu.server.net.ib.local import LocalFabric

BYTES = 64
FEW = 16
"""Number of queue pairs of the small case."""
DEPTH = 12
"""Number of outstanding requests of each queue pair, in rings of 16."""
EACH = 8 * DEPTH
"""Number of requests of each of the equal senders, on average."""
KIB_OF_RAM = 40
"""Guest memory in KiB of a connected queue pair and its CQ."""

MAX_GROWTH = 1.5
MAX_SPREAD = 2.0


class Large(NamedTuple):
    """Numbers of the large case."""

    queue_pairs: int = 10_000
    senders: int = 1_000
    functions: int = 64
    ports: int = 1_000

    def smaller(self, by: int) -> Large:
        """Return the case with fewer of each, for a quick run."""
        return Large(*(max(number // by, FEW) for number in self))


def pair_of(connections: int) -> Pair:
    """Return two functions and ``connections`` connections between them, with small rings."""
    return Pair(LocalFabric, BYTES, connections, 4, (64 << 20) + connections * KIB_OF_RAM * 1024)


def queue_pairs(large: Large, count: int) -> list[Row]:
    """Measure many queue pairs, of which some send: a message's cost, and the fairness among
    them.
    """
    few, many = pair_of(FEW), pair_of(large.queue_pairs)
    senders = many.qps[:: large.queue_pairs // large.senders]

    def sampler(pair: Pair, qps: list[QueuePair]) -> engine.Sampler:
        source = pair.source.sge(0, BYTES)
        post = [partial(qp.write, pair.remote, source, ring=False) for qp in qps]
        return lambda: doorbells_to_cqes(qps, post, 1)

    each, small = engine.sample(count, sampler(many, senders), sampler(few, few.qps))
    shares = [share(many, senders) for _ in range(3)]
    return [
        Row(
            f"RDMA WRITE of {BYTES} B by {large.senders:,} of {large.queue_pairs:,} queue pairs,"
            f" to {FEW}: each",
            "us",
            each,
            small,
            ratio_at_most(MAX_GROWTH),
        ),
        Row(
            f"{large.senders:,} equal senders: most to fewest completions",
            "x",
            shares,
            goal=Goal(MAX_SPREAD),
        ),
    ]


def share(pair: Pair, qps: list[QueuePair]) -> float:
    """Return the ratio of completed requests of the fastest to the slowest queue pair.

    Each keeps DEPTH requests outstanding.
    """
    source = pair.source.sge(0, BYTES)

    def post(qp: QueuePair, count: int) -> None:
        for _ in range(count):
            qp.write(pair.remote, source, ring=False)
        qp.ring()

    for qp in qps:
        post(qp, DEPTH)
    done = dict.fromkeys(qps, 0)
    while sum(done.values()) < EACH * len(qps):
        pair.left.function.run()
        for qp in qps:
            if found := len(qp.cq.drain()):
                done[qp] += found
                post(qp, found)
    pair.left.settle()
    for qp in qps:
        qp.cq.drain()
    least = min(done.values())
    return max(done.values()) / least if least else float("inf")


def functions(large: Large, count: int) -> Row:
    """Measure a server of many functions, all with clients, one of which rings doorbells."""
    return Row(
        f"RDMA WRITE of {doorbell.SIZE} B through a server of {large.functions} functions,"
        " to one of 2",
        "us",
        doorbell.sampled(count, large.functions - 1),
        doorbell.sampled(count, 1),
        ratio_at_most(MAX_GROWTH),
    )


def ports(large: Large, count: int) -> Row:
    """Measure two processes of a fabric, of which one has many functions more."""
    many = fabric.measure_pair(count, "unix", large.ports - 2).rows[1]
    few = fabric.measure_pair(count, "unix").rows[1]
    name = f"RDMA WRITE of {BYTES} B on a fabric of {large.ports:,} ports, to one of 2: each"
    return Row(name, "us", many.samples, few.samples, ratio_at_most(MAX_GROWTH))


def measure(large: Large, count: int) -> Section:
    """Return all rows."""
    rows = [*queue_pairs(large, count), functions(large, 50 * count), ports(large, 10 * count)]
    remark = (
        "Each sender's doorbell is rung for one message; on the fabric one doorbell is for"
        f" {fabric.BATCH}. Both cases are measured in one run."
    )
    return Section("scale", "Scale", rows, "many", "few", [remark])


@click.command(help=__doc__)
@click.option("--count", default=40, show_default=True, help="Samples of the first row.")
@click.option("--divide", default=1, help="Measure with so many times fewer of everything.")
@json_option
def main(count: int, divide: int, as_json: bool) -> None:
    """Measure."""
    logging.disable(logging.WARNING)
    show([measure(Large().smaller(divide), count)], as_json=as_json)


if __name__ == "__main__":
    main()
