"""Options that select events of a trace: by point, command, status, time, function or guest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from emu.cli.shared.completion import complete_op, complete_trace_point
from emu.cli.shared.params import FunctionName, RealNumber
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import REFUSED
from emu.device.trace.text import FunctionNames
from emu.host.printable import one_line
from emu.near import listed, near
from layouts.enums.cmd import DeliveryStat, Op, Status, op_name

_STATUSES = (
    REFUSED,
    *(status.name for status in Status),
    *(status.name for status in DeliveryStat),
)
_FEW = 8
_MAX_LISTED = 32
"""Names of guests, or numbers of functions, that a message lists."""
_MAX_FUNCTIONS = 10_000
"""Functions of a trace that are remembered: more than a server has."""
F = TypeVar("F", bound=Callable[..., Any])


def owner_options(function: F) -> F:
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


class EventOwner:
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


_KINDS = (
    click.option(
        "--point",
        "points",
        default="",
        callback=_points,
        metavar="POINT[,...]",
        shell_complete=complete_trace_point,
        help=f"Show only these points: {', '.join(TracePoint)}. A fault is a page fault; log and "
        "call are the kernel's (--dmesg, --ftrace).",
    ),
    click.option(
        "--op",
        "ops",
        default="",
        callback=_ops,
        metavar="OP[,...]",
        shell_complete=complete_op,
        help="Show only these commands, such as CREATE_CQ or 0x400.",
    ),
    click.option(
        "--status",
        callback=_status,
        metavar="STATUS",
        help="Show only commands with this status, such as BAD_RES_ERR; refused: all but OK.",
    ),
)
_TIMES = (
    click.option(
        "--since", type=RealNumber(min=0), metavar="S", help="Show events from this second on."
    ),
    click.option(
        "--until", type=RealNumber(min=0), metavar="S", help="Show events up to this second."
    ),
)


def event_options(function: F) -> F:
    """Add the options of :func:`owner_options`, of kinds and of times to a command."""
    for option in reversed((*_KINDS, owner_options, *_TIMES)):
        function = option(function)
    return function
