"""``mlx5emu fuzz``: the device looks for mistakes of its driver."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from emu.cli.options.guest import guest_options, to_options
from emu.cli.shared.control import console
from emu.cli.shared.files import ExampleFile, NewFile
from emu.cli.shared.progress import watching, working
from emu.cli.shared.tables import Rows
from emu.guests.options import Use
from emu.host.printable import one_line, printable
from emu.host.user_error import UserError
from emu.instruments.fuzz.corpus import Corpus, CorpusEntry
from emu.instruments.fuzz.workloads import WORKLOADS

_DEFAULT_WORKLOADS = ("bind", "probe", "verbs", "ipoib")
_MAX_JOBS = 64
_MAX_LOG = 64 << 20
_NO_LIMIT_MIB = 1 << 30
"""Of a trace that goes nowhere."""
_CORPUS = click.Path(file_okay=False, path_type=Path)
_FINDING = ExampleFile("finding", has_names=True)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE = NewFile()
_OLD_CORPUS = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def fuzz() -> None:
    """Let the device look for mistakes of its driver, by faults that are made up."""


@fuzz.command()
@guest_options(Use.FUZZ_RUN)
@click.option("--corpus", type=_CORPUS, required=True, metavar="DIR", help="Where inputs are kept.")
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(list(WORKLOADS)),
    multiple=True,
    help=f"What the guest does; may be repeated.  [default: {', '.join(_DEFAULT_WORKLOADS)}]",
)
@click.option(
    "--plan",
    "plans",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="A fault plan to begin with; may be repeated.",
)
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), default=0, show_default=True)
@click.option(
    "--time", "seconds", type=click.FloatRange(min=1), metavar="S", help="End after this."
)
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="End after so many inputs.")
@click.option(
    "--jobs",
    type=click.IntRange(1, _MAX_JOBS),
    default=1,
    show_default=True,
    metavar="N",
    help="Guests side by side. With more than one the inputs are not the same in every run.",
)
@click.option(
    "--traced",
    is_flag=True,
    help="Decode each trace point, so that a failure of the tracer comes up as well.",
)
def run(
    corpus: Path,
    workloads: tuple[str, ...],
    plans: tuple[Path, ...],
    seed: int,
    seconds: float | None,
    runs: int | None,
    jobs: int,
    traced: bool,
    **choices: object,
) -> None:
    """Make plans, carry them out, keep those that make new blocks of the driver run.

    The guest is emulated, and its driver's blocks are counted by a plugin for QEMU, which needs a
    C compiler; or it is User-Mode Linux with KCOV. Without --time and --runs it goes on until it
    is interrupted. What an earlier run has left in DIR is the beginning of this one.
    """
    from emu.instruments.fuzz.campaign import FuzzCampaign
    from emu.instruments.fuzz.watcher import FuzzWatcher
    from emu.server.service.plan_files import read_plan

    _check_emulated(choices)
    read = [read_plan(path) for path in plans]
    options = to_options(**choices)
    if traced:
        options = dataclasses.replace(options, trace=Path(os.devnull), trace_limit=_NO_LIMIT_MIB)
    stored = Corpus(corpus, create=True)
    with stored.claimed():
        works = workloads or _DEFAULT_WORKLOADS
        with watching() as shown:

            def say(text: str) -> None:
                shown.close()  # until there is something to show again
                _say(text)

            watcher = FuzzWatcher(shown, shown.waiting, shown.work)
            targets = _targets()
            campaign = FuzzCampaign(stored, options, works, seed, targets, say, read, jobs, watcher)
            campaign.run(seconds, runs)


@fuzz.command()
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
def show(corpus: Path) -> None:
    """Print what a corpus has found, and how its run went."""
    from emu.instruments.fuzz.campaign import progress_of

    stored = Corpus(corpus)
    counted = ("times", "again")
    table = Rows("finding", "kernel", "workload", *counted, numbers=counted)
    for finding in stored.findings().values():
        counts = (str(finding.times), str(finding.again))
        cells = (finding.title, finding.kernel, finding.workload, *counts)
        table.add(*map(one_line, cells))
    if table:
        console().print(table)
    kernels = Counter(entry.about.kernel for entry in stored.entries())
    for kernel, count in sorted(kernels.items()):
        click.echo(f"{one_line(kernel)}: {count} inputs are kept")
    lines = progress_of(stored)
    if lines:
        seconds, count = lines[-1].seconds, len(lines)
        rate = f"{count / seconds:.2f} a second" if seconds else "at once"
        click.echo(f"{count} runs in {seconds:.0f} s, {rate}; {lines[-1].blocks} blocks ran")


@fuzz.command()
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
@click.argument("other", metavar="OTHER", type=_OLD_CORPUS)
def merge(corpus: Path, other: Path) -> None:
    """Take over into DIR what OTHER has and DIR has not."""
    stored = Corpus(corpus)
    with stored.claimed():
        inputs, titles = stored.merge(Corpus(other))
    click.echo(f"{inputs} inputs and {titles} findings are new")


@fuzz.command()
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
@click.argument("coverage", metavar="COVERAGE", type=_FILE)
@click.option("--out", type=_NEW_FILE, required=True, help="The file to write.")
def coverage(corpus: Path, coverage: Path, out: Path) -> None:
    """Write what the inputs of DIR have run of the driver as a coverage file, by function.

    COVERAGE is one of the same kernel, as run and suite write them; it tells where functions begin.
    """
    from emu.instruments.coverage import data
    from emu.instruments.fuzz.covered import covered

    known, stored = data.load(coverage), Corpus(corpus)
    parts = [covered(known, kernel, stored.hits(kernel)[0]) for kernel in stored.kernels()]
    data.save(out, data.merge(parts))


@fuzz.command()
@guest_options(Use.FUZZ_REPLAY)
@click.argument("which", metavar="PATH", type=_FINDING)
def replay(which: Path, **choices: object) -> None:
    """Carry out one input of a corpus in a fresh guest, and print what goes wrong.

    PATH is one of an input's files, a finding's folder, or DIR/ID with an input's ID or the name of
    a finding's folder. Or it is a plan of examples/findings (@NAME, listed by `mlx5emu guide
    @findings`), tried in three guests at most. Status 1: a finding did not come up again.
    """
    from emu.instruments.fuzz.executor import GuestExecutor
    from emu.instruments.fuzz.report.mail import FACTS

    if which.suffix == ".toml" and which.with_name(FACTS).is_file():
        _replay_library(which, choices)
        return
    _check_emulated(choices)
    stored, name = Corpus.around(which)
    expected, entry, devices = _named(stored, name)
    choices["devices"] = choices["devices"] or devices
    executor = GuestExecutor(to_options(**choices))
    try:
        with working(f"replaying {name}: a guest does {entry.input.workload}"):
            feedback = executor.run(entry.input)
    finally:
        executor.close()
    for title in feedback.titles:
        click.echo(one_line(title))
    if feedback.titles:
        click.echo(printable(feedback.log), err=True)
    if expected and expected not in feedback.titles:
        raise UserError(f"it did not come up: {expected}")


def _replay_library(path: Path, choices: Mapping[str, Any]) -> None:
    from emu.instruments.fuzz.library import TRIALS, reproduce

    with working(f"trying {path.name}"):
        trial = reproduce(path, to_options(**choices), _say, choices["devices"])
    for finding in trial.findings:
        click.echo(one_line(finding.title))
    if trial.findings:
        click.echo(printable(trial.log), err=True)
    if not trial.has_come_up:
        raise UserError(f"it did not come up in {TRIALS} guests: {', '.join(trial.missing)}")


@fuzz.command()
@click.argument("which", metavar="PATH", type=_FINDING)
@click.option(
    "--tree",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="SOURCES",
    help="The kernel's sources, for the patch; a build of them, for the lines of the log.",
)
def report(which: Path, tree: Path | None) -> None:
    """Print a finding as a mail for the kernel's mailing list, with a patch.

    PATH is a finding's folder in a corpus, DIR/NAME for short, or a plan of examples/findings
    (@NAME, listed by `mlx5emu guide @findings`), for which there are proposals. The words in angle
    brackets are left to you: what it fixes, who signs it off, and the change where nothing is
    proposed.
    """
    from emu.instruments.fuzz.report.mail import mail

    click.echo(printable(mail(_report(which), tree)), nl=False)


def _report(which: Path) -> Any:
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


def _named(corpus: Corpus, name: str) -> tuple[str, CorpusEntry, tuple[str, ...]]:
    """The title of a finding, the input, its functions."""
    finding = corpus.findings().get(name)
    if finding is not None:
        return finding.title, corpus.finding(name), tuple(finding.device)
    entry = corpus.entry(name)
    return "", entry, tuple(entry.about.device)


def _check_emulated(choices: Mapping[str, object]) -> None:
    if choices["accelerator"] == "kvm":
        raise click.UsageError("blocks are seen by what QEMU translates: not with KVM")


def _targets() -> Any:
    import firmware_cmds  # noqa: F401  (declares the commands)
    from emu.device.cmdif.registry import COMMANDS
    from emu.instruments.fuzz.grammar import targets

    return targets(COMMANDS)


def _say(text: str) -> None:
    click.echo(f"mlx5emu: {text}", err=True)
