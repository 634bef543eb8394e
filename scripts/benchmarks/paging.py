"""Cost of on-demand paging: a page fault, and traffic on memory that has been paged in."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from figures import Goal, Row, ratio_at_most
from rig import Pair

# The test suite's drivers are used.
from emu.driver.keys.implicit import ImplicitKey
from emu.driver.keys.paging import PagedRegion, Pager
from emu.server.net.ib.local import LocalFabric

KIB = 1 << 10
SIZES = {"64 B": 64, "64 KiB": 64 * KIB}
MAX_FAULT_US = 80.0
MAX_PAGED_RATIO = 1.15

Sample = Callable[..., list[list[float]]]


def faults(count: int, sample: Sample) -> list[Row]:
    """Return responder and requester faults: time from the doorbell to the event and its
    interrupt.
    """
    pair = Pair(LocalFabric, 64 * KIB)
    qp, source = pair.qp, pair.source
    pagers = Pager(pair.left), Pager(pair.right)
    regions = [PagedRegion(pager, 64 * KIB) for pager in pagers]

    def fault(side: int) -> float:
        region, pager = regions[side], pagers[side]
        region.take_away(0)
        if side:
            qp.write((region.key, region.va), source.sge(0, 64), ring=False)
        else:
            qp.write(pair.remote, region.sge(0, 64), ring=False)
        start = time.perf_counter_ns()
        qp.ring()
        qp.node.settle()
        took = time.perf_counter_ns() - start
        event = pager.fault()
        region.bring_in(0)
        pager.must_resume(event)
        if [done.syndrome for done in qp.cq.drain()] != [0]:
            raise RuntimeError("the request that waited did not complete")
        return took / 1000

    requester, responder = sample(count // 4, lambda: fault(0), lambda: fault(1))
    goal = Goal(MAX_FAULT_US)
    return [
        Row("page fault of a requester, to its event", "us", requester, goal=goal),
        Row("page fault of a responder, to its event", "us", responder, goal=goal),
    ]


def traffic(count: int, sample: Sample) -> list[Row]:
    """Return writes into memory that has been paged in, compared with registered memory."""
    pair = Pair(LocalFabric, 64 * KIB)
    pager = Pager(pair.right)
    paged = PagedRegion(pager, 64 * KIB)
    paged.bring_in()
    whole = ImplicitKey(pager, log_child=16)
    child = whole.child(1)
    child.bring_in()
    whole.put(1, child.key)

    rows = []
    for name, size in SIZES.items():
        targets = pair.remote, (paged.key, paged.va), (whole.key, child.va)
        write = partial(pair.write_us, size)
        pinned, explicit, implicit = sample(count, *(partial(write, one) for one in targets))
        wanted = ratio_at_most(MAX_PAGED_RATIO)
        rows.append(Row(f"RDMA WRITE of {name} to paged memory", "us", explicit, pinned, wanted))
        rows.append(Row("the same through an implicit key", "us", implicit, pinned, wanted))
    return rows


def rows(count: int, sample: Sample) -> list[Row]:
    """Return all rows; ``sample`` takes ``count`` samples of each of its functions."""
    return faults(count, sample) + traffic(count, sample)
