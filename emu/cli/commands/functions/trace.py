"""``mlx5emu trace``: what ``--trace`` has recorded."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from emu.cli.shared.completion import complete_op, complete_trace_point
from emu.cli.shared.control import console as output
from emu.cli.shared.files import NewFile
from emu.cli.shared.progress import working
from emu.cli.shared.stored import stored_events
from emu.cli.shared.tables import Rows
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import REFUSED, EventChoice, kind_of
from emu.device.trace.text import LEGEND, TextForm, number
from emu.host.printable import one_line
from emu.host.userfiles import write_parts
from emu.instruments.traceview import page
from emu.instruments.traceview import perfetto as perfetto_form
from emu.instruments.traceview.queues import Queues, ordered
from emu.near import near_names
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
_NEW_FILE = NewFile()


def _known(value: str, names: Iterable[str]) -> str:
    """The name meant, in either case. Raises BadParameter, with what is near it."""
    known = {name.lower(): name for name in names}
    if value.lower() in known:
        return known[value.lower()]
    hint = ", ".join(near_names(value, known.values()) or list(known.values())[:_FEW])
    raise click.BadParameter(f"{value!r} is none; there is {hint}")


def _points(_ctx: click.Context, _param: click.Parameter, value: str) -> frozenset[str]:
    return frozenset(_known(name.strip(), TracePoint) for name in value.split(",") if value)


def _ops(_ctx: click.Context, _param: click.Parameter, value: str) -> frozenset[str]:
    return frozenset(_op(name.strip()) for name in value.split(",") if value)


def _op(value: str) -> str:
    try:
        return op_name(int(value, 0))
    except ValueError:
        return _known(value, map(op_name, Op))


def _status(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else _known(value, _STATUSES)


@click.group()
def trace() -> None:
    """What the functions did: read what --trace has recorded."""


@trace.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--point",
    "points",
    default="",
    callback=_points,
    metavar="POINT[,...]",
    shell_complete=complete_trace_point,
    help=f"Only these: {', '.join(TracePoint)}.",
)
@click.option(
    "--op",
    "ops",
    default="",
    callback=_ops,
    metavar="OP[,...]",
    shell_complete=complete_op,
    help="Only these commands, such as CREATE_CQ or 0x400.",
)
@click.option(
    "--status",
    callback=_status,
    metavar="STATUS",
    help="Only commands with this status, such as BAD_RES_ERR; refused is all but OK.",
)
@click.option("--function", type=click.IntRange(min=0), metavar="N", help="Only this function.")
@click.option("--guest", metavar="NAME", help="Only the functions of this guest of a lab.")
@click.option("--since", type=click.FloatRange(min=0), metavar="S", help="Not before this second.")
@click.option("--until", type=click.FloatRange(min=0), metavar="S", help="Not after this second.")
@click.option("--long", "is_long", is_flag=True, help="Cut no line at the terminal's edge.")
@click.option(
    "--legend/--no-legend",
    "has_legend",
    default=None,
    help="Say first what the columns and words mean.  [default: on a terminal]",
)
@click.option("--json", "as_json", is_flag=True, help="The lines as they are stored.")
def show(
    file: str,
    as_json: bool,
    guest: str | None,
    is_long: bool,
    has_legend: bool | None,
    **criteria: Any,
) -> None:
    """Print a trace, or a choice from it.

    FILE is what --trace has written in its JSON form; - is standard input, so this follows a
    trace that grows: tail -n +1 -f FILE | mlx5emu trace show -

    Columns are seconds from the first line of the trace on, the function (f0, of a lab GUEST/f0; k
    is the guest's kernel), the point, and what happened there. A terminal gets a legend first, and
    an ellipsis where its edge cuts a line; a pipe gets whole lines.
    """
    choice, form = EventChoice(**criteria), TextForm()
    screen = Console(highlight=False, emoji=False, markup=False)
    is_cut = sys.stdout.isatty() and not is_long
    say = _json_line if as_json else _printer(form, screen, is_cut=is_cut)
    if not as_json and (sys.stdout.isatty() if has_legend is None else has_legend):
        click.echo(LEGEND)
    with working(f"reading {file}") as end:
        for line, event in stored_events(file):
            form.names.learn(event)
            is_guests = guest is None or form.names.guest(event.function) == guest
            if choice.takes(event, form.origin_ns(event)) and is_guests:
                end()
                say(line, event)
    # A reader that has gone is noticed here, not when the interpreter ends.
    sys.stdout.flush()


@trace.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def count(file: str) -> None:
    """Count what a trace has of each kind: commands, work requests, completions, events.

    FILE is what --trace has written in its JSON form; - is standard input.
    """
    counts: Counter[tuple[str, str]] = Counter()
    with working(f"reading {file}"):
        for _, event in stored_events(file):
            counts[kind_of(event)] += 1
    table = Rows("point", "kind", "number", numbers=("number",))
    for (point, kind), count in sorted(counts.items()):
        table.add(one_line(point), one_line(kind), str(count))
    output().print(table)


@trace.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def queues(file: str) -> None:
    """Say what became of each queue: its states, requests, completions, errors.

    Those that failed come first. FILE is what --trace has written in its JSON form; - is standard
    input.
    """
    seen = Queues()
    with working(f"reading {file}"):
        for _, event in stored_events(file):
            seen.feed(event)
    columns = ("queue", "what it is", "its life", "completions", "requests or events", "errors")
    table = Rows(*columns, numbers=("completions",))
    for _, queue in ordered(seen.all):
        function, kind, its_number, about, life, requests, done, errors = queue.row()
        cells = (f"f{function} {kind} {number(its_number)}", about, life, str(done or ""))
        table.add(*cells, _counted(requests), Text(_counted(errors), "red"))
    output().print(table)


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{times} {one_line(name)}" for name, times in kinds.items())


@trace.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--perfetto", type=_NEW_FILE, help="Write it for ui.perfetto.dev.")
@click.option("--html", type=_NEW_FILE, help="Write a page for any browser.")
def export(file: str, perfetto: Path | None, html: Path | None) -> None:
    """Write a trace in a form that is looked at.

    FILE is what --trace has written in its JSON form; - is standard input. For Perfetto, each
    command slot, queue, and interrupt vector is a track; commands and page faults have their
    length. The page has the same time line, filters, a search, and every field of what is clicked
    on; it needs nothing but itself.
    """
    requested = [(perfetto, perfetto_form.export), (html, page.export)]
    chosen = [(path, form) for path, form in requested if path is not None]
    if not chosen or (file == "-" and len(chosen) > 1):
        raise click.UsageError("--perfetto FILE or --html FILE; of standard input, one of them")
    for path, form in chosen:
        with working(f"writing {path}"):
            write_parts(path, form(event for _, event in stored_events(file)))


def _json_line(line: str, _event: TraceEvent) -> None:
    sys.stdout.write(line.rstrip() + "\n")


def _printer(form: TextForm, screen: Console, *, is_cut: bool) -> Callable[[str, TraceEvent], None]:
    def say(_line: str, event: TraceEvent) -> None:
        if screen.is_terminal:
            line = _coloured(event, form.columns(event))
            if is_cut:
                line.truncate(screen.width, overflow="ellipsis")
            screen.print(line, soft_wrap=True)
        else:
            sys.stdout.write(form(event) + "\n")

    return say


def _coloured(event: TraceEvent, columns: tuple[str, str, str, str]) -> Text:
    time, function, point, body = columns
    return Text.assemble(
        (time, "dim"),
        f" {function} ",
        (point, _STYLES.get(event.point, "")),
        (f" {body}", "red" if event.is_refusal else ""),
    )
