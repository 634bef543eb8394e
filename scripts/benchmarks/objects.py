"""Cost of objects when there are many: time per command, and memory per object.

A driver in this process creates queue pairs, completion queues and memory keys. The driver moves
the queue pairs to RTS, sends through each once, and destroys everything. For each kind of command,
the ratio of the last tenth's median to the first's shows whether the cost stays flat. Memory is
Python's allocation for the device's side of an object. Prints a table, and JSON with --json.
"""

from __future__ import annotations

import gc
import logging
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click
from figures import Goal, Row, Section, ratio_at_most
from tables import json_option, show

from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar

# The test suite's driver is used.
from emu.driver.command.driver import Driver
from emu.driver.verbs.parts import INIT, RTR, RTS
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL

MODEL = MODELS["connectx7"]
MAX_GROWTH = 1.3
MAX_KIB = 2.0
Samples = dict[str, list[float]]


class Rig:
    """Function, and a driver that has initialized it."""

    def __init__(self, pages: int) -> None:
        clock = HandClock()
        self.memory = Memory(pages * 4096)
        self.function = Function(
            MODEL, HcaOptions(guid=1), TABLE, self.memory, IrqList(), clock, LocalFabric(clock)
        )
        self.driver = Driver(FunctionBar(self.function), self.memory).probe()
        self.pdn = self.driver.alloc_pd()
        self.eqn = self.driver.create_eq()
        self.cqn = self.driver.create_cq(self.eqn, log_size=6, oi=1)
        self.record = self.memory.alloc(64, 64)
        self.page = self.memory.alloc(4096)

    def create_qp(self, _number: int) -> int:
        """Create an RC queue pair; all share one page, as only one is active at a time."""
        fields = self.driver.qp_fields(self.pdn, self.cqn, st=QpType.RC)
        fields["qpc"]["dbr_addr"] = self.record
        self.memory.free(int.from_bytes(fields["extra"][:8], "big"), 4096)
        return int(self.driver.must(Op.CREATE_QP, **fields).qpn)

    def to_rts(self, qpn: int) -> None:
        """Perform the three transitions to RTS."""
        must = self.driver.must
        must(Op.RST2INIT_QP, qpn=qpn, qpc=INIT)
        must(Op.INIT2RTR_QP, qpn=qpn, qpc=RTR)
        must(Op.RTR2RTS_QP, qpn=qpn, qpc=RTS)

    def nop(self, qpn: int) -> None:
        """Run one request from doorbell to completion."""
        qp = self.function.hca.qps.need(qpn)
        wqe = CTRL.pack(Opcode.NOP, qpn << 8 | 1, 8, 0)
        assert qp.sq is not None
        qp.buffer.write(qp.sq._offset, wqe)
        self.memory.write(self.record, bytes(7) + b"\x01")
        self.driver.bar.write(self.driver.uar * 4096 + 0x800, wqe[:8])
        self.driver.bar.settle()
        self.memory.write(self.record, bytes(8))

    def create_cq(self, _number: int) -> int:
        """Create a small completion queue; free its ring at once, which nothing writes to."""
        fields = self.driver.cq_fields(self.eqn)
        self.memory.free(int.from_bytes(fields["extra"][:8], "big"), 4096)
        self.memory.free(fields["cq_context"]["dbr_addr"], 64, 64)
        return int(self.driver.must(Op.CREATE_CQ, **fields).cqn)

    def create_mkey(self, _number: int) -> int:
        """Create a key over one page."""
        context = {"length64": 0, "len": 4096, "access_mode_1_0": 1, "log_page_size": 12}
        entry = {"pd": self.pdn, "lr": 1, "lw": 1, "qpn": 0xFFFFFF} | context
        answer = self.driver.must(
            Op.CREATE_MKEY,
            memory_key_mkey_entry=entry | {"translations_octword_size": 1},
            translations_octword_actual_size=1,
            extra=self.page.to_bytes(8, "big") + bytes(8),
        )
        return int(answer.mkey_index)


def timed(action: Callable[[int], Any], arguments: Iterable[int]) -> tuple[list[Any], list[float]]:
    """Return the results and the microseconds of each call."""
    results, times, clock = [], [], time.perf_counter_ns
    for argument in arguments:
        start = clock()
        results.append(action(argument))
        times.append((clock() - start) / 1000)
    return results, times


def commands(qps: int, mkeys: int) -> Samples:
    """Return the time of every command."""
    rig = Rig(pages=4096)
    must = rig.driver.must
    samples: Samples = {}
    qpns, samples["CREATE_QP"] = timed(rig.create_qp, range(qps))
    _, samples["to RTS"] = timed(rig.to_rts, qpns)
    _, samples["QUERY_QP"] = timed(lambda qpn: must(Op.QUERY_QP, qpn=qpn), qpns)
    _, samples["doorbell to CQE"] = timed(rig.nop, qpns)
    _, samples["DESTROY_QP"] = timed(lambda qpn: must(Op.DESTROY_QP, qpn=qpn), qpns)
    cqns, samples["CREATE_CQ"] = timed(rig.create_cq, range(qps))
    _, samples["DESTROY_CQ"] = timed(lambda cqn: must(Op.DESTROY_CQ, cqn=cqn), cqns)
    keys, samples["CREATE_MKEY"] = timed(rig.create_mkey, range(mkeys))
    _, samples["DESTROY_MKEY"] = timed(lambda index: must(Op.DESTROY_MKEY, mkey_index=index), keys)
    return samples


def bytes_of_each(create: Callable[[int], object], count: int) -> float:
    """Return the memory that stays allocated for each of ``count`` objects."""
    create(0)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        create(number)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


def flatness(samples: Samples) -> Section:
    """Compare the last tenth of each kind of command with the first."""
    rows = []
    for name, times in samples.items():
        tenth = max(len(times) // 10, 1)
        title = f"{name}, {len(times):,}"
        rows.append(Row(title, "us", times[-tenth:], times[:tenth], ratio_at_most(MAX_GROWTH)))
    title = "Many objects, in process: time per command"
    return Section("objects", title, rows, "last tenth", "first tenth")


def memory(count: int) -> Section:
    """Return the memory that each object of a kind adds to the process."""
    kinds = {"QP": Rig.create_qp, "CQ": Rig.create_cq, "mkey": Rig.create_mkey}
    rows = [
        Row(kind, "KiB", [bytes_of_each(partial(create, Rig(4096)), count) / 1024],
            goal=Goal(MAX_KIB))
        for kind, create in kinds.items()
    ]  # fmt: skip
    return Section("objects memory", "Memory per object", rows)


@click.command(help=__doc__)
@click.option("--qps", default=10_000, show_default=True, help="Queue pairs and CQs.")
@click.option("--mkeys", default=1_000_000, show_default=True, help="Memory keys.")
@click.option("--traced", default=10_000, show_default=True, help="Objects to measure memory by.")
@json_option
def main(qps: int, mkeys: int, traced: int, as_json: bool) -> None:
    """Measure time, then memory."""
    logging.disable(logging.WARNING)
    sections = [flatness(commands(qps, mkeys)), memory(traced)]
    show(sections, as_json=as_json)


if __name__ == "__main__":
    main()
