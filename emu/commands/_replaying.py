"""What ``replay`` and ``minimize`` share: a guest as recorded, with the plan of a trial."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from emu.commands._guest_options import to_options
from emu.faults import record
from emu.faults.plan import Plan
from emu.faults.record import Record, RecordError
from emu.faults.text import dump
from emu.guest import CommandTimeoutError, Guest, GuestError, GuestOptions, ServerError, frames
from emu.guest.options import DEFAULT_DEVICE
from emu.user_error import UserError


@dataclass(frozen=True)
class Ending:
    """How a trial has ended."""

    status: int
    fired: int
    why: str = ""


def read_record(path: Path) -> Record:
    """The record in a file. Raises UserError."""
    try:
        found = record.read(path.read_text(errors="replace"), str(path))
    except RecordError as error:
        raise UserError(str(error)) from None
    if found.added:
        click.echo(
            f"mlx5emu: {found.added} rules were added while that run was on; they are left out",
            err=True,
        )
    return found


def options_of(ctx: click.Context, told: Record, choices: Mapping[str, Any]) -> GuestOptions:
    """The guest of a record, with what the command line says otherwise."""
    options = to_options(**choices)
    run = told.head.get("run")
    run = run if isinstance(run, dict) else {}
    changes: dict[str, Any] = {}
    if ctx.get_parameter_source("suite") is not click.core.ParameterSource.COMMANDLINE:
        changes["suite"] = run.get("suite") or options.suite
    if options.kernel is None and run.get("kernel"):
        changes |= {"kernel": Path(run["kernel"])}
        if run.get("modules"):
            changes |= {"modules": Path(run["modules"])}
    devices = told.head.get("devices")
    if options.devices == (DEFAULT_DEVICE,) and isinstance(devices, list) and devices:
        changes["devices"] = tuple(map(str, devices))
    return dataclasses.replace(options, **changes)


def run_trial(
    options: GuestOptions,
    plan: Plan,
    words: Sequence[str],
    timeout: float | None,
    *,
    is_loud: bool,
) -> Ending:
    """Boot a guest, run a command under a plan. A guest that is lost over it counts as failed."""
    with tempfile.TemporaryDirectory(prefix="mlx5emu-trial-") as directory:
        path, fired = Path(directory, "plan.toml"), Path(directory, "record")
        path.write_text(dump(plan))
        kept = options.record or fired
        guest = Guest(dataclasses.replace(options, faults=path, record=kept))
        why = ""
        try:
            guest.start()
            job = guest.popen(words, sink=_print if is_loud else _nowhere)
            status = guest.wait(job, timeout)
        except ServerError:
            raise
        except CommandTimeoutError as error:
            status, why = error.status, str(error)
        except GuestError as error:
            status, why = error.status, str(error)
        finally:
            guest.stop()
        count = len(record.read(kept.read_text()).fired)
    return Ending(status, count, why)


def _print(kind: int, data: bytes) -> None:
    stream = sys.stdout if kind == frames.STDOUT else sys.stderr
    stream.buffer.write(data)
    stream.buffer.flush()


def _nowhere(_kind: int, _data: bytes) -> None:
    pass
