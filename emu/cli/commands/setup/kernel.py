"""``mlx5emu kernel``: configures and builds kernels and modules for guests."""

from __future__ import annotations

import os
from pathlib import Path

import click

from emu.cli.shared.files import Existing
from emu.cli.shared.group import NamedGroup
from emu.cli.shared.notice import notice
from emu.cli.shared.params import NearChoice, WholeNumber
from emu.cli.shared.progress import display, working
from emu.cli.shared.words import command_words
from emu.guests.archive.names import DEFAULT_SUITE, SUITES
from emu.guests.image import image
from emu.guests.kernel import archive, choice, headers, kbuild, kconfig, module_build

_TREE = Existing(is_directory=True, resolve_path=True)
_OUTPUT = click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
    help="Directory of the build (make's O=).  [default: TREE]",
)
_JOBS = click.option(
    "-j", "--jobs", metavar="N", type=WholeNumber(1), default=len(os.sched_getaffinity(0)),
    help="Number of parallel compilers.  [default: one for each processor]",
)  # fmt: skip


@click.group(cls=NamedGroup, short_help="Configure and build a kernel, or modules.")
def kernel() -> None:
    """Configure and build a kernel for guests, or modules for a guest's kernel.

    `config` and `build` prepare a tree for `run --kernel TREE`; `module` builds modules.

    Example: mlx5emu kernel build ~/linux
    """


@kernel.command(short_help="Write a small kernel configuration for guests.")
@click.option(
    "--debug",
    metavar="FEATURE,...",
    default="",
    help="Debugging features to build in: " + ", ".join(kconfig.features()) + ".",
)
@click.option("--uml", is_flag=True, help="Configure for User-Mode Linux.")
@_OUTPUT
@click.argument("tree", type=_TREE)
def config(tree: Path, debug: str, uml: bool, output: Path | None) -> None:
    """Write the smallest configuration that boots in a guest, with mlx5 built as modules.

    An old .config is replaced. `mlx5emu kernel build TREE` then builds the kernel.

    Example: mlx5emu kernel config ~/linux --debug kasan
    """
    features = [word.strip() for word in debug.split(",") if word.strip()]
    machine = kconfig.UML if uml else kconfig.QEMU
    with working(f"configuring {tree}"):
        absent = kbuild.configure(tree, features, output, machine)
    for name in absent:
        notice(f"the kernel lacks CONFIG_{name}, or forces another value")
    click.echo(f"wrote {(output or tree) / '.config'}")


@kernel.command(short_help="Build the image and modules of a tree.")
@_OUTPUT
@_JOBS
@click.argument("tree", type=_TREE)
def build(tree: Path, output: Path | None, jobs: int) -> None:
    """Build TREE's image and modules, with ccache if it is installed.

    TREE, or the directory of --output, needs a configuration: of `mlx5emu kernel config`, or yours.

    Example: mlx5emu kernel build ~/linux -j 8
    """
    where = kbuild.build(tree, output, jobs)
    click.echo(f"built: mlx5emu run --kernel {where} -- COMMAND")


@kernel.command(
    short_help="Build out-of-tree modules for a guest's kernel.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--suite", type=NearChoice(SUITES), default=DEFAULT_SUITE, show_default=True,
    help="Debian suite of the kernel.",
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
    """Build the out-of-tree modules in DIRECTORY for a guest's kernel.

    The command downloads Debian's headers and their compiler once, and compiles on the host.
    --kernel accepts the values of `run --kernel`.

    Example: mlx5emu kernel module ~/my-module
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
