"""Findings of a corpus, or of the library: their replay, and their data for a mail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from emu.cli.options.guest import to_options
from emu.cli.shared.progress import working
from emu.host.printable import one_line, printable
from emu.host.user_error import UserError
from emu.instruments.fuzz.corpus import Corpus, CorpusEntry

_MAX_LOG = 64 << 20


def replay_library(path: Path, choices: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Try a plan of examples/findings in up to three guests; print its findings and the log.

    ``say`` is called with lines about the progress. Raises UserError if its finding did not recur.
    """
    from emu.instruments.fuzz.library import TRIALS, reproduce

    with working(f"trying {path.name}"):
        trial = reproduce(path, to_options(**choices), say, choices["devices"])
    for finding in trial.findings:
        click.echo(one_line(finding.title))
    if trial.findings:
        click.echo(printable(trial.log), err=True)
    if not trial.is_reproduced:
        raise UserError(
            f"the findings did not recur in {TRIALS} guests: {', '.join(trial.missing)}"
        )


def report_of(which: Path) -> Any:
    """Return the data of a finding in a corpus, or of a plan of examples/findings, for a mail.

    Raises UserError for an unknown finding.
    """
    from emu.device.faults.parser import dump
    from emu.host.userfiles import read_infile
    from emu.instruments.fuzz.campaign import REPRODUCTIONS
    from emu.instruments.fuzz.report.mail import Report, of_library

    if which.suffix == ".toml" and which.name != "plan.toml":
        return of_library(which)
    stored, name = Corpus.around(which)
    finding = stored.findings().get(name)
    if finding is None:
        raise UserError(f"{stored.path}: no finding {name}")
    log = stored.path / "findings" / name / "log.txt"
    about = f"The device does what the plan below says while the driver does {finding.workload}."
    return Report(
        finding.title, about, f"It came up again in {finding.again} of {REPRODUCTIONS} trials.",
        [finding.kernel], dump(stored.finding(name).input.plan),
        f"mlx5emu fuzz replay {stored.path.name}/{name}",
        log=read_infile(log, _MAX_LOG).decode(errors="replace") if log.is_file() else "",
    )  # fmt: skip


def named(corpus: Corpus, name: str) -> tuple[str, CorpusEntry, tuple[str, ...]]:
    """Return the title of a finding (empty for an input), its input, and its functions.

    Raises UserError if the corpus has neither under ``name``.
    """
    finding = corpus.findings().get(name)
    if finding is not None:
        return finding.title, corpus.finding(name), tuple(finding.device)
    entry = corpus.entry(name)
    return "", entry, tuple(entry.about.device)
