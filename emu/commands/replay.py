"""``mlx5emu replay``: a run again, with the faults that its record tells of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from emu.commands._guest_options import guest_options
from emu.commands._replaying import options_of, read_record, run_trial


@click.command(context_settings={"allow_interspersed_args": False})
@guest_options
@click.option("--timeout", type=click.FloatRange(min=0.1), metavar="S", help="End it after this.")
@click.argument(
    "source", metavar="RECORD", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    source: Path,
    words: tuple[str, ...],
    timeout: float | None,
    **choices: Any,
) -> None:
    """Run COMMAND in a guest as RECORD's was, and fire the same faults.

    Each fault strikes at the same event as before: the n-th that its rule matches. Suite, kernel
    and functions are those of the record unless options say otherwise. Ends with COMMAND's status,
    and says when a fault did not come up again.
    """
    told = read_record(source)
    ending = run_trial(
        options_of(ctx, told, choices), told.replayed(), _command(words), timeout, is_loud=True
    )
    if ending.why:
        click.echo(f"mlx5emu: {ending.why}", err=True)
    if ending.fired < len(told.fired):
        missing = len(told.fired) - ending.fired
        click.echo(f"mlx5emu: {missing} of {len(told.fired)} faults did not come up", err=True)
    sys.exit(ending.status)


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The command without the ``--`` that may stand before it."""
    if words[0].startswith("-") and words[0] != "--":
        raise click.UsageError(f"{words[0]}: options come before RECORD")
    return words[1:] if words[0] == "--" and len(words) > 1 else words
