"""``mlx5emu fuzz``: fuzzes the driver with faults of the device."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import cloup

from emu.cli.options.guest import guest_options, to_options
from emu.cli.runs.fuzz_findings import named, replay_library, report_of
from emu.cli.shared.control import console
from emu.cli.shared.files import ExampleFile, Existing, NewFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.params import NearChoice, RealNumber, WholeNumber
from emu.cli.shared.progress import watching, working
from emu.cli.shared.tables import Rows
from emu.guests.kernel.binaries import is_uml
from emu.guests.options import Use
from emu.host.counted import counted
from emu.host.printable import one_line, printable
from emu.host.user_error import UserError
from emu.instruments.fuzz.corpus import Corpus
from emu.instruments.fuzz.workloads import WORKLOADS

_DEFAULT_WORKLOADS = ("bind", "probe", "verbs", "ipoib")
_MAX_JOBS = 64
_NO_LIMIT_MIB = 1 << 30
"""Trace limit for a trace that is written to /dev/null."""
_CORPUS = click.Path(file_okay=False, path_type=Path)
_FINDING = ExampleFile("finding", has_names=True)
_FILE = Existing()
_NEW_FILE = NewFile()
_OLD_CORPUS = Existing(is_directory=True)


class _FuzzGroup(NamedGroup, cloup.Group):
    """The group, with options in titled groups."""


@cloup.group(cls=_FuzzGroup, short_help="Fuzz the driver with generated faults.")
def fuzz() -> None:
    """Fuzz the driver with generated faults of the device.

    Example: mlx5emu fuzz run --corpus corpus --time 3600
    """


@fuzz.command(short_help="Generate fault plans and keep those with new coverage.")
@guest_options(Use.FUZZ_RUN)
@click.option(
    "--corpus", type=_CORPUS, required=True, metavar="DIR", help="Directory of the corpus."
)
@click.option(
    "--workload",
    "workloads",
    metavar="NAME",
    type=NearChoice(list(WORKLOADS)),
    multiple=True,
    help=f"Work of the guest: {', '.join(WORKLOADS)}; may be repeated."
    f"  [default: {', '.join(_DEFAULT_WORKLOADS)}]",
)
@click.option(
    "--plan",
    "plans",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Initial fault plan; may be repeated.",
)
@click.option(
    "--seed",
    type=WholeNumber(0, (1 << 64) - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of the random numbers.",
)
@click.option("--time", "seconds", type=RealNumber(min=1), metavar="S", help="End after S seconds.")
@click.option("--runs", type=WholeNumber(min=1), metavar="N", help="End after N inputs.")
@click.option(
    "--jobs",
    type=WholeNumber(1, _MAX_JOBS),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of parallel guests; with more than one, runs are not reproducible.",
)
@click.option(
    "--traced",
    is_flag=True,
    help="Decode each trace point, to find failures of the tracer, too.",
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
    """Generate fault plans, run them, and keep those that reach new basic blocks of the driver.

    The guest is emulated, and a plugin of QEMU, which needs a C compiler, counts the driver's
    blocks; or the guest is User-Mode Linux with KCOV. Without --time and --runs the command runs
    until Ctrl-C. An existing corpus in DIR is continued.

    Example: mlx5emu fuzz run --corpus corpus --workload verbs --time 3600
    """
    from emu.instruments.fuzz.campaign import FuzzCampaign
    from emu.instruments.fuzz.watcher import FuzzWatcher
    from emu.server.service.plan_files import read_plan

    _check_emulated(choices)
    read = [read_plan(path) for path in plans]
    options = to_options(**choices)
    works = workloads or _DEFAULT_WORKLOADS
    _check_workloads(works, options.kernel)
    if traced:
        options = dataclasses.replace(options, trace=Path(os.devnull), trace_limit=_NO_LIMIT_MIB)
    stored = Corpus(corpus, create=True)
    with stored.locked(), watching() as shown:

        def say(text: str) -> None:
            shown.close()  # the next progress opens it again
            notice(text)

        say(_beginning(options.devices, works, seed, seconds, runs))
        watcher = FuzzWatcher(shown, shown.waiting, shown.work)
        targets = _targets()
        campaign = FuzzCampaign(stored, options, works, seed, targets, say, read, jobs, watcher)
        campaign.run(seconds, runs)


def _check_workloads(works: Sequence[str], kernel: Path | None) -> None:
    """Raise UsageError if one of these workloads needs User-Mode Linux and the kernel is another.

    Otherwise the first turn refuses it, after minutes of boot and census.
    """
    live = [work for work in works if WORKLOADS[work].is_live]
    if live and not is_uml(kernel):
        raise click.UsageError(
            f"--workload {live[0]} needs a kernel of `mlx5emu guide uml`: --kernel TREE"
        )


def _beginning(
    devices: Sequence[str],
    works: Sequence[str],
    seed: int,
    seconds: float | None,
    runs: int | None,
) -> str:
    """Return a line about the run that begins."""
    ends = [f"for {seconds:.0f} s"] * (seconds is not None)
    ends += [f"for {counted(runs, 'input')}"] if runs is not None else []
    until = " or ".join(ends) or "until Ctrl-C"
    return f"fuzzing {' '.join(devices)} {until}: workloads {', '.join(works)}; seed {seed}"


@fuzz.command(short_help="Show the findings and progress of a corpus.")
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
def show(corpus: Path) -> None:
    """Show the findings of a corpus and the progress of its run.

    Example: mlx5emu fuzz show corpus
    """
    from emu.instruments.fuzz.campaign import progress_of

    stored = Corpus(corpus)
    numbers = ("times", "again")
    table = Rows("finding", "kernel", "workload", *numbers, numbers=numbers)
    for finding in stored.findings().values():
        counts = (str(finding.times), str(finding.again))
        cells = (finding.title, finding.kernel, finding.workload, *counts)
        table.add(*map(one_line, cells))
    if table:
        console().print(table)
    kernels = Counter(entry.about.kernel for entry in stored.entries())
    for kernel, count in sorted(kernels.items()):
        click.echo(f"{one_line(kernel)}: {counted(count, 'input')} kept")
    lines = progress_of(stored)
    if lines:
        seconds, count = lines[-1].seconds, len(lines)
        rate = f"{count / seconds:.2f} a second" if seconds else "at once"
        blocks = counted(lines[-1].blocks, "block")
        click.echo(f"{counted(count, 'run')} in {seconds:.0f} s, {rate}; {blocks} ran")


@fuzz.command(short_help="Merge one corpus into another.")
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
@click.argument("other", metavar="OTHER", type=_OLD_CORPUS)
def merge(corpus: Path, other: Path) -> None:
    """Copy inputs and findings of OTHER that DIR lacks to DIR.

    Example: mlx5emu fuzz merge corpus other-corpus
    """
    stored = Corpus(corpus)
    with stored.locked():
        inputs, titles = stored.merge(Corpus(other))
    click.echo(f"new: {counted(inputs, 'input')}, {counted(titles, 'finding')}")


@fuzz.command(short_help="Write a coverage file of a corpus.")
@click.argument("corpus", metavar="DIR", type=_OLD_CORPUS)
@click.argument("coverage", metavar="COVERAGE", type=_FILE)
@click.option("--out", type=NewFile(replaces=True), required=True, help="File to write.")
def coverage(corpus: Path, coverage: Path, out: Path) -> None:
    """Write a coverage file of the driver's functions that the inputs of DIR have run.

    COVERAGE is a file of `run --coverage` with the same kernel; it has the functions' addresses.

    Example: mlx5emu fuzz coverage corpus coverage.json --out fuzz.json
    """
    from emu.instruments.coverage import data
    from emu.instruments.fuzz.covered import covered

    known, stored = data.load(coverage), Corpus(corpus)
    parts = [covered(known, kernel, stored.hits(kernel)[0]) for kernel in stored.kernels()]
    data.save(out, data.merge(parts))


@fuzz.command(short_help="Run one input or finding again.")
@guest_options(Use.FUZZ_REPLAY)
@click.argument("which", metavar="PATH", type=_FINDING)
def replay(which: Path, **choices: object) -> None:
    """Run one input of a corpus in a new guest, and print its findings.

    PATH is a file of an input, the folder of a finding, or DIR/NAME with the ID of an input or the
    name of a finding. PATH can also be a plan of examples/findings (@NAME, listed by `mlx5emu guide
    @findings`), which is tried in up to three guests. Status 1: the finding did not recur.

    Example: mlx5emu fuzz replay corpus/ID
    """
    from emu.instruments.fuzz.executor import GuestExecutor
    from emu.instruments.fuzz.report.mail import FACTS

    if which.suffix == ".toml" and which.with_name(FACTS).is_file():
        replay_library(which, choices, notice)
        return
    _check_emulated(choices)
    stored, name = Corpus.around(which)
    expected, entry, devices = named(stored, name)
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
        raise UserError(f"the finding did not recur: {expected}")


@fuzz.command(short_help="Print a finding as a mail to the kernel list.")
@click.argument("which", metavar="PATH", type=_FINDING)
@click.option(
    "--tree",
    type=Existing(is_directory=True),
    metavar="SOURCES",
    help="Source tree of the kernel, for the patch; a built tree also adds lines to the log.",
)
def report(which: Path, tree: Path | None) -> None:
    """Print a finding as a mail for the kernel's mailing list, with a patch.

    PATH is the folder of a finding in a corpus, DIR/NAME for short, or a plan of examples/findings
    (@NAME, listed by `mlx5emu guide @findings`), most of which have a proposed patch. Replace the
    words in angle brackets: Fixes:, Signed-off-by:, and the change if none is proposed.

    Example: mlx5emu fuzz report corpus/NAME --tree ~/linux
    """
    from emu.instruments.fuzz.report.mail import mail

    click.echo(printable(mail(report_of(which), tree)), nl=False)


def _check_emulated(choices: Mapping[str, object]) -> None:
    """Raise UsageError for KVM, and on a host that cannot count blocks of amd64 guests."""
    from emu.instruments.coverage.blocks import why_not_here

    if why := why_not_here():
        raise click.UsageError(why)
    if choices["accelerator"] == "kvm":
        raise click.UsageError("blocks are counted by QEMU's translator: drop --accel kvm")


def _targets() -> Any:
    import firmware_cmds  # noqa: F401  (declares the commands)
    from emu.device.cmdif.registry import COMMANDS
    from emu.instruments.fuzz.grammar import targets

    return targets(COMMANDS)
