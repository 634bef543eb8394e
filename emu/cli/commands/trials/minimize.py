"""``mlx5emu minimize``: finds a minimal plan with which a command still fails."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

import click
import cloup

from emu.cli.options.place import in_share
from emu.cli.runs.replaying import (
    options_of,
    read_record,
    record_arguments,
    run_trial,
)
from emu.cli.shared.files import NewFile
from emu.cli.shared.notice import notice
from emu.cli.shared.words import command_words
from emu.device.faults.parser import dump
from emu.device.faults.record import FaultRecord
from emu.guests.options import Use
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.host.userfiles import write_outfile
from emu.instruments.minimize.search import One, Search, minimize_faults
from emu.instruments.minimize.verdict import TrialResult, Verdicts

_ABOUT_AFTER = """\
# This plan starts with the boot. A rule with `after` starts once its function has run that many
# commands, as in the record; this replaces the `when` of the plan that was recorded.
"""


@cloup.command(
    short_help="Find a minimal fault plan for a failure.",
    context_settings={"allow_interspersed_args": False},
)
@record_arguments(Use.MINIMIZE)
@click.option(
    "-o",
    "--output",
    type=NewFile(),
    help="File of the plan.  [default: standard output]",
)
@click.pass_context
def minimize(
    ctx: click.Context,
    /,
    source: Path,
    words: tuple[str, ...],
    timeout: float | None,
    output: Path | None,
    cwd: str | None,
    no_share: bool,
    **choices: object,
) -> None:
    """Find a minimal plan with which COMMAND fails the same way as with all faults of RECORD.

    The search removes rules, then single firings of the remaining rules, while COMMAND still ends
    with the same status, times out, or loses its guest. Each trial boots a guest. A failure counts
    if it occurs twice. If Ctrl-C ends the search, the smallest plan so far is written.

    Example: mlx5emu minimize faults.record -- ./reproducer
    """
    recorded = read_record(source)
    options = options_of(ctx, recorded, choices, no_share=no_share)
    words = tuple(in_share(command_words(words, "RECORD"), cwd, options))
    if not recorded.fired:
        links = ", and its links are not reduced" if recorded.plan.link else ""
        raise UserError(f"{source}: no fault has fired in this record{links}")
    numbers = count(1)

    def run(faults: Sequence[One]) -> TrialResult:
        ending = run_trial(options, recorded.replayed(faults), words, timeout, is_loud=False)
        _tell(next(numbers), faults, f"fails ({ending.kind})" if ending.kind else "succeeds")
        return TrialResult(ending.kind, ending.fired)

    search = Search[list[One]](Verdicts(run).shows, frozenset)
    try:
        rest = search.run(partial(minimize_faults, recorded))
    except BaseException:
        if search.best is not None:
            _conclude(recorded, search.best, output, "are sufficient so far")
        raise
    if rest is None:
        raise UserError("COMMAND did not fail twice in the same way with all faults of the record")
    _conclude(recorded, rest, output, "are necessary")


def _conclude(recorded: FaultRecord, faults: Sequence[One], output: Path | None, verb: str) -> None:
    """Write the plan that fires ``faults`` to ``output`` or standard output; print their number."""
    text = plan_text(recorded, faults)
    notice(f"{len(faults)} of {len(recorded.fired)} faults {verb}")
    if output is None:
        sys.stdout.write(text)
    else:
        write_outfile(output, text)


def plan_text(recorded: FaultRecord, faults: Sequence[One]) -> str:
    """Return the plan that fires ``faults`` as TOML, with a comment where rules have ``after``."""
    plan = recorded.replayed(faults)
    return (_ABOUT_AFTER if any(rule.after for rule in plan.rule) else "") + dump(plan)


def _tell(number: int, faults: Sequence[One], said: str) -> None:
    """Print a line about a trial."""
    names = one_line(", ".join(dict.fromkeys(rule for _, rule, _ in faults)) or "none")
    click.echo(f"trial {number}: {counted(len(faults), 'fault')} ({names}): {said}", err=True)
