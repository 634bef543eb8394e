"""``mlx5emu kernel``: configure and build a kernel for the lab."""

from __future__ import annotations

import os
from pathlib import Path

import click

from emu.cli.shared.choice import NearChoice
from emu.cli.shared.files import Existing
from emu.cli.shared.progress import display, working
from emu.cli.shared.words import command_words
from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.image import image
from emu.guests.kernel import archive, choice, headers, kbuild, kconfig, module_build

_TREE = Existing(is_directory=True, resolve_path=True)
_OUTPUT = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
    help="Where the build is (make's O=).  [default: TREE]",
)
_JOBS = click.option(
    "-j", "--jobs", type=click.IntRange(1), default=len(os.sched_getaffinity(0)),
    help="How many compilers at once.  [default: one for each processor]",
)  # fmt: skip


@click.group()
def kernel() -> None:
    """A kernel of your own: `config`, `build`, `run --kernel TREE`; for any kernel: `module`."""


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
    with working(f"configuring {tree}"):
        absent = kbuild.configure(tree, features, output, machine)
    for name in absent:
        click.echo(f"mlx5emu: this kernel has no CONFIG_{name}, or not so", err=True)
    click.echo(f"{(output or tree) / '.config'} is written")


@kernel.command()
@_OUTPUT
@_JOBS
@click.argument("tree", type=_TREE)
def build(tree: Path, output: Path | None, jobs: int) -> None:
    """Build TREE's image and modules, with ccache when it is installed."""
    where = kbuild.build(tree, output, jobs)
    click.echo(f"built: mlx5emu run --kernel {where} -- COMMAND")


@kernel.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--suite", type=NearChoice(SUITES), default=DEFAULT_SUITE, show_default=True,
    help="Whose kernel.",
)  # fmt: skip
@click.option(
    "--kernel", "word", metavar="WHAT",
    help="Instead of the suite's: a build tree, or debian:rt, debian:cloud, debian:VERSION.",
)  # fmt: skip
@_JOBS
@click.argument("directory", type=_TREE)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- MAKE-WORDS]")
def module(
    suite: str, word: str | None, jobs: int, directory: Path, words: tuple[str, ...]
) -> None:
    """Build the modules of DIRECTORY, outside the kernel's tree, for a guest's kernel.

    Debian's headers and the compiler that they want are fetched once; the host runs it. `--kernel`
    is as it is for `run`.
    """
    module_build.check_directory(directory)
    make_words = command_words(words, "DIRECTORY")
    if word is not None and not word.startswith(choice.ARCHIVE):
        kbuild.check_tree(Path(word))
        module_build.against_tree(Path(word).resolve(), directory, jobs, make_words)
        return
    with display() as (progress, on_wait):
        if word is None:
            release = image.ensure(suite, (), progress, on_wait).release
            suites: tuple[str, ...] = (suite,)
        else:
            release = choice.release(choice.choose([word], suite, progress, on_wait))
            suites = archive.suites_of(word.removeprefix(choice.ARCHIVE), suite)
        root = headers.ensure(release, suites, progress, on_wait)
    module_build.against_headers(root, release, directory, jobs, make_words)
