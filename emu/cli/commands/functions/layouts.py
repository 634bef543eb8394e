"""``mlx5emu layouts``: compares the declared structures with the driver's binaries."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from emu.cli.shared.control import console as output
from emu.cli.shared.files import Existing
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.params import NearChoice
from emu.cli.shared.progress import display, working
from emu.cli.shared.tables import Hanging, Rows
from emu.guests.archive.names import SUITES
from emu.guests.image import image
from emu.guests.image.driver import driver_binaries
from emu.guests.workdir import work_directory
from emu.host.printable import printable
from emu.host.user_error import UserError
from layouts.btf import binaries
from layouts.btf.check import check as compare
from layouts.btf.kernel_differences import KNOWN
from layouts.btf.reader import BtfError
from layouts.btf.report import BtfReport, Difference
from layouts.registry import structures

_FILE = Existing()


def _refuse_kernel(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """Fail for the name that --suite had in version 0.3.0."""
    if value is not None:
        ctx.fail("--kernel is now --suite")


@click.group(cls=NamedGroup, short_help="Compare declared structures with the driver's binaries.")
def layouts() -> None:
    """Compare the emulator's declared structures with the driver's binaries, for its developers.

    Example: mlx5emu layouts check --suite trixie
    """


@layouts.command(short_help="Compare the structures with the driver's BTF.")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    type=NearChoice(SUITES),
    help="Use the driver of this suite's guest image; may be repeated.",
)
@click.option(
    "--module",
    "modules",
    multiple=True,
    type=_FILE,
    help="Module of the driver, compressed or not: mlx5_core; may be repeated for mlx5_ib.",
)
@click.option("--kernel", "_", hidden=True, expose_value=False, callback=_refuse_kernel)
@click.option("--vmlinux", "kernel", type=_FILE, help="vmlinux or vmlinuz of the modules.")
@click.option("--explained", is_flag=True, help="List the known differences and their reasons.")
@click.option(
    "--unmodelled",
    is_flag=True,
    help="List fields of the driver that the emulator declares as reserved.",
)
def check(
    suites: tuple[str, ...],
    modules: tuple[Path, ...],
    kernel: Path | None,
    explained: bool,
    unmodelled: bool,
) -> None:
    """Compare every declared structure with the type information (BTF) of the driver.

    Reports each field that differs in name, offset or width. The status is 1 if the
    list of --explained lacks a difference, or has one that no longer exists.

    Example: mlx5emu layouts check --suite trixie --suite sid
    """
    if bool(suites) == bool(modules) or bool(modules) != (kernel is not None):
        raise click.UsageError("give either --suite, or both --module and --vmlinux")
    reports = [_of_suite(suite) for suite in suites]
    if kernel is not None:
        reports.append(_of_files(list(modules), kernel))
    console = output()
    for report in reports:
        _show(console, report, explained, unmodelled)
    if not all(report.holds for report in reports):
        raise SystemExit(1)


def _of_suite(suite: str) -> BtfReport:
    """Compare with the driver in a suite's guest image; build the image when absent.

    Raises LabError.
    """
    with display() as (progress, on_wait):
        built = image.ensure(suite, progress=progress, on_wait=on_wait)
    with work_directory() as directory:
        return _of_files(*driver_binaries(built, directory))


def _of_files(modules: list[Path], kernel: Path) -> BtfReport:
    """Compare the declared structures with the BTF of these files; UserError if unreadable."""
    try:
        with working("reading the driver's type information"):
            driver = binaries.load(modules, kernel)
            return compare(structures(), driver.release, driver.btfs, KNOWN)
    except (binaries.BinaryError, BtfError) as error:
        raise UserError(str(error)) from error


def _show(console: Console, report: BtfReport, explained: bool, unmodelled: bool) -> None:
    """Print a report: its counts, the differences, and known differences that this kernel lacks.

    ``explained`` adds the known differences by reason, ``unmodelled`` the fields that are reserved.
    """
    verdict = "[green]hold[/]" if report.holds else "[red]do not hold[/]"
    line = (
        f"{escape(report.release)}: {report.structures} structures {verdict}: "
        f"{len(report.differences)} differences, {len(report.explained)} known differences, "
        f"{len(report.unmodelled)} fields not modelled"
    )
    console.print(Hanging(Text.from_markup(line)))
    if report.differences:
        console.print(_differences(report.differences))
    for kind, name in report.unused:
        console.print(Hanging(f"{name}: this kernel does not have the known difference ({kind})"))
    if explained:
        for reason, names in _by_reason(report).items():
            console.print(Hanging(f"{reason}:"))
            console.print(Hanging(f"    {printable(', '.join(names))}"))
    if unmodelled:
        for name in report.unmodelled:
            console.print(printable(name))


def _differences(differences: list[Difference]) -> Rows:
    title = "offsets and widths in bits, in hexadecimal:"
    table = Rows("structure and field", "differs in", "ours", "theirs", title=title)
    for difference in differences:
        theirs = "-" if difference.theirs is None else f"{difference.theirs:#x}"
        table.add(printable(difference.name), difference.what, f"{difference.ours:#x}", theirs)
    return table


def _by_reason(report: BtfReport) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for difference, reason in report.explained:
        names.setdefault(reason, []).append(f"{difference.name} ({difference.what})")
    return names
