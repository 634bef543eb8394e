"""``mlx5emu chaos``: how a test ends when its RDMA network fails, for each failure of a set."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import cloup

from emu.cli.options.chaos import (
    ChaosChoices,
    TestCommand,
    chaos_options,
    test_of,
)
from emu.cli.options.guest import given_values, guest_options, prepare, to_options
from emu.cli.options.place import in_share, place_options, with_share
from emu.cli.options.results import results_options, write_results
from emu.cli.runs.campaign_progress import drive_shown
from emu.cli.shared.control import console
from emu.cli.shared.files import ExampleFile
from emu.cli.shared.notice import notice
from emu.cli.shared.tables import Rows
from emu.device.trace.stored import TraceReader
from emu.guests.options import Use, option_named, options
from emu.host import shipped
from emu.host.counted import counted
from emu.host.printable import one_line
from emu.instruments.campaign.description import Description, GuestPart, PeerPart, RunResult
from emu.instruments.campaign.guest_run import NAME as GUEST_RUN
from emu.instruments.campaign.local import Local
from emu.instruments.campaign.matrix_tables import MAX_RUNS
from emu.instruments.campaign.store import Store, as_json, trace_name
from emu.instruments.chaos.moments import counts_rdma
from emu.instruments.chaos.page import page
from emu.instruments.chaos.report import (
    ChaosReport,
    Row,
    cases,
    failed_without_faults,
    report,
    summary,
)
from emu.instruments.chaos.runs import DEFAULT_SET, DEVICES, ChaosTest, clean_run, failure_runs
from emu.instruments.chaos.sets import ChaosFailure, LinkLayer, one_sided, read_sets, selected
from emu.instruments.chaos.verdicts import WORDS, ChaosVerdict, Judge, why_not_clean
from emu.instruments.traceview import page as traceview

FAILS_WITHOUT_FAULTS = 121
"""Exit status if the test fails already in the run without faults."""


@cloup.command(
    cls=TestCommand,
    short_help="Run a test once for each failure of a set.",
)
@guest_options(Use.CHAOS)
@place_options
@results_options
@chaos_options
@click.argument("sets", metavar="[SET]... [-- TEST...]", nargs=-1, type=ExampleFile("failure set"))
@click.pass_context
def chaos(
    ctx: click.Context,
    /,
    sets: tuple[Path, ...],
    cwd: str | None,
    no_share: bool,
    junit_file: Path | None,
    tap_file: Path | None,
    chosen: ChaosChoices,
    **choices: Any,
) -> None:
    """Run TEST in guests whose adapters fail, and report for each failure how TEST ends.

    SET is a file of failures, or @NAME, an example; the default is the recipe's, else @verbs. TEST
    runs once without faults, then once for each failure, each time in a new guest. The guest has
    two functions of one network, mlx5_0 and mlx5_1. The failures of @verbs strike RDMA; programs
    over sockets have @over-ipoib and @over-ethernet. `mlx5emu guide chaos` describes the files.

    The first rule that holds is the verdict: the kernel warns (kernel), a signal ends TEST (crash),
    TEST does not end (hang), TEST received wrong data (wrong-data), objects are left in the adapter
    (leak), TEST ends with an error (error). Otherwise it recovered (recovered). A TEST that ends
    before the failure struck says nothing about it (not-reached). With --recipe a file has TEST and
    its guest.

    With --peer the second function is in a second guest, in which the peer's command runs; the
    failures strike TEST's guest alone. Both commands have the variables ADDRESS (their own) and
    PEER (the other guest's).

    Status 1: a verdict of --fail-on. Status 121: TEST fails without faults.

    Example: mlx5emu chaos -- ./my-test
    """
    words = test_of(ctx)
    paths = sets or (shipped.example("failure set", DEFAULT_SET),)
    link, choices = _with_devices(choices, chosen.link)
    peer, choices = _with_peer(choices, chosen.peer)
    failures = read_sets(paths)
    failures = selected(failures if peer is None else one_sided(failures), link, chosen.patterns)
    _check_runs(len(failures), len(chosen.seeds))
    test = _test(words, cwd, link or "device", choices, peer, no_share=no_share)
    path = chosen.results or Path(f"{paths[0].stem}.chaos")
    clean = clean_run(test, chosen.timeout)
    store = Store.renew(path, paths[0].stem, [clean])
    with store.locked():
        session = _Session(store, failures, chosen, shlex.join(words), (junit_file, tap_file))
        session.run_clean(clean)
        session.run_failures(test)
    sys.exit(session.conclude())


def _check_runs(failures: int, repeat: int) -> None:
    """Raise UsageError for more runs than a campaign has."""
    if failures * repeat > MAX_RUNS:
        wanted = f"{counted(failures, 'failure')} x --repeat {repeat}"
        raise click.UsageError(f"{wanted}: more than {MAX_RUNS} runs; --only selects failures")


def _with_devices(
    choices: dict[str, Any], link: LinkLayer | None
) -> tuple[LinkLayer | None, dict[str, Any]]:
    """Return the link layer and the guest's choices, with its functions.

    The user's functions have any link layer, None, unless ``link`` names one. Raises UsageError
    for a guest without functions.
    """
    if choices.get("no_device"):
        raise click.UsageError("a failure needs a function: drop --no-device")
    if choices.get("devices"):
        return link, choices
    link = link or "ib"
    return link, {**choices, "devices": DEVICES[link]}


def _with_peer(
    choices: dict[str, Any], command: str | None
) -> tuple[PeerPart | None, dict[str, Any]]:
    """Return the second guest that runs ``command``, and the choices of TEST's guest.

    The second of two functions moves to the second guest. Without a command there is no such guest.
    Raises UsageError for another number of functions, for a command without words, and for options
    that both guests cannot have.
    """
    if command is None:
        return None, choices
    if not command.strip():
        raise click.UsageError("--peer needs a command")
    for name in ("subnet", "nets", "out"):
        if choices.get(name):
            raise click.UsageError(f"--{option_named(name).flag} cannot be used with --peer")
    first, *others = choices["devices"]
    if len(others) != 1:
        raise click.UsageError("--peer needs two functions: --device for TEST's, then the peer's")
    return PeerPart(command=command, devices=others), {**choices, "devices": (first,)}


def _test(
    words: Sequence[str],
    cwd: str | None,
    link: str,
    choices: dict[str, Any],
    peer: PeerPart | None,
    *,
    no_share: bool,
) -> ChaosTest:
    """Return the test in its guest; QEMU and the image are built first.

    Raises UsageError, BadParameter or UserError for options that no guest takes, and for a test
    that is no program of the shared directory.
    """
    made = to_options(**with_share(choices, no_share=no_share))
    placed = in_share(words, cwd, made)
    prepare(made)
    shares_default = choices.get("share") is None and not no_share
    return ChaosTest(
        command=shlex.join(words if cwd is None else placed),
        guest=_guest_part(choices),
        link=link,
        directory=str(Path.cwd()) if shares_default else None,
        peer=peer,
    )


def _guest_part(choices: dict[str, Any]) -> GuestPart:
    """Return the choices of a command line as a run's guest options, with absolute paths."""
    given = {"share_writable": False, **given_values(choices)}
    here = Path.cwd()
    return GuestPart.model_validate(
        {
            one.word: one.kind.placed(one.kind.recorded(one.name, given), here)
            for one in options()
            if one.name in given and given[one.name] != one.default
        }
    )


class _Session:
    """The runs of one command: first without faults, then the failures, then the report."""

    def __init__(
        self,
        store: Store,
        failures: Sequence[ChaosFailure],
        chosen: ChaosChoices,
        test: str,
        files: tuple[Path | None, Path | None],
    ) -> None:
        self._store = store
        self._failures = failures
        self._chosen = chosen
        self._test = test
        self._files = files
        """The files of --junit and --tap."""
        self._judge: Judge | None = None
        self._patience = 0.0

    def run_clean(self, run: Description) -> None:
        """Run the test without faults. Exits with status 121, and the reason, if the test fails.

        The files of results then have this one error, in place of an earlier run's results.
        """
        drive_shown(self._store, Local(1, GUEST_RUN), [run.name], _clean_words)
        result = self._store.results()[run.name]
        if why := why_not_clean(result):
            click.echo(result.output, err=True, nl=not result.output.endswith("\n"))
            notice(f"the test fails without faults: {one_line(why)}")
            write_results([failed_without_faults(run, result, one_line(why))], *self._files)
            sys.exit(FAILS_WITHOUT_FAULTS)
        self._judge = Judge(result, self._chosen.wrong_data_status, self._chosen.is_compared)
        observed = result.observed
        seconds = 0.0 if observed is None else observed.seconds
        self._patience = self._chosen.patience.seconds(seconds)

    def run_failures(self, test: ChaosTest) -> None:
        """Run the test once for each failure and seed; what is done is reported after Ctrl-C."""
        runs = failure_runs(test, self._failures, self._chosen.seeds, self._patience)
        self._store = self._store.extended(runs)
        try:
            drive_shown(
                self._store, Local(self._chosen.jobs, GUEST_RUN), [one.name for one in runs],
                self._described,
            )  # fmt: skip
        except BaseException:
            path = self._write(self._report())
            click.echo(err=True)
            notice(f"not all runs are done; results so far: {path}")
            raise

    def conclude(self) -> int:
        """Print the report, write its files, and return the exit status."""
        chaos_report = self._report()
        path = self._write(chaos_report)
        write_results(cases(chaos_report), *self._files)
        if self._chosen.as_json:
            click.echo(as_json(summary(chaos_report)), nl=False)
        else:
            _print(chaos_report, self._store, path)
        return 0 if chaos_report.is_good else 1

    def _described(self, result: RunResult) -> str:
        assert self._judge is not None
        judged = self._judge.judged(result)
        return f"{WORDS[judged.verdict]}: {judged.evidence}"

    def _report(self) -> ChaosReport:
        assert self._judge is not None
        return report(
            self._test, self._failures, self._store.runs, self._store.results(), self._judge,
            patience=self._patience, bad=self._chosen.fail_on,
        )  # fmt: skip

    def _write(self, chaos_report: ChaosReport) -> Path:
        """Write report.json, report.xml, report.html and pages of traces; return report.html."""
        store = self._store
        store.write("report.json", as_json(summary(chaos_report)))
        write_results(cases(chaos_report), store.path / "report.xml", None)
        for row in chaos_report.rows:
            for one in row.runs:
                _write_trace_page(store, one.run.name)
        html = "".join(page(chaos_report, lambda name: (store.path / name).exists()))
        return store.write("report.html", html)


def _write_trace_page(store: Store, name: str) -> None:
    """Write a page of a run's trace beside the trace, if there is one."""
    trace = store.path / trace_name(name)
    if trace.exists():
        with trace.open("rb") as file:
            events = (event for _, event in TraceReader(file, lambda *_: None))
            store.write(trace_name(name, "html"), "".join(traceview.export(events)))


def _clean_words(result: RunResult) -> str:
    why = why_not_clean(result)
    if why or result.observed is None:
        return f"without faults: {why}"
    return f"without faults, {result.observed.seconds:.1f} s"


def _advice(missed: Sequence[Row]) -> str:
    """Return what lets a test reach failures: other sets if some count RDMA, or more to send."""
    of_rdma = sum(counts_rdma(row.failure.planned(0)) for row in missed)
    if not of_rdma:
        return "let the test send more"
    return (
        f"let the test send more; failures that begin with RDMA: {of_rdma}. For a program over"
        " sockets use @over-ipoib, or @over-ethernet with --link eth"
    )


def _print(chaos_report: ChaosReport, store: Store, path: Path) -> None:
    """Print a row for each failure, the number of each verdict, and how to repeat the worst."""
    screen = console()
    table = Rows("failure", "verdict", "evidence")
    for row in chaos_report.rows:
        table.add(row.failure.name, row.words, row.worst.judged.evidence)
    screen.print(table)
    screen.print()
    counts = ", ".join(f"{count} {WORDS[one]}" for one, count in chaos_report.counts().items())
    missing = f", {chaos_report.missing} runs missing" if chaos_report.missing else ""
    failures = counted(len(chaos_report.rows), "failure")
    screen.print(f"{failures}: {counts}{missing}", soft_wrap=True)
    missed = [one for one in chaos_report.rows if one.verdict is ChaosVerdict.NOT_REACHED]
    if 2 * len(missed) > len(chaos_report.rows):
        screen.print(f"most were not reached: {_advice(missed)}", soft_wrap=True)
    bad = [row for row in chaos_report.rows if chaos_report.is_bad(row.verdict)]
    for row in bad[:1]:
        record = store.record(row.worst.run.name)
        if record.exists() and row.worst.run.peer is None:  # a replay has one guest
            limit = f"--timeout {math.ceil(row.worst.run.timeout)} {shlex.quote(str(record))}"
            words = f"mlx5emu replay {limit} -- {chaos_report.test}"
            screen.print(f"{row.failure.name} again: {words}", soft_wrap=True)
    screen.print(f"{path}", soft_wrap=True)
