"""``mlx5emu rdma-tests``: runs rdma-core's tests in a guest."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click
import cloup
from rich.console import Console

from emu.cli.options.coverage import (
    CoverageRequest,
    check_modules,
    coverage_options,
    covered,
    with_coverage,
)
from emu.cli.options.guest import guest_options, to_options
from emu.cli.options.results import results_options, write_results
from emu.cli.shared.control import console as output
from emu.cli.shared.files import NewFile
from emu.cli.shared.params import RealNumber
from emu.cli.shared.progress import display
from emu.cli.shared.tables import Rows
from emu.guests import Guest, GuestError
from emu.guests.architecture import ARCHITECTURES
from emu.guests.conformance import suite as tests
from emu.guests.conformance.reasons import count_wants
from emu.guests.conformance.results import Case, Verdict
from emu.guests.conformance.suite import BROKEN, ModuleRun, SuiteOutcome
from emu.guests.options import Use
from emu.host.printable import one_line, printable
from emu.host.userfiles import write_outfile

PREPARING = "preparing the tests"
REASONS = 3
"""Number of skip reasons that a module's row shows."""


@cloup.command(short_help="Run rdma-core's tests in a guest.")
@guest_options(Use.RDMA_TESTS)
@coverage_options
@results_options
@click.option(
    "--module",
    "names",
    multiple=True,
    metavar="NAME",
    help="Run only this module; may be repeated.",
)
@click.option(
    "--timeout",
    type=RealNumber(min=1),
    default=tests.DEFAULT_TIMEOUT,
    show_default=True,
    metavar="S",
    help="Time limit of one test, in seconds.",
)
@click.option(
    "--json",
    "json_file",
    type=NewFile(),
    help="Write every test's result to this file.",
)
def rdma_tests(
    names: tuple[str, ...],
    timeout: float,
    json_file: Path | None,
    coverage: CoverageRequest,
    junit_file: Path | None,
    tap_file: Path | None,
    **choices: object,
) -> None:
    """Run rdma-core's tests in a guest with an emulated function.

    Prints each module's counts and the reasons for skipped tests: another vendor's device, a GPU,
    another configuration, or a program that is not built. The status is 1 if a test failed. If the
    guest panics, the result files have the tests that ended before, and the panic as an error.

    The command reserves huge pages, and gives the interfaces addresses and an MTU. With --iommu and
    several functions, tests of user-space drivers use the last function, by vfio.

    Example: mlx5emu rdma-tests --module test_qp
    """
    choices["hugepages"] = choices["hugepages"] or tests.HUGE_PAGES
    options = to_options(**with_coverage(choices, coverage))
    check_modules(options, coverage)
    if not ARCHITECTURES[options.arch].has_verbs:
        why = f"Debian's libibverbs of {options.arch} has no mlx5, which the tests need"
        raise click.BadParameter(why, param_hint="--arch")
    runs: list[ModuleRun] = []
    begun = "the guest"
    try:
        with contextlib.ExitStack() as stack:
            with display() as (progress, on_wait):
                guest = Guest(options, progress=progress, on_wait=on_wait)
                stack.enter_context(guest)
            stack.enter_context(covered(guest, coverage))
            progress, _ = stack.enter_context(display())
            progress(PREPARING, 0, 0)
            tests.prepare(guest)
            handed = tests.hand_over(guest) if options.iommu and len(options.devices) > 1 else ""
            for module in tests.choose(tests.list_modules(guest), names):
                begun = module
                runs.append(tests.run_module(guest, module, timeout, progress, handed))
    except GuestError as error:
        # The modules that ended before, and the failure itself, are results.
        lost = Case(begun, "the guest", Verdict.ERROR, str(error), log=error.console)
        write_results([*tests.cases(runs), lost], junit_file, tap_file)
        raise
    if json_file is not None:
        text = json.dumps([run.as_dict() for run in runs], indent=1) + "\n"
        write_outfile(json_file, text)
    write_results(tests.cases(runs), junit_file, tap_file)
    console = output()
    console.print(_table(runs))
    if missing := count_wants(reason for run in runs for reason in run.skip_reasons()):
        listed = ", ".join(f"{count} {lack.value}" for lack, count in missing.items())
        console.print(f"Skipped tests need: {listed}.")
    _print_broken(console, runs)
    sys.exit(1 if any(run.count(*BROKEN) for run in runs) else 0)


def _table(runs: list[ModuleRun]) -> Rows:
    counted = ("passed", "skipped", "failed")
    table = Rows("module", *counted, "why skipped", numbers=counted, title="rdma-core's tests")
    for run in runs:
        reasons = [f"{count} x {one_line(reason)}" for reason, count in run.skip_reasons()]
        more = [f"and {len(reasons) - REASONS} more"] if len(reasons) > REASONS else []
        table.add(one_line(run.module), *_counts([run]), ", ".join(reasons[:REASONS] + more))
    table.add("all", *_counts(runs), "")
    return table


def _counts(runs: list[ModuleRun]) -> list[str]:
    groups = ((SuiteOutcome.PASSED,), (SuiteOutcome.SKIPPED,), BROKEN)
    return [str(sum(run.count(*group) for run in runs)) for group in groups]


def _print_broken(console: Console, runs: list[ModuleRun]) -> None:
    for run in runs:
        for test in run.tests:
            if test.outcome in BROKEN:
                console.print(f"{test.outcome.value}: {one_line(test.test)}", style="bold red")
                console.print(printable(test.detail.strip()), soft_wrap=True)
