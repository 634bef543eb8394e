"""``mlx5emu minimize``: a smallest plan that still makes a command fail."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from emu.cli.runs.replaying import (
    options_of,
    read_record,
    record_arguments,
    run_trial,
)
from emu.cli.shared.files import NewFile
from emu.cli.shared.words import command_words
from emu.device.faults.record import Record
from emu.device.faults.smallest import One, smallest
from emu.device.faults.text import dump
from emu.guests import GuestOptions
from emu.guests.options import Use
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.host.userfiles import write_outfile


@click.command(context_settings={"allow_interspersed_args": False})
@record_arguments(Use.MINIMIZE)
@click.option(
    "-o",
    "--output",
    type=NewFile(),
    help="Where the plan goes; otherwise to standard output.",
)
@click.pass_context
def minimize(
    ctx: click.Context,
    /,
    source: Path,
    words: tuple[str, ...],
    timeout: float | None,
    output: Path | None,
    **choices: Any,
) -> None:
    """Find a smallest plan with which COMMAND fails as it did when RECORD was made.

    First rules are left out, then the single times that the others fired, as long as COMMAND ends
    with another status than 0, takes too long or loses its guest. Each trial boots a guest anew.
    """
    told = read_record(source)
    search = Search(options_of(ctx, told, choices), told, command_words(words, "RECORD"), timeout)
    if not told.fired:
        raise UserError(f"{source}: no fault has fired")
    rest = smallest(told, search.fails)
    if rest is None:
        raise UserError("COMMAND succeeds although every fault has fired again")
    text = dump(told.replayed(rest))
    click.echo(f"mlx5emu: {len(rest)} of {len(told.fired)} faults matter", err=True)
    if output is None:
        sys.stdout.write(text)
    else:
        write_outfile(output, text)


class Search:
    """Trials, each told in a line; the same faults are not tried twice."""

    def __init__(
        self, options: GuestOptions, told: Record, words: Sequence[str], timeout: float | None
    ) -> None:
        self._options = options
        self._told = told
        self._words = words
        self._timeout = timeout
        self._known: dict[frozenset[One], bool] = {}

    def fails(self, faults: Sequence[One]) -> bool:
        """Whether the command fails with these faults."""
        key = frozenset(faults)
        if key not in self._known:
            plan = self._told.replayed(faults)
            ending = run_trial(self._options, plan, self._words, self._timeout, is_loud=False)
            self._known[key] = ending.status != 0
            names = one_line(", ".join(dict.fromkeys(rule for _, rule, _ in faults)) or "none")
            said = "fails" if ending.status else "succeeds"
            click.echo(
                f"trial {len(self._known)}: {len(faults)} faults ({names}): {said}", err=True
            )
        return self._known[key]
