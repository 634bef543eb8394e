"""``mlx5emu trace``: shows, counts and exports what ``--trace`` has recorded."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from emu.cli.shared.completion import complete_op, complete_trace_point
from emu.cli.shared.control import console as output
from emu.cli.shared.files import Existing, NewFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.numbers import FunctionName, RealNumber
from emu.cli.shared.progress import working
from emu.cli.shared.stored import stored_events
from emu.cli.shared.tables import Rows
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import REFUSED, EventChoice, kind_of
from emu.device.trace.text import LEGEND, FunctionNames, TextForm, number
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.host.userfiles import write_parts
from emu.instruments.traceview import page
from emu.instruments.traceview import perfetto as perfetto_form
from emu.instruments.traceview.queues import TracedQueue, TracedQueues, ordered
from emu.near import listed, near
from layouts.enums import DeliveryStat, Op, Status, op_name

_STATUSES = (
    REFUSED,
    *(status.name for status in Status),
    *(status.name for status in DeliveryStat),
)
_STYLES: Mapping[str, str] = {
    TracePoint.CMD: "cyan",
    TracePoint.MMIO: "blue",
    TracePoint.EQE: "magenta",
    TracePoint.IRQ: "green",
    TracePoint.WQE: "bright_blue",
    TracePoint.CQE: "yellow",
    TracePoint.LOG: "bold",
}
_FEW = 8
_MAX_LISTED = 32
"""Names of guests, or numbers of functions, that a message lists."""
_MAX_FUNCTIONS = 10_000
"""Functions of a trace that are remembered: more than a server has."""
_STORED = Existing(is_stream=True)
_NEW_FILE = NewFile()
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
F = TypeVar("F", bound=Callable[..., Any])


def _owner_options(function: F) -> F:
    """Add --function and --guest to a command."""
    for option in (
        click.option("--guest", metavar="NAME", help="Show only functions of this guest of a lab."),
        click.option(
            "--function",
            type=FunctionName(),
            metavar="N",
            help="Show only this function, such as 0, or 0.vf1.",
        ),
    ):
        function = option(function)
    return function


class _Owner:
    """Selects the events of a guest's functions, or of one function; all if both are None."""

    def __init__(self, guest: str | None, function: int | str | None, names: FunctionNames) -> None:
        """Take ``guest`` as GUEST, or LAB/GUEST: a trace has one lab and does not name it."""
        self._guest = None if guest is None else guest.rpartition("/")[2]
        self._function = function
        self._names = names
        self._seen: set[int] = set()

    def takes(self, event: TraceEvent) -> bool:
        """Return whether an event is selected; its names are learned first."""
        self._names.learn(event)
        if len(self._seen) < _MAX_FUNCTIONS:
            self._seen.add(event.function)
        if self._guest is not None and self._names.guest(event.function) != self._guest:
            return False
        return self._function is None or self._names.is_one(event.function, self._function)

    def check(self) -> None:
        """Raise BadParameter for a guest, or a function of it, that the whole trace lacks."""
        guest, names = self._guest, self._names
        guests = names.guests()
        if guest is not None and guest not in guests:
            known = listed([*map(one_line, guests)], _MAX_LISTED) or "none has a name"
            text = f"no guest {guest!r}{near(guest, guests)}; guests of the trace: {known}"
            raise click.BadParameter(text, param_hint="--guest")
        if self._function is not None and len(self._seen) < _MAX_FUNCTIONS:
            its = [one for one in self._seen if guest is None or names.guest(one) == guest]
            if any(names.is_one(one, self._function) for one in its):
                return
            known = listed(names.numbers(its), _MAX_LISTED) or "none"
            whose = "the trace" if guest is None else one_line(guest)
            text = f"no function {self._function}; functions of {whose}: {known}"
            raise click.BadParameter(text, param_hint="--function")


def _known(value: str, names: Iterable[str]) -> str:
    """Return the known name that equals ``value`` without regard to case.

    Raises BadParameter, with similar names, for an unknown one.
    """
    known = {name.lower(): name for name in names}
    if value.lower() in known:
        return known[value.lower()]
    hint = near(value, known.values()) or f"; known names: {listed([*known.values()], _FEW)}"
    raise click.BadParameter(f"unknown name {value!r}{hint}")


def _points(_ctx: click.Context, _param: click.Parameter, value: str) -> frozenset[str]:
    return frozenset(_known(name.strip(), TracePoint) for name in value.split(",") if value)


def _ops(_ctx: click.Context, _param: click.Parameter, value: str) -> frozenset[str]:
    return frozenset(_op(name.strip()) for name in value.split(",") if value)


def _op(value: str) -> str:
    """Return the name of a command given by number or name.

    Raises BadParameter for an unknown name.
    """
    try:
        return op_name(int(value, 0))
    except ValueError:
        return _known(value, map(op_name, Op))


def _status(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else _known(value, _STATUSES)


@click.group(cls=NamedGroup, short_help="Show, count and export recorded traces.")
def trace() -> None:
    """Show, count and export what --trace has recorded.

    Example: mlx5emu trace show dev.trace --point cmd
    """


@trace.command(short_help="Print a trace, or selected events.")
@click.argument("file", type=_STORED)
@click.option(
    "--point",
    "points",
    default="",
    callback=_points,
    metavar="POINT[,...]",
    shell_complete=complete_trace_point,
    help=f"Show only these points: {', '.join(TracePoint)}. A fault is a page fault; log and "
    "call are the kernel's (--dmesg, --ftrace).",
)
@click.option(
    "--op",
    "ops",
    default="",
    callback=_ops,
    metavar="OP[,...]",
    shell_complete=complete_op,
    help="Show only these commands, such as CREATE_CQ or 0x400.",
)
@click.option(
    "--status",
    callback=_status,
    metavar="STATUS",
    help="Show only commands with this status, such as BAD_RES_ERR; refused: all but OK.",
)
@_owner_options
@click.option(
    "--since", type=RealNumber(min=0), metavar="S", help="Show events from this second on."
)
@click.option("--until", type=RealNumber(min=0), metavar="S", help="Show events up to this second.")
@click.option(
    "--long", "is_long", is_flag=True, help="Do not truncate lines at the terminal's width."
)
@click.option(
    "--legend/--no-legend",
    "has_legend",
    default=None,
    help="Print a legend of columns and words first.  [default: on a terminal]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the stored JSON lines.")
def show(
    file: str,
    as_json: bool,
    function: int | str | None,
    guest: str | None,
    is_long: bool,
    has_legend: bool | None,
    **criteria: Any,
) -> None:
    """Print a trace, or selected events of it.

    FILE is a file of --trace in JSON form; - is standard input. To follow a growing file, use tail
    -n +1 -f FILE | mlx5emu trace show -

    Columns are seconds since the first event, the function (f0, f0.vf1 for a virtual one, in a lab
    GUEST/f0; k is the guest's kernel), the point, and the event. On a terminal, a legend is printed
    first and long lines are truncated; a pipe gets whole lines.

    Example: mlx5emu trace show dev.trace --point cmd --status refused
    """
    choice, form = EventChoice(**criteria), TextForm()
    owner = _Owner(guest, function, form.names)
    screen = Console(highlight=False, emoji=False, markup=False)
    is_cut = sys.stdout.isatty() and not is_long
    say = _json_line if as_json else _printer(form, screen, is_cut=is_cut)
    if not as_json and (sys.stdout.isatty() if has_legend is None else has_legend):
        click.echo(LEGEND)
    events = shown = 0
    with _reading(file) as end:
        for line, event in stored_events(file):
            events += 1
            is_chosen = owner.takes(event)
            if choice.takes(event, form.origin_ns(event)) and is_chosen:
                end()
                say(line, event)
                shown += 1
    owner.check()
    if events and not shown:
        why = "" if choice.is_possible else ": only cmd has commands and statuses"
        click.echo(f"mlx5emu: none of {counted(events, 'event')} matches{why}", err=True)
    # Raises BrokenPipeError here if the reader has exited, not when the interpreter ends.
    sys.stdout.flush()


@trace.command(short_help="Count the events of a trace by kind.")
@click.argument("file", type=_STORED)
@_owner_options
@_JSON
def count(file: str, guest: str | None, function: int | str | None, as_json: bool) -> None:
    """Count the commands, work requests, completions and events of a trace by kind.

    FILE is a file of --trace in JSON form; - is standard input.

    Example: mlx5emu trace count dev.trace
    """
    counts: Counter[tuple[str, str]] = Counter()
    owner = _Owner(guest, function, FunctionNames())
    with working(f"reading {file}"):
        for _, event in stored_events(file):
            if owner.takes(event):
                counts[kind_of(event)] += 1
    owner.check()
    names = ("point", "kind", "number")
    rows = [(*key, number) for key, number in sorted(counts.items())]
    if as_json:
        click.echo(json.dumps([dict(zip(names, row)) for row in rows], indent=1))
        return
    table = Rows(*names, numbers=("number",))
    for row in rows:
        table.add(*(one_line(str(cell)) for cell in row))
    output().print(table)


@trace.command(short_help="Show states, completions and errors of each queue.")
@click.argument("file", type=_STORED)
@_owner_options
@_JSON
def queues(file: str, guest: str | None, function: int | str | None, as_json: bool) -> None:
    """Show the states, requests, completions and errors of each queue, failed queues first.

    A queue's name begins with its function (f0, in a lab GUEST/f0). FILE is a file of --trace in
    JSON form; - is standard input.

    Example: mlx5emu trace queues dev.trace
    """
    seen, names = TracedQueues(), FunctionNames()
    owner = _Owner(guest, function, names)
    with working(f"reading {file}"):
        for _, event in stored_events(file):
            if owner.takes(event):
                seen.feed(event)
    owner.check()
    if as_json:
        rows = [_queue(names, queue) for _, queue in ordered(seen.all)]
        click.echo(json.dumps(rows, indent=1))
        return
    columns = ("queue", "attributes", "states", "completions", "requests or events", "errors")
    table = Rows(*columns, numbers=("completions",))
    for _, queue in ordered(seen.all):
        number_of, kind, its_number, about, life, requests, done, errors = queue.row()
        cells = (f"{names.of(number_of)} {kind} {number(its_number)}", about, life, str(done or ""))
        table.add(*cells, _counted(requests), Text(_counted(errors), "red"))
    output().print(table)


def _queue(names: FunctionNames, queue: TracedQueue) -> dict[str, Any]:
    """Return a queue's values for JSON; requests of a CQ or EQ are its events."""
    keys = ("number", "attributes", "states", "requests", "completions", "errors")
    function, kind, *rest = queue.row()
    return {"function": names.of(function), "kind": kind, **dict(zip(keys, rest))}


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{times} {one_line(name)}" for name, times in kinds.items())


@trace.command(short_help="Export a trace for Perfetto or a browser.")
@click.argument("file", type=_STORED)
@click.option("--perfetto", type=_NEW_FILE, help="Write a file for ui.perfetto.dev.")
@click.option("--html", type=_NEW_FILE, help="Write a page for a browser.")
def export(file: str, perfetto: Path | None, html: Path | None) -> None:
    """Export a trace for Perfetto, or as a page for a browser.

    FILE is a file of --trace in JSON form; - is standard input. For Perfetto, each command slot,
    queue and interrupt vector is a track; commands and page faults have a duration. The page is
    self-contained: the same time line, filters, a search, and all fields of a selected event.

    Example: mlx5emu trace export dev.trace --html dev.html
    """
    requested = [(perfetto, perfetto_form.export), (html, page.export)]
    chosen = [(path, form) for path, form in requested if path is not None]
    if not chosen or (file == "-" and len(chosen) > 1):
        raise click.UsageError("give --perfetto FILE or --html FILE; with standard input, only one")
    for path, form in chosen:
        with working(f"writing {path}"):
            write_parts(path, form(event for _, event in stored_events(file)))


def _reading(file: str) -> AbstractContextManager[Callable[[], None]]:
    """Return :func:`working` for ``trace show``; nothing is shown if the output is no terminal.

    A pager or ``head`` behind a pipe then has the terminal to itself.
    """
    return working(f"reading {file}") if sys.stdout.isatty() else nullcontext(lambda: None)


def _json_line(line: str, _event: TraceEvent) -> None:
    sys.stdout.write(line.rstrip() + "\n")


def _printer(form: TextForm, screen: Console, *, is_cut: bool) -> Callable[[str, TraceEvent], None]:
    """Return a function that prints an event: coloured on a terminal, plain elsewhere.

    With ``is_cut`` a line is truncated at the terminal's width.
    """

    def print_event(_line: str, event: TraceEvent) -> None:
        if screen.is_terminal:
            line = _coloured(event, form.columns(event))
            if is_cut:
                line.truncate(screen.width, overflow="ellipsis")
            screen.print(line, soft_wrap=True)
        else:
            sys.stdout.write(form(event) + "\n")

    return print_event


def _coloured(event: TraceEvent, columns: tuple[str, str, str, str]) -> Text:
    time, function, point, body = columns
    return Text.assemble(
        (time, "dim"),
        f" {function} ",
        (point, _STYLES.get(event.point, "")),
        (f" {body}", "red" if event.is_refusal else ""),
    )
