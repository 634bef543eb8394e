"""``mlx5emu replay``: a run again, with the faults that its record tells of."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from emu.cli.options.place import in_share
from emu.cli.runs.replaying import (
    options_of,
    read_record,
    record_arguments,
    run_trial,
)
from emu.cli.shared.words import command_words
from emu.guests.options import Use
from emu.host.printable import printable


@click.command(context_settings={"allow_interspersed_args": False})
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
    """Run COMMAND in a guest as RECORD's was, and fire the same faults.

    Each fault strikes at the same event as before: the n-th that its rule matches. Suite, kernel,
    functions and shared directory are those of the record unless options say otherwise. Ends with
    COMMAND's status, and says when a fault did not come up again.
    """
    recorded = read_record(source)
    options = options_of(ctx, recorded, choices, no_share=no_share)
    command = in_share(command_words(words, "RECORD"), cwd, options)
    ending = run_trial(options, recorded.replayed(), command, timeout, is_loud=True)
    if ending.why:
        click.echo(f"mlx5emu: {printable(ending.why)}", err=True)
    if ending.fired < len(recorded.fired):
        missing = len(recorded.fired) - ending.fired
        click.echo(f"mlx5emu: {missing} of {len(recorded.fired)} faults did not come up", err=True)
    sys.exit(ending.status)
