"""``mlx5emu coverage``: shows and merges the files of ``--coverage``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from emu.cli.shared.control import console
from emu.cli.shared.files import Existing, NewFile
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.progress import working
from emu.cli.shared.tables import Hanging, Rows
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.host.userfiles import write_parts
from emu.instruments.coverage import data
from emu.instruments.coverage.page import page
from emu.instruments.coverage.report import ALL_KERNELS, CoveredShare, lcov, lost, rows, summary
from emu.instruments.coverage.source import KernelTree

_FILES = click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=Existing(),
)
_OUT = NewFile()


@click.group(cls=NamedGroup, short_help="Show or merge coverage of kernel modules.")
def coverage() -> None:
    """Show or merge the files of --coverage: functions of kernel modules that ran.

    Example: mlx5emu coverage show coverage.json
    """


@coverage.command(short_help="Show the share of functions that ran.")
@_FILES
@click.option(
    "--source",
    type=Existing(is_directory=True, resolve_path=True),
    metavar="TREE",
    help="Source tree of the kernel: count by directory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--lcov", "lcov_file", type=_OUT, help="Write a tracefile for genhtml.")
@click.option("--html", "html_file", type=_OUT, help="Write a page with every function.")
def show(
    files: tuple[Path, ...],
    source: Path | None,
    as_json: bool,
    lcov_file: Path | None,
    html_file: Path | None,
) -> None:
    """Show the number of functions that ran, in all files together.

    Rows are modules, and with --source directories of the kernel's source. Each kernel has a
    column; with several kernels, another column counts functions that ran in any of them.

    Example: mlx5emu coverage show coverage.json --html coverage.html
    """
    with working("reading the coverage files"):
        merged = data.merge(map(data.load, files))
        tree = KernelTree(source) if source is not None else None
    if lcov_file is not None:
        if tree is None:
            raise UserError("--lcov needs lines of the kernel's source: add --source TREE")
        with working(f"writing {lcov_file}"):
            write_parts(lcov_file, (f"{line}\n" for line in lcov(merged, tree)))
    if html_file is not None:
        with working(f"writing {html_file}"):
            write_parts(html_file, page(merged, tree))
    if as_json:
        click.echo(json.dumps(summary(merged, tree), indent=1))
        return
    with working("counting"):
        table = _table(merged, tree)
    screen = console()
    screen.print(table)
    if any(
        module.blocks for kernel in merged.kernels.values() for module in kernel.modules.values()
    ):
        screen.print(_blocks(merged))
    for release, kernel in sorted(merged.kernels.items()):
        if kernel.missed:
            screen.print(Hanging(f"{one_line(release)}: {lost(kernel)}"))


@coverage.command(short_help="Merge coverage files.")
@_FILES
@click.option("--out", type=NewFile(replaces=True), required=True, help="File to write.")
def merge(files: tuple[Path, ...], out: Path) -> None:
    """Merge the files of several runs and kernels into one.

    Example: mlx5emu coverage merge a.json b.json --out all.json
    """
    with working(f"writing {out}"):
        data.save(out, data.merge(map(data.load, files)))


def _table(coverage: data.Coverage, tree: KernelTree | None) -> Rows:
    kernels = [*sorted(coverage.kernels), *([ALL_KERNELS] if len(coverage.kernels) > 1 else [])]
    titles = [one_line(release) for release in kernels]
    table = Rows("module", "directory", *titles, numbers=titles)
    for row in rows(coverage, tree):
        shares = [str(row.shares.get(release, "-")) for release in kernels]
        table.add(one_line(row.module), one_line(row.directory), *shares)
    return table


def _blocks(coverage: data.Coverage) -> Rows:
    """Return a table of the modules whose basic blocks were counted."""
    table = Rows("kernel", "module", "basic blocks", numbers=("basic blocks",))
    for release, kernel in sorted(coverage.kernels.items()):
        for name, module in sorted(kernel.modules.items()):
            if module.blocks is not None:
                share = CoveredShare(len(module.blocks.ran), module.blocks.total)
                table.add(one_line(release), one_line(name), str(share))
    return table
