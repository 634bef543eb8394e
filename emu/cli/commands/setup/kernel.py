"""``mlx5emu kernel``: configure and build a kernel for the lab."""

from __future__ import annotations

import os
from pathlib import Path

import click

from emu.guests.kernel import kbuild, kconfig

_TREE = click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True)
_OUTPUT = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
    help="Where the build is (make's O=).  [default: TREE]",
)


@click.group()
def kernel() -> None:
    """A kernel of your own: `config`, `build`, then `mlx5emu run --kernel TREE`."""


@kernel.command()
@click.option(
    "--debug",
    metavar="FEATURE,...",
    default="",
    help="Debugging to build in: " + ", ".join(kconfig.features()) + ".",
)
@click.option("--uml", is_flag=True, help="For User-Mode Linux: a kernel that is a process.")
@_OUTPUT
@click.argument("tree", type=_TREE)
def config(tree: Path, debug: str, uml: bool, output: Path | None) -> None:
    """Write the smallest configuration that boots in the lab, with mlx5 as a module."""
    features = [word.strip() for word in debug.split(",") if word.strip()]
    machine = kconfig.UML if uml else kconfig.QEMU
    for name in kbuild.configure(tree, features, output, machine):
        click.echo(f"mlx5emu: this kernel has no CONFIG_{name}, or not so", err=True)
    click.echo(f"{(output or tree) / '.config'} is written")


@kernel.command()
@_OUTPUT
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=len(os.sched_getaffinity(0)),
    help="How many compilers at once.  [default: one for each processor]",
)  # fmt: skip
@click.argument("tree", type=_TREE)
def build(tree: Path, output: Path | None, jobs: int) -> None:
    """Build TREE's image and modules, with ccache when it is installed."""
    where = kbuild.build(tree, output, jobs)
    click.echo(f"built: mlx5emu run --kernel {where} -- COMMAND")
