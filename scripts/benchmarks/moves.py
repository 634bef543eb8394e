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
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import click
from figures import Goal, Row, Section
from rig import Pair
from tables import json_option, show

from emu.device.cmdif.registry import COMMANDS
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from layouts.enums import Op

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / name}/" for name in ("emu", "layouts", "firmware_cmds"))
DRIVER = f"{ROOT / 'emu' / 'driver'}/"
WARM_UP = 20
MESSAGE_BYTES = 64

T = TypeVar("T")
Measure = Callable[[Callable[[], object]], T]
"""Runs an action and returns its measurement."""


class Entry(NamedTuple):
    """Function that was entered."""

    module: str
    function: str


class Goals(NamedTuple):
    """Maximum number of modules and moves of a path; None for no goal."""

    modules: float | None
    moves: float | None


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


def write(wire: Callable[[HandClock], IbWire[Hca]], measure: Measure[T]) -> T:
    """Measure from the doorbell of an RDMA WRITE to its completion."""
    pair = Pair(wire, MESSAGE_BYTES)

    def send() -> None:
        pair.qp.ring()
        pair.left.settle()

    def once() -> T:
        pair.qp.write(pair.remote, pair.source.sge(0, MESSAGE_BYTES), ring=False)
        found = measure(send)
        (done,) = pair.qp.cq.drain()
        if done.syndrome:
            raise RuntimeError(f"the WRITE has failed: {done}")
        return found

    return [once() for _ in range(WARM_UP)][-1]


def alloc_pd(measure: Measure[T]) -> T:
    """Measure from the doorbell of a command to its answer."""
    driver = Pair(LocalFabric, MESSAGE_BYTES).left.driver
    layout_in, layout_out = COMMANDS[Op.ALLOC_PD].layout_in, COMMANDS[Op.ALLOC_PD].layout_out

    def once() -> T:
        asked = layout_in.new(opcode=Op.ALLOC_PD).buf
        blocks = driver.submit(asked, layout_out.size)
        found = measure(lambda: driver.ring(1))
        driver.collect(blocks, layout_out.size)
        return found

    return [once() for _ in range(WARM_UP)][-1]


class Walk(NamedTuple):
    """Measurements of one message, or one command."""

    entries: list[Entry]
    instructions: int


def both(path: Callable[[Measure[Any]], Any]) -> Walk:
    """Measure a path twice."""
    return Walk(path(entries), path(instructions))


PATHS: dict[str, tuple[Callable[[Measure[Any]], Any], Goals]] = {
    f"RDMA WRITE of {MESSAGE_BYTES} B": (partial(write, LocalFabric), Goals(15, 25)),
    "the same as packets": (partial(write, lambda _: PacketWire()), Goals(20, 90)),
    "ALLOC_PD": (alloc_pd, Goals(8, None)),
}
_COUNTED = ("modules", "moves", "calls", "instructions")


def rows(name: str, walk: Walk, goals: Goals) -> list[Row]:
    """Return the rows of a path."""
    found = walk.entries
    modules, moves = len({entry.module for entry in found}), len(runs(found)) - 1
    counts = modules, moves, len(found), walk.instructions
    return [
        Row(f"{name}: {what}", "", [count], goal=None if goal is None else Goal(goal))
        for what, count, goal in zip(_COUNTED, counts, (*goals, None, None))
    ]


@click.command(help=__doc__)
@click.option("--path", "is_path", is_flag=True, help="Show each move in its order as well.")
@json_option
def main(is_path: bool, as_json: bool) -> None:
    """Count modules, moves and instructions."""
    logging.disable(logging.WARNING)
    paths = {name: (both(path), goals) for name, (path, goals) in PATHS.items()}
    for name, (walk, _) in paths.items() if is_path else ():
        lines = (f"    {module}: {', '.join(stay)}" for module, stay in runs(walk.entries))
        click.echo("\n".join([name, *lines, ""]), err=True)
    table = [row for name, (walk, goals) in paths.items() for row in rows(name, walk, goals)]
    title = "Modules that a message passes"
    show([Section("moves", title, table, "count")], as_json=as_json)


if __name__ == "__main__":
    main()
