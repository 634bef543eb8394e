"""``mlx5emu campaign``: runs a matrix of guests, locally or on a cluster, and reports."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.cli.runs.campaign_progress import drive_shown
from emu.cli.runs.campaign_report import conclude
from emu.cli.shared.files import ExampleFile, Existing
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.params import WholeNumber
from emu.cli.shared.progress import display
from emu.guests.machine.launch import provide
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.instruments.campaign.child import Child
from emu.instruments.campaign.drive import RunExecutor
from emu.instruments.campaign.guest_run import NAME as GUEST_RUN
from emu.instruments.campaign.local import Local
from emu.instruments.campaign.matrix import read
from emu.instruments.campaign.minimize import minimize_plan, slug
from emu.instruments.campaign.report import (
    report,
)
from emu.instruments.campaign.store import Store, selected

F = TypeVar("F", bound=Callable[..., Any])

_MATRIX = ExampleFile("campaign")
_DIRECTORY = Existing(is_directory=True)
_OPTIONS = (
    click.option(
        "--jobs",
        type=WholeNumber(1, 1024),
        metavar="N",
        help="Number of parallel guests on this host.  [default: half of its processors]",
    ),
    click.option(
        "--dask",
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler: tcp://HOST:PORT.",
    ),
)
_ONLY = click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Select runs whose names match, such as 'trixie.*.probe-*'; may be repeated.",
)
_AGAIN = click.option(
    "--again",
    "repeated",
    multiple=True,
    metavar="PATTERN",
    help="Repeat runs whose names match, although they have results; may be repeated.",
)
_MINIMIZE = click.option(
    "--minimize",
    is_flag=True,
    help="Find a minimal plan for each finding of a run with faults; each trial boots a guest.",
)


def _executor_options(function: F) -> F:
    for option in reversed((*_OPTIONS, _ONLY, _AGAIN, _MINIMIZE)):
        function = option(function)
    return function


@click.group(cls=NamedGroup, short_help="Run a matrix of guests and report the findings.")
def campaign() -> None:
    """Run many guests from a matrix: kernels, devices, workloads, fault plans, seeds.

    Example: mlx5emu campaign run @loading
    """


@campaign.command("list", short_help="Print the runs of a matrix.")
@_ONLY
@click.argument("matrix", type=_MATRIX)
def list_runs(matrix: Path, patterns: tuple[str, ...]) -> None:
    """Print the names of the runs of MATRIX, and start none.

    Example: mlx5emu campaign list matrix.toml
    """
    names = [run.name for run in read(matrix).runs]
    for name in selected(names, patterns) or names:
        click.echo(name)


@campaign.command(short_help="Run a matrix, then report.")
@_executor_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the campaign; an existing one is continued.  [default: NAME.campaign]",
)
@click.argument("matrix", type=_MATRIX)
def run(
    matrix: Path,
    out: Path | None,
    patterns: tuple[str, ...],
    repeated: tuple[str, ...],
    **how: Any,
) -> None:
    """Execute the runs of MATRIX that have no result yet, then report.

    MATRIX is a file, or @NAME, an example; `mlx5emu guide campaigns` describes it. A run with a
    result is repeated only with --again. Each result is stored at once: after Ctrl-C, a full disk
    or a lost scheduler, the same command continues. The status is 1 if a run ended otherwise than
    its plan's `expect` says; without `expect`, if it failed or has a finding. With --only the
    selected runs count.

    Example: mlx5emu campaign run matrix.toml --jobs 4
    """
    _check_executor(how["jobs"], how["dask"])
    campaign_file = read(matrix)
    names = [one.name for one in campaign_file.runs]
    chosen = selected(names, patterns)  # fails before a directory is created
    again = _to_repeat(names, repeated, chosen)
    path = out or Path(f"{campaign_file.name}.campaign")
    store = Store.create(path, campaign_file.name, campaign_file.runs, again)
    _carry_on(store, patterns, repeated, **how)


@campaign.command(short_help="Continue a campaign, then report.")
@_executor_options
@click.argument("directory", type=_DIRECTORY)
def resume(
    directory: Path, patterns: tuple[str, ...], repeated: tuple[str, ...], **how: Any
) -> None:
    """Continue the campaign in DIRECTORY, then report.

    Example: mlx5emu campaign resume matrix.campaign
    """
    _carry_on(Store.open(directory), patterns, repeated, **how)


@campaign.command("report", short_help="Report the results of a campaign.")
@_MINIMIZE
@click.argument("directory", type=_DIRECTORY)
def show_report(directory: Path, minimize: bool) -> None:
    """Report the results of the campaign in DIRECTORY so far.

    Writes report.json, report.xml (JUnit), report.tap and report.html to DIRECTORY.

    Example: mlx5emu campaign report matrix.campaign
    """
    store = Store.open(directory)
    if minimize:
        _minimize(store)
    sys.exit(conclude(store))


def _check_executor(jobs: int | None, dask: str | None) -> None:
    """Raise UsageError for both options."""
    if jobs is not None and dask is not None:
        raise click.UsageError(
            "use --jobs or --dask, not both: a cluster's workers set the number of guests"
        )


def _to_repeat(
    names: Iterable[str], repeated: tuple[str, ...], chosen: Collection[str] | None
) -> list[str]:
    """Return the runs that --again matches, among the ``chosen`` ones; None stands for all.

    Raises UserError for a pattern without a match.
    """
    again = selected(names, repeated, "--again") or ()
    return [name for name in again if chosen is None or name in chosen]


def _carry_on(
    store: Store,
    patterns: tuple[str, ...],
    repeated: tuple[str, ...],
    *,
    jobs: int | None,
    dask: str | None,
    minimize: bool,
) -> None:
    """Execute the pending runs under the campaign's lock, report, and exit the process.

    The results of chosen runs that ``repeated`` matches are removed before. The status is 0 if each
    chosen run passed, was skipped or ended as the matrix expects, else 1. Raises UsageError for
    ``jobs`` with ``dask``, and UserError if another process holds the lock.
    """
    _check_executor(jobs, dask)
    names = store.selected(patterns)
    again = _to_repeat(store.runs, repeated, names)
    with store.locked(), _report_when_interrupted(store, names, bool(again)):
        store.forget(again)
        if not store.pending(names):
            count = counted(len(store.runs if names is None else names), "run")
            notice(
                f"all results exist ({count}): nothing was run; --again PATTERN repeats"
                " runs, --again '*' all"
            )
        drive_shown(store, _executor(store, names, jobs, dask), names)
        if minimize:
            _minimize(store)
    sys.exit(conclude(store, names))


@contextlib.contextmanager
def _report_when_interrupted(
    store: Store, names: Collection[str] | None, is_repeated: bool
) -> Iterator[None]:
    """Print how many runs of ``names`` are finished if an error or Ctrl-C ends the body.

    The command that continues is named; ``is_repeated``: with --again it would begin anew. The
    exception is raised again.
    """
    try:
        yield
    except BaseException:
        chosen = store.runs if names is None else names
        done = len(chosen) - len(store.pending(names))
        without = " without --again" * is_repeated
        click.echo(err=True)
        notice(
            f"{done} of {counted(len(chosen), 'run')} done; results are in"
            f" {store.path} (mlx5emu campaign report {shlex.quote(str(store.path))})."
            f"\nThe same command{without} continues with the rest."
        )
        raise


def _executor(
    store: Store, names: Collection[str] | None, jobs: int | None, dask: str | None
) -> RunExecutor:
    """Return the executor of the runs: the cluster at ``dask``, else ``jobs`` local workers.

    For local workers QEMU and images are built first.
    """
    if dask is not None:
        from emu.instruments.campaign.cluster import Cluster

        return Cluster(dask, GUEST_RUN)
    with display() as (progress, on_wait):
        guests = (one.guest.value for one in store.pending(names))
        wanted = (
            (of("suite"), of("packages"), (*of("pip"), *of("wheels")), of("arch")) for of in guests
        )
        provide(wanted, progress, on_wait)
    return Local(jobs or max(len(os.sched_getaffinity(0)) // 2, 1), GUEST_RUN)


def _minimize(store: Store) -> None:
    """Search and store minimal plans of findings that have a record and no plan yet.

    Each trial boots a guest. A finding that does not recur is reported and gets no plan.
    """
    outcome = report(store.name, store.runs, store.results())
    child = Child(GUEST_RUN)
    try:
        for group in outcome.groups:
            path = store.path / "minimized" / f"{slug(group.title)}.toml"
            # All runs of a group have the same finding: use the first with a record.
            name = next((one for one in group.runs if store.record(one).exists()), None)
            if path.exists() or name is None:
                continue
            click.echo(f"minimizing {one_line(group.title)} of {name}", err=True)
            text = store.record(name).read_text()
            plan = minimize_plan(store.runs[name], text, group.title, child.result_of)
            if plan is None:
                click.echo("the finding did not recur with the same faults", err=True)
            else:
                store.write(f"minimized/{path.name}", plan)
    finally:
        child.stop()
