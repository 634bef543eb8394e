"""Cost of the engine, without a guest and without a transport.

Two functions in this process have a driver each. The program measures the time from the doorbell to
the CQE. The operations are writes and reads, work requests that change memory keys, and a write
sent as packets. A further result is the cost of on-demand paging. Messages are compared with a
plain copy between the same pages, a key over keys with a key over pages. Prints a table, or JSON
with --json.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

import click
import paging
from figures import Goal, Row, Section, ratio_at_most
from rig import Pair, doorbell_to_cqe, doorbells_to_cqes
from tables import json_option, show

from emu.device.objects.memory.views import copy
from emu.driver.keys.by_command import dma_key, indirect_key

# The test suite's drivers are used.
from emu.driver.keys.umr import FastRegKey, MemoryWindow
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.verbs.region import Region
from emu.driver.verbs.segments import PAGE
from emu.server.net.ib.local import LocalFabric
from layouts.enums.mkey import AccessMode

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"4 KiB": 4 * KIB, "64 KiB": 64 * KIB, "1 MiB": MIB}
BATCH = 64
UMR_PAGES = 256
WARM_UP = 20

MAX_WRITE_US = 30.0
MAX_COPY_RATIO = 1.5
MAX_PLACES_RATIO = 1.5
MAX_RANGE_RATIO = 2.0
MAX_UMR_US = 60.0
MAX_FRWR_US = 120.0
MAX_BIND_US = 40.0
MAX_TREE_RATIO = 2.0
QUEUE_PAIRS = {16: 1.0, 128: 1 / 0.9}
"""Number of queue pairs, and the maximum cost of a write by each, relative to one queue pair."""

Sampler = Callable[[], float]


def sample(count: int, *samplers: Sampler) -> list[list[float]]:
    """Return ``count`` samples of each, taken alternately so that machine load affects all
    equally.
    """
    for _ in range(WARM_UP):
        for sampler in samplers:
            sampler()
    found: list[list[float]] = [[] for _ in samplers]
    for _ in range(count):
        for samples, sampler in zip(found, samplers):
            samples.append(sampler())
    return found


def page_views(region: Region, size: int) -> list[memoryview]:
    """Return the guest's own bytes of a region, page by page."""
    return [region.node.memory.view(page, PAGE) for page in region.pages[: size // PAGE]]


def plain_copy(target: Region, source: Region, size: int) -> Sampler:
    """Return the microseconds of a plain copy."""
    into, out_of = page_views(target, size), page_views(source, size)

    def take() -> float:
        start = time.perf_counter_ns()
        copy(into, out_of)
        return (time.perf_counter_ns() - start) / 1000

    return take


def messages(count: int) -> list[Row]:
    """Return the rows of writes and reads of every size."""
    pair = Pair(LocalFabric, 2 * MIB)
    qp, source = pair.qp, pair.source
    batch = partial(pair.write_us, 64, count=BATCH)

    def all_over() -> float:
        """Write like ``batch``, each from and to another address, as in a ring of buffers."""

        def post() -> None:
            at = next(places)
            qp.write((pair.target.key, pair.target.va + at), source.sge(at, 64), ring=False)

        return doorbell_to_cqe(qp, post, BATCH)

    def write_all(at: int) -> float:
        """Write 1 MiB from and to these offsets."""
        there = pair.target.key, pair.target.va + at
        return doorbell_to_cqe(qp, lambda: qp.write(there, source.sge(at, MIB), ring=False))

    def anywhere() -> float:
        """Write to a new range of pages that have been translated before."""
        return write_all(next(offsets))

    def first() -> float:
        """Write to pages that have not been translated before."""
        pair.source.node.hca.view_cache.forget()
        pair.target.node.hca.view_cache.forget()
        return write_all(next(offsets))

    offsets: Iterator[int] = itertools.cycle(range(0, MIB, 4 * KIB))
    places: Iterator[int] = itertools.cycle(range(0, 64 * KIB, 64))
    goal = Goal(MAX_WRITE_US)
    one, many, scattered = sample(count, partial(pair.write_us, 64), batch, all_over)
    rows = [
        Row("RDMA WRITE of 64 B", "us", one, goal=goal),
        Row(f"the same, {BATCH} by one doorbell, each", "us", many, goal=goal),
        Row(
            "the same, each at another place",
            "us",
            scattered,
            many,
            ratio_at_most(MAX_PLACES_RATIO),
        ),
    ]
    for name, size in SIZES.items():
        wrote, was_read, copied = sample(
            count, partial(pair.write_us, size), partial(pair.read_us, size),
            plain_copy(pair.target, source, size),
        )  # fmt: skip
        wanted = ratio_at_most(MAX_COPY_RATIO) if size == MIB else None
        rows.append(Row(f"RDMA WRITE of {name}", "us", wrote, copied, wanted))
        rows.append(Row(f"RDMA READ of {name}", "us", was_read, copied))
    copy_all = plain_copy(pair.target, source, MIB)
    write_all(MIB)
    moved, copied = sample(count, anywhere, copy_all)
    name = "RDMA WRITE of 1 MiB, another range each time"
    rows.append(Row(name, "us", moved, copied, ratio_at_most(MAX_RANGE_RATIO)))
    moved, copied = sample(count, first, copy_all)
    rows.append(Row("the same, of pages that were not used before", "us", moved, copied))
    return rows


def queue_pairs(count: int) -> list[Row]:
    """Return the rows of equal numbers of writes, by the doorbells of more queue pairs."""

    def several(number: int) -> Sampler:
        pair = Pair(LocalFabric, 64, number)
        source, remote, each = pair.source.sge(0, 64), pair.remote, BATCH // number or 1
        post = [partial(qp.write, remote, source, ring=False) for qp in pair.qps]
        return lambda: doorbells_to_cqes(pair.qps, post, each)

    one, *more = sample(count // 4, *(several(number) for number in (1, *QUEUE_PAIRS)))
    return [
        Row(
            f"RDMA WRITE of 64 B, {max(BATCH, number)} by {number} queue pairs, to one: each",
            "us",
            took,
            one,
            ratio_at_most(bound),
        )
        for (number, bound), took in zip(QUEUE_PAIRS.items(), more)
    ]


def keys(count: int) -> list[Row]:
    """Return the rows of work requests that change memory keys."""
    pair = Pair(LocalFabric, UMR_PAGES * PAGE)
    qp, node, region = pair.qp, pair.left, pair.source
    everything, variants = dma_key(node), itertools.cycle(range(256))
    window = MemoryWindow(node, 1)

    def register(key: FastRegKey) -> None:
        length = len(region.pages) * PAGE
        key.register(
            qp, region.pages, 0, length, variant=next(variants), by_pointer=everything, ring=False
        )

    def umr() -> float:
        took = doorbell_to_cqe(qp, lambda: register(mapped))
        doorbell_to_cqe(qp, lambda: mapped.invalidate(qp))
        return took

    def register_and_invalidate() -> float:
        took = doorbell_to_cqe(qp, lambda: register(fast))
        return took + doorbell_to_cqe(qp, lambda: fast.invalidate(qp, ring=False))

    def bind() -> float:
        return doorbell_to_cqe(qp, lambda: window.bind(qp, region, 0, PAGE, ring=False))

    mapped, fast = FastRegKey(node, UMR_PAGES), FastRegKey(node, UMR_PAGES)
    mappings, pairs, binds = sample(count, umr, register_and_invalidate, bind)
    return [
        Row(f"UMR that maps {UMR_PAGES} pages", "us", mappings, goal=Goal(MAX_UMR_US)),
        Row("fast registration of as many, and LOCAL_INV", "us", pairs, goal=Goal(MAX_FRWR_US)),
        Row("bind of a memory window", "us", binds, goal=Goal(MAX_BIND_US)),
    ]


def tree(count: int) -> list[Row]:
    """Return the row of a write through a key over keys, compared with one through a key over
    pages.
    """
    size = 64 * KIB
    pair = Pair(LocalFabric, size)
    node, pages = pair.right, pair.target
    quarter, half = size // 4, size // 2
    klm = indirect_key(
        node,
        AccessMode.KLMS,
        [(quarter, pages.key, pages.va + at) for at in range(0, size, quarter)],
        size,
    )
    ksm = indirect_key(
        node,
        AccessMode.KSM,
        [(half, klm, at) for at in range(0, size, half)],
        size,
        log_page_size=half.bit_length() - 1,
    )
    through, direct = sample(
        count, partial(pair.write_us, size, (ksm, 0)), partial(pair.write_us, size)
    )
    name = "RDMA WRITE of 64 KiB by KSM over KLM over MTT"
    return [Row(name, "us", through, direct, ratio_at_most(MAX_TREE_RATIO))]


def packets(count: int) -> list[Row]:
    """Return the rows of packets for another process, but delivered inside this one."""
    pair = Pair(lambda _clock: PacketWire(), MIB)
    smalls, larges, reads, copied = sample(
        count // 4, partial(pair.write_us, 64, count=BATCH), partial(pair.write_us, MIB),
        partial(pair.read_us, MIB), plain_copy(pair.target, pair.source, MIB),
    )  # fmt: skip
    return [
        Row(f"as packets: WRITE of 64 B, {BATCH} by one doorbell, each", "us", smalls),
        Row("as packets: WRITE of 1 MiB", "us", larges, copied),
        Row("as packets: READ of 1 MiB", "us", reads, copied),
    ]


def measure(count: int) -> Section:
    """Return all rows."""
    rows = [row for part in (messages, queue_pairs, keys, tree, packets) for row in part(count)]
    rows += paging.rows(count, sample)
    remark = (
        "From the doorbell to the completion. A message's reference is a plain copy between the"
        " same pages of 4 KiB, which do not lie together; that of the key over keys is the key"
        " over pages. Packets carry 4 KiB."
    )
    title = "The engine, in process"
    return Section("engine", title, rows, "median", "reference", [remark])


@click.command(help=__doc__)
@click.option("--count", default=400, show_default=True, help="Samples of each number.")
@json_option
def main(count: int, as_json: bool) -> None:
    """Measure."""
    logging.disable(logging.WARNING)
    section = measure(count)
    show([section], as_json=as_json)


if __name__ == "__main__":
    main()
