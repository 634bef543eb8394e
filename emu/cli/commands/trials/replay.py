"""``mlx5emu replay``: repeats a run with the faults of its record."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import cloup

from emu.cli.options.place import in_share
from emu.cli.runs.fired import tell_again
from emu.cli.runs.replaying import (
    options_of,
    read_record,
    record_arguments,
    run_trial,
)
from emu.cli.shared.notice import notice
from emu.cli.shared.words import command_words
from emu.guests.options import Use


@cloup.command(
    short_help="Repeat a run with the faults of its record.",
    context_settings={"allow_interspersed_args": False},
)
@record_arguments(Use.REPLAY)
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    source: Path,
    words: tuple[str, ...],
    timeout: float | None,
    cwd: str | None,
    no_share: bool,
    **choices: object,
) -> None:
    """Run COMMAND in a guest like that of RECORD, and fire the same faults.

    Each fault fires at the same event: the n-th that its rule matches. Suite, kernel, functions and
    shared directory are those of the record, unless options override them. The exit status is that
    of COMMAND. The number of faults that fired again is printed.

    Example: mlx5emu replay faults.record -- ./reproducer
    """
    recorded = read_record(source)
    options = options_of(ctx, recorded, choices, no_share=no_share)
    command = in_share(command_words(words, "RECORD"), cwd, options)
    ending = run_trial(options, recorded.replayed(), command, timeout, is_loud=True)
    if ending.why:
        notice(ending.why)
    tell_again(ending.fired, len(recorded.fired), len(recorded.plan.link))
    sys.exit(ending.status)
