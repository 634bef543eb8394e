"""``--coverage``, for the commands that run something in a guest and end with it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from emu.cli.shared.files import NewFile
from emu.guests import Guest
from emu.guests.workdir import work_directory

if TYPE_CHECKING:
    from emu.instruments.coverage.blocks import BlockMap
    from emu.instruments.coverage.data import Coverage
    from emu.instruments.coverage.session import CoverageSession

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FILE = Path("coverage.json")
_MODULE = re.compile(r"\w{1,64}")
_MOST_MODULES = 32


def _modules(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip().replace("-", "_") for name in value.split(",") if value)
    wrong = [name for name in names if not _MODULE.fullmatch(name)]
    if wrong or len(names) > _MOST_MODULES:
        raise click.BadParameter("names of kernel modules, such as mlx5_core,mlx5_ib")
    return tuple(dict.fromkeys(names))


@dataclass
class Wanted:
    """What the options say."""

    modules: tuple[str, ...]
    file: Path
    by_block: bool
    by_kcov: bool
    blocks: BlockMap | None = None


def coverage_options(function: F) -> F:
    """Add the options; the command gets them as ``coverage``, a :class:`Wanted`."""

    @functools.wraps(function)
    def collected(
        *args: Any,
        coverage: tuple[str, ...],
        coverage_file: Path,
        coverage_blocks: bool,
        coverage_kcov: bool,
        **rest: Any,
    ) -> Any:
        wanted = Wanted(coverage, coverage_file, coverage_blocks, coverage_kcov)
        try:
            return function(*args, coverage=wanted, **rest)
        finally:
            if wanted.blocks is not None:
                wanted.blocks.close()

    for option in (
        click.option(
            "--coverage-kcov",
            is_flag=True,
            help="With --coverage, count by the kernel's KCOV, basic blocks as well.",
        ),
        click.option(
            "--coverage-blocks",
            is_flag=True,
            help="With --coverage, count basic blocks as well; needs a C compiler, and not KVM.",
        ),
        click.option(
            "--coverage-file",
            type=NewFile(),
            default=DEFAULT_FILE,
            show_default=True,
            help="Where --coverage writes.",
        ),
        click.option(
            "--coverage",
            default="",
            callback=_modules,
            metavar="MODULE[,...]",
            help="Count the calls of these kernel modules' functions, from their loading on.",
        ),
    ):
        collected = option(collected)
    return cast("F", collected)


def with_coverage(choices: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The guest's choices: with ``--coverage`` the driver is loaded after booting, by us."""
    if (wanted.by_block or wanted.by_kcov) and not wanted.modules:
        option = "--coverage-blocks" if wanted.by_block else "--coverage-kcov"
        raise click.UsageError(f"{option} is for --coverage")
    if wanted.by_block and wanted.by_kcov:
        raise click.UsageError("--coverage-kcov counts blocks by itself: not --coverage-blocks")
    if not wanted.modules:
        return choices
    if not choices["probe"]:
        raise click.UsageError("--coverage loads the driver, which --no-probe forbids")
    choices = choices | {"probe": False}
    if wanted.by_block:
        if choices["accelerator"] == "kvm":
            raise click.UsageError("--coverage-blocks sees what QEMU translates: not with KVM")
        from emu.instruments.coverage.blocks import BlockMap

        wanted.blocks = BlockMap()
        arguments = wanted.blocks.arguments()
        choices |= {"accelerator": "tcg", "qemu_arguments": arguments}
    return choices


@contextlib.contextmanager
def covered(guest: Guest, wanted: Wanted) -> Iterator[None]:
    """Count calls in the guest while the body runs; nothing without modules.

    A body that raises leaves no file: a guest that has gone cannot tell.
    """
    if not wanted.modules:
        yield
        return
    from emu.instruments.coverage import data

    session = _session(guest, wanted)
    session.start()
    yield
    coverage = session.finish()
    if wanted.blocks is not None:
        coverage = _with_blocks(coverage, session, wanted.blocks)
    data.save(wanted.file, coverage)
    for kernel in coverage.kernels.values():
        for name, module in kernel.modules.items():
            _say(f"{name}: {module.ran} of {len(module.functions)} functions ran")
            if module.blocks is not None:
                _say(f"{name}: {len(module.blocks.ran)} of {module.blocks.total} blocks ran")
        if kernel.missed:
            lost = (
                "tasks' buffers were full or missing" if wanted.by_kcov else "calls were not seen"
            )
            _say(f"{kernel.missed} {lost}: what is lost is not counted")


def _session(guest: Guest, wanted: Wanted) -> CoverageSession:
    if wanted.by_kcov:
        from emu.instruments.coverage.kcov import KcovSession

        return KcovSession(guest, wanted.modules)
    from emu.instruments.coverage.session import CoverageSession

    return CoverageSession(guest, wanted.modules)


def _with_blocks(coverage: Coverage, session: CoverageSession, shared: BlockMap) -> Coverage:
    from emu.instruments.coverage.blocks import measure

    with work_directory() as work:
        found = measure(shared, session.files(work), session.bases)
    if shared.lost:
        _say(f"{shared.lost} blocks found no room, and are not counted")
    kernels = {
        release: kernel.model_copy(
            update={
                "modules": {
                    name: module.model_copy(update={"blocks": found[name]})
                    for name, module in kernel.modules.items()
                }
            }
        )
        for release, kernel in coverage.kernels.items()
    }
    return coverage.model_copy(update={"kernels": kernels})


def _say(text: str) -> None:
    click.echo(f"mlx5emu: {text}", err=True)
