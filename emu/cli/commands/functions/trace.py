"""``mlx5emu trace``: shows, counts and exports what ``--trace`` has recorded."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from emu.cli.options.trace_events import EventOwner, event_options, owner_options
from emu.cli.shared.control import console as output
from emu.cli.shared.files import Existing, NewFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.progress import working
from emu.cli.shared.stored import stored_events
from emu.cli.shared.tables import Rows
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import EventChoice, kind_of
from emu.device.trace.text import LEGEND, FunctionNames, TextForm, number
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.host.userfiles import write_parts
from emu.instruments.traceview import page
from emu.instruments.traceview import perfetto as perfetto_form
from emu.instruments.traceview.queues import TracedQueue, TracedQueues, ordered

_STYLES: Mapping[str, str] = {
    TracePoint.CMD: "cyan",
    TracePoint.MMIO: "blue",
    TracePoint.EQE: "magenta",
    TracePoint.IRQ: "green",
    TracePoint.WQE: "bright_blue",
    TracePoint.CQE: "yellow",
    TracePoint.LOG: "bold",
}
_STORED = Existing(is_stream=True)
_NEW_FILE = NewFile()
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")


@click.group(cls=NamedGroup, short_help="Show, count and export recorded traces.")
def trace() -> None:
    """Show, count and export what --trace has recorded.

    Example: mlx5emu trace show dev.trace --point cmd
    """


@trace.command(short_help="Print a trace, or selected events.")
@click.argument("file", type=_STORED)
@event_options
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
    owner = EventOwner(guest, function, form.names)
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
        notice(f"none of {counted(events, 'event')} matches{why}")
    # Raises BrokenPipeError here if the reader has exited, not when the interpreter ends.
    sys.stdout.flush()


@trace.command(short_help="Count the events of a trace by kind.")
@click.argument("file", type=_STORED)
@owner_options
@_JSON
def count(file: str, guest: str | None, function: int | str | None, as_json: bool) -> None:
    """Count the commands, work requests, completions and events of a trace by kind.

    FILE is a file of --trace in JSON form; - is standard input.

    Example: mlx5emu trace count dev.trace
    """
    counts: Counter[tuple[str, str]] = Counter()
    owner = EventOwner(guest, function, FunctionNames())
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
@owner_options
@_JSON
def queues(file: str, guest: str | None, function: int | str | None, as_json: bool) -> None:
    """Show the states, requests, completions and errors of each queue, failed queues first.

    A queue's name begins with its function (f0, in a lab GUEST/f0). FILE is a file of --trace in
    JSON form; - is standard input.

    Example: mlx5emu trace queues dev.trace
    """
    seen, names = TracedQueues(), FunctionNames()
    owner = EventOwner(guest, function, names)
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
            events = (event for _, event in stored_events(file))
            # Read before the file is opened, which a file without a trace leaves as it is.
            first = [*islice(events, 1)]
            write_parts(path, form(chain(first, events)))


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
