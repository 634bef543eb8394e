"""Counts the modules on a message's path, the moves between them, and the instructions.

The program sends one message, or one command, on functions that have done so before, and records
each function of ours that is entered; the driver's are not counted. A move is an entry into another
module than the entry before it. Instructions are the interpreter's, of the same functions. The
numbers do not depend on the machine. A change's effect on the length of a path is visible in them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from itertools import cycle, groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import click
from figures import Goal, Row, Section
from rig import Pair
from tables import json_option, show

from emu.device.cmdif.registry import COMMANDS
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca
from emu.driver.command.driver import Driver
from emu.driver.command.words import pack64
from emu.driver.keys.paging import PagedRegion, Pager, resume_info
from emu.driver.keys.umr import ANY_QPN, FastRegKey
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.segments import PAGE
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / name}/" for name in ("emu", "layouts", "firmware_cmds"))
DRIVER = f"{ROOT / 'emu' / 'driver'}/"
WARM_UP = 20
MESSAGE_BYTES = 64
MKEY_PAGES = 16

Measure = Callable[[Callable[[], object]], None]
"""Runs an action, and counts what it enters or executes."""
Once = Callable[[Measure], None]
"""Sends one message, or one command, and passes its actions on the device to a measure."""


class Entry(NamedTuple):
    """Function that was entered."""

    module: str
    function: str


class Counts(NamedTuple):
    """Lengths of a path."""

    modules: int
    moves: int
    calls: int
    instructions: int | None = None
    """None for no goal."""


def entries(action: Callable[[], object]) -> list[Entry]:
    """Return the functions of ours that an action enters, in order."""
    found: list[Entry] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and _is_ours(frame):
            name = code.co_filename.removeprefix(f"{ROOT}/")
            found.append(Entry(name, code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def instructions(action: Callable[[], object]) -> int:
    """Return the number of instructions that an action executes in functions of ours."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            if not _is_ours(frame):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            count += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(OURS) and not name.startswith(DRIVER)


def runs(found: list[Entry]) -> list[tuple[str, list[str]]]:
    """Return the modules in the order in which they are entered, with the functions of each
    stay.
    """
    return [
        (module, [entry.function for entry in stay])
        for module, stay in groupby(found, key=lambda entry: entry.module)
    ]


def write(wire: Callable[[HandClock], IbWire[Hca]]) -> Once:
    """Return an RDMA WRITE, from its doorbell to its completion."""
    pair = Pair(wire, MESSAGE_BYTES)

    def once(measure: Measure) -> None:
        pair.qp.write(pair.remote, pair.source.sge(0, MESSAGE_BYTES), ring=False)
        measure(pair.ring)
        must_complete(pair.qp)

    return once


def alloc_pd() -> Once:
    """Return an ALLOC_PD, from its doorbell to its answer."""
    driver = Pair(LocalFabric, MESSAGE_BYTES).left.driver
    return lambda measure: run_command(driver, measure, Op.ALLOC_PD)


def create_mkey() -> Once:
    """Return a CREATE_MKEY of 16 pages, from its doorbell to its answer."""
    node, octwords = Pair(LocalFabric, MESSAGE_BYTES).left, MKEY_PAGES // 2
    pages = pack64(node.memory.pages(MKEY_PAGES * PAGE))
    entry = {
        "pd": node.pdn, "qpn": ANY_QPN, "access_mode_1_0": AccessMode.MTT, "lr": 1, "lw": 1,
        "len": MKEY_PAGES * PAGE, "log_page_size": 12, "translations_octword_size": octwords,
    }  # fmt: skip
    fields: dict[str, Any] = {
        "memory_key_mkey_entry": entry,
        "translations_octword_actual_size": octwords,
    }
    return lambda measure: run_command(node.driver, measure, Op.CREATE_MKEY, pages, **fields)


def fast_registration() -> Once:
    """Return a fast registration of 16 pages by UMR, from its doorbell to its completion."""
    pair, variants = Pair(LocalFabric, MKEY_PAGES * PAGE), cycle(range(256))
    key = FastRegKey(pair.left, MKEY_PAGES)

    def once(measure: Measure) -> None:
        length = MKEY_PAGES * PAGE
        key.register(pair.qp, pair.source.pages, 0, length, variant=next(variants), ring=False)
        measure(pair.ring)
        must_complete(pair.qp)
        key.invalidate(pair.qp)
        pair.left.settle()
        must_complete(pair.qp)

    return once


def page_fault() -> Once:
    """Return an RDMA WRITE to an absent page, from its doorbell to its completion.

    The driver's UMR, which makes the page present before PAGE_FAULT_RESUME, is not counted.
    """
    pair = Pair(LocalFabric, MESSAGE_BYTES)
    pager = Pager(pair.right)
    region = PagedRegion(pager, MESSAGE_BYTES)

    def once(measure: Measure) -> None:
        region.take_away(0)
        remote = region.key, region.va
        pair.qp.write(remote, pair.source.sge(0, MESSAGE_BYTES), ring=False)
        measure(pair.ring)
        event = pager.fault()
        region.bring_in(0)
        info = resume_info(event)
        run_command(pair.right.driver, measure, Op.PAGE_FAULT_RESUME, page_fault_info=info)
        must_complete(pair.qp)

    return once


def run_command(driver: Driver, measure: Measure, op: Op, data: bytes = b"", **fields: Any) -> None:
    """Run a command; measure from its doorbell to its answer.

    ``data`` follows the fixed input. Raises RuntimeError if the command is refused.
    """
    layout_in, layout_out = COMMANDS[op].layout_in, COMMANDS[op].layout_out
    asked = bytes(layout_in.new(opcode=op, **fields).buf) + data
    blocks = driver.submit(asked, layout_out.size)
    measure(lambda: driver.ring(1))
    _, answer = driver.collect(blocks, layout_out.size)
    if answer[0]:
        raise RuntimeError(f"{op.name} was refused: {answer.hex()}")


def must_complete(qp: QueuePair) -> None:
    """Raise RuntimeError unless the queue pair has exactly one new completion, without error."""
    (done,) = qp.cq.drain()
    if done.syndrome:
        raise RuntimeError(f"the request has failed: {done}")


class Walk(NamedTuple):
    """Measurements of one message, or one command."""

    entries: list[Entry]
    instructions: int

    @property
    def counts(self) -> Counts:
        """The lengths of the path."""
        found = self.entries
        modules, moves = len({entry.module for entry in found}), len(runs(found)) - 1
        return Counts(modules, moves, len(found), self.instructions)


def run(action: Callable[[], object]) -> None:
    """Run an action without counting."""
    action()


def walk(make: Callable[[], Once]) -> Walk:
    """Return the measurements of a path that has been used before."""
    once = make()
    found: list[Entry] = []
    executed = 0

    def count(action: Callable[[], object]) -> None:
        nonlocal executed
        executed += instructions(action)

    for _ in range(WARM_UP):
        once(run)
    once(lambda action: found.extend(entries(action)))
    once(count)
    return Walk(found, executed)


PATHS: dict[str, tuple[Callable[[], Once], Counts]] = {
    f"RDMA WRITE of {MESSAGE_BYTES} B": (partial(write, LocalFabric), Counts(15, 25, 36, 1300)),
    "the same as packets": (partial(write, lambda _: PacketWire()), Counts(20, 80, 120, 4000)),
    "ALLOC_PD": (alloc_pd, Counts(10, 24, 32)),
    f"CREATE_MKEY of {MKEY_PAGES} pages": (create_mkey, Counts(15, 40, 70)),
    f"UMR that maps {MKEY_PAGES} pages": (fast_registration, Counts(15, 30, 60)),
    "page fault and its RESUME": (page_fault, Counts(25, 80, 130)),
}
"""How to make each path, and its goals."""


def rows(name: str, counts: Counts, goals: Counts) -> list[Row]:
    """Return the rows of a path."""
    return [
        Row(f"{name}: {what}", "", [count or 0], goal=None if goal is None else Goal(goal))
        for what, count, goal in zip(Counts._fields, counts, goals)
    ]


@click.command(help=__doc__)
@click.option("--path", "is_path", is_flag=True, help="Show each move in its order as well.")
@click.option("--counts", "is_plain", is_flag=True, help="Print only a line of counts for a path.")
@json_option
def main(is_path: bool, is_plain: bool, as_json: bool) -> None:
    """Count modules, moves and instructions."""
    logging.disable(logging.WARNING)
    walks = {name: (walk(make), goals) for name, (make, goals) in PATHS.items()}
    for name, (found, _) in walks.items() if is_path else ():
        lines = (f"    {module}: {', '.join(stay)}" for module, stay in runs(found.entries))
        click.echo("\n".join([name, *lines, ""]), err=True)
    if is_plain:
        for name, (found, _) in walks.items():
            click.echo(f"{name}: {'; '.join(map(str, found.counts))}")
        return
    table = [
        row for name, (found, goals) in walks.items() for row in rows(name, found.counts, goals)
    ]
    title = "Modules that a message passes"
    show([Section("moves", title, table, "count")], as_json=as_json)


if __name__ == "__main__":
    main()
