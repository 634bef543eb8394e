"""Benchmarks behind ``scripts/bench``: their parts, and the destinations of the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import changes
import click
import machine
import tables
from booted import keys, mmio, net, probe, roce, verbs
from booted.guests import Base
from figures import Report, Section
from machine import Quiet
from rich.console import Console

from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.machine import accel, qemu
from emu.host.user_error import UserError
from emu.version import code_line

Part = Callable[[Base, int | None, Quiet], list[Section]]

IN_GUESTS: dict[str, Part] = {
    "probe": probe.measure,
    "mmio": mmio.measure,
    "verbs": verbs.measure,
    "roce": roce.measure,
    "keys": keys.measure,
    "net": net.measure,
}
IN_PROCESS = (
    "commands",
    "doorbell",
    "engine",
    "ethernet",
    "fabric",
    "hostile",
    "moves",
    "objects",
    "points",
    "scale",
    "switched",
    "transport",
)
"""Separate programs in this directory; with --json each prints a report of one run."""

PARTS = (*IN_GUESTS, *IN_PROCESS)
ALL = "all"
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, ALL]))
@click.option("--json", "json_file", type=_FILE, help="Write the results to this file.")
@click.option("--markdown", is_flag=True, help="Print Markdown, as the README shows it.")
@click.option("--from", "stored", type=_FILE, help="Show a file of --json; measure nothing.")
@click.option(
    "--compare",
    "before",
    type=_FILE,
    help="Show the changes since a file of --json, beyond noise.",
)
@click.option("--suite", type=click.Choice(SUITES), default=DEFAULT_SUITE, show_default=True)
@click.option(
    "--kvm",
    is_flag=True,
    help="Boot the guests with KVM; measure nothing on a machine without KVM.",
)
@click.option(
    "--cpus", type=click.IntRange(1), default=2, show_default=True, help="Processors of a guest."
)
@click.option("--repeat", type=click.IntRange(1), help="Samples of each number, or boots.")
@click.option(
    "--quiet",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Wait until other processes use at most this fraction of the machine.",
)
@click.option(
    "--patience",
    default=300.0,
    show_default=True,
    metavar="S",
    help="Maximum wait for each sample, in seconds.",
)
def main(
    parts: tuple[str, ...],
    json_file: Path | None,
    markdown: bool,
    stored: Path | None,
    before: Path | None,
    suite: str,
    kvm: bool,
    cpus: int,
    repeat: int | None,
    quiet: float | None,
    patience: float,
) -> None:
    """Measure PARTS (default: all of them), and compare them with their goals."""
    old = None if before is None else load(before)
    if stored is not None:
        report = load(stored)
    else:
        samples = Quiet() if quiet is None else Quiet(quiet / 100, patience)
        chosen = PARTS if not parts or ALL in parts else parts
        report = run(chosen, base_of(suite, kvm, cpus), repeat, samples)
    if json_file is not None:
        json_file.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    if markdown:
        click.echo(tables.markdown(report), nl=False)
    else:
        for line in report.conditions:
            click.echo(line)
        for section in report.sections:
            tables.print_section(Console(), section)
    if old is not None:
        changes.print_changes(Console(), changes.changes(old, report))


def base_of(suite: str, kvm: bool, cpus: int) -> Base:
    """Return the options of all guests. Raises ClickException if KVM is requested and missing."""
    if not kvm:
        return Base(suite, cpus=cpus)
    program = qemu.find()
    if not accel.is_accessible():
        raise click.ClickException("--kvm: there is no /dev/kvm that you may open")
    if program is not None and accel.known_answer(program) is False:
        raise click.ClickException("--kvm: KVM boots no kernel here (mlx5emu doctor)")
    return Base(suite, "kvm", cpus)


def run(parts: Sequence[str], base: Base, repeat: int | None, quiet: Quiet) -> Report:
    """Measure, and record the conditions."""
    report = Report([machine.conditions(), f"device code: {code_line()}"])
    if base.accelerator == "kvm":
        report.conditions.append("guests with KVM")
    if not {*parts}.isdisjoint(IN_GUESTS):
        report.conditions.append(f"processors of a guest: {base.cpus}")
    for part in parts:
        click.echo(f"bench: {part}", err=True)
        try:
            if part in IN_GUESTS:
                report.sections += IN_GUESTS[part](base, repeat, quiet)
            else:
                report.sections += quiet.take(partial(tables.run_part, part))
        except UserError as error:
            raise click.ClickException(f"{part}: {error}\n{error.detail()}") from error
    report.conditions.append(quiet.summary())
    return report


def load(path: Path) -> Report:
    """Return a report written with ``--json``."""
    try:
        return Report.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path} holds no results: {error!r}") from error


if __name__ == "__main__":
    main(prog_name="scripts/bench")
