"""Shared by ``replay`` and ``minimize``: boots the guest of a record with a fault plan."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from emu.cli.options.guest import guest_options, to_options
from emu.cli.options.place import place_options, with_share
from emu.cli.shared.files import Existing
from emu.cli.shared.output import forward
from emu.cli.shared.params import RealNumber
from emu.cli.shared.progress import display, working
from emu.device.faults import record
from emu.device.faults.parser import dump
from emu.device.faults.plan import Plan
from emu.device.faults.record import FaultRecord, RecordError
from emu.guests import Guest, GuestError, GuestOptions, ServerError
from emu.guests.options import Use, option_named, records
from emu.guests.workdir import work_directory
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile

F = TypeVar("F", bound=Callable[..., Any])

COMMANDLINE = ParameterSource.COMMANDLINE
_ARGUMENTS = (
    click.option(
        "--timeout",
        type=RealNumber(min=0.1),
        metavar="S",
        help="End COMMAND after S seconds, as a failure.",
    ),
    click.argument("source", metavar="RECORD", type=Existing()),
    click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED),
)


def record_arguments(use: Use) -> Callable[[F], F]:
    """Return a decorator that adds guest options, --cwd, --timeout, RECORD and COMMAND."""

    def decorate(function: F) -> F:
        for argument in reversed(_ARGUMENTS):
            function = argument(function)
        return guest_options(use)(place_options(function))

    return decorate


@dataclass(frozen=True)
class Ending:
    """Outcome of a trial."""

    status: int
    fired: int
    why: str = ""
    kind: str = ""
    """Kind of failure: the command's status, or the name of the guest's error; else empty."""


def read_record(path: Path) -> FaultRecord:
    """Return the record of faults in a file. Raises UserError for an invalid one, and OSError."""
    try:
        text = read_infile(path, record.MAX_BYTES).decode(errors="replace")
        return record.read(text, str(path))
    except RecordError as error:
        raise UserError(str(error)) from None


def options_of(
    ctx: click.Context, recorded: FaultRecord, choices: Mapping[str, Any], *, no_share: bool
) -> GuestOptions:
    """Return the options of a record's guest, overridden by those of the command line.

    If neither names a shared directory, the working directory is shared, unless ``no_share``.
    Raises UserError for a record with invalid options or a directory that is missing.
    """
    try:
        of_record = records.options_of(recorded.head.get("run", {}))
    except ValueError as error:
        raise UserError(f"the record's guest: {error}") from None
    if devices := recorded.head.get("devices"):
        of_record["devices"] = tuple(devices)
    given = {name for name in choices if ctx.get_parameter_source(name) is COMMANDLINE}
    if "no_device" in given:
        given.add("devices")
    # Options of the record that depend on an overridden one.
    for name, other in (("kernel", "modules"), ("icount", "cpus")):
        if name in given:
            of_record.pop(other, None)
    if no_share:
        of_record.pop("share", None)
    retained = {name: value for name, value in of_record.items() if name not in given}
    if "share" in retained:
        option = option_named("share")
        directory = option.kind.fields(option.name, retained["share"], Path.cwd())[option.name]
        if not directory.is_dir():
            raise UserError(
                f"the record's directory {directory} does not exist: add --share DIR or --no-share"
            )
    return to_options(**with_share({**choices, **retained}, no_share=no_share))


def run_trial(
    options: GuestOptions,
    plan: Plan,
    words: Sequence[str],
    timeout: float | None,
    *,
    is_loud: bool,
) -> Ending:
    """Boot a guest and run a command under a plan; stop the guest and return the outcome.

    A guest that fails is a failed trial, not an exception. With ``is_loud`` the command's output is
    shown. Raises ServerError if the device server fails, and LabError of a failed build.
    """
    with work_directory() as directory, contextlib.ExitStack() as stack:
        path, fired = directory / "plan.toml", directory / "record"
        path.write_text(dump(plan))
        record_path = options.record or fired
        why = lost = ""
        progress, on_wait = stack.enter_context(display())
        requested = dataclasses.replace(options, faults=path, record=record_path)
        guest = Guest(requested, progress=progress, on_wait=on_wait)
        try:
            guest.start()
            stack.close()
            job = guest.popen(words, sink=forward if is_loud else _nowhere)
            silence = contextlib.nullcontext() if is_loud else working(f"running {job.name}")
            with silence:
                status = guest.wait(job, timeout)
        except ServerError:
            raise
        except GuestError as error:
            status, why, lost = error.status, str(error), type(error).__name__
        finally:
            guest.stop()
        count = len(record.read(record_path.read_text()).fired)
    return Ending(status, count, why, lost or (f"status {status}" if status else ""))


def _nowhere(_kind: int, _data: bytes) -> None:
    pass
