"""``--coverage``, for the commands that run something in a guest and end with it."""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from emu.cli.shared.files import NewFile
from emu.cli.shared.progress import working
from emu.guests import Guest
from emu.guests.workdir import work_directory
from emu.host.printable import one_line
from emu.host.userfiles import why_not_writable

if TYPE_CHECKING:
    from emu.instruments.coverage.blocks import BlockMap
    from emu.instruments.coverage.data import Coverage
    from emu.instruments.coverage.session import CoverageSession

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FILE = Path("coverage.json")
_MODULE = re.compile(r"\w{1,64}")
_MAX_MODULES = 32


def _modules(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(name.strip().replace("-", "_") for name in value.split(",") if value)
    wrong = [name for name in names if not _MODULE.fullmatch(name)]
    if wrong or len(names) > _MAX_MODULES:
        raise click.BadParameter("names of kernel modules, such as mlx5_core,mlx5_ib")
    return tuple(dict.fromkeys(names))


@dataclass
class CoverageRequest:
    """What the options say."""

    modules: tuple[str, ...]
    file: Path
    by_block: bool
    by_kcov: bool
    blocks: BlockMap | None = None


def coverage_options(function: F) -> F:
    """Add the options; the command gets them as ``coverage``, a :class:`CoverageRequest`."""

    @functools.wraps(function)
    def collected(
        *args: object,
        coverage: tuple[str, ...],
        coverage_file: Path,
        coverage_blocks: bool,
        coverage_kcov: bool,
        **rest: object,
    ) -> Any:
        requested = CoverageRequest(coverage, coverage_file, coverage_blocks, coverage_kcov)
        try:
            return function(*args, coverage=requested, **rest)
        finally:
            if requested.blocks is not None:
                requested.blocks.close()

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


def with_coverage(choices: dict[str, Any], requested: CoverageRequest) -> dict[str, Any]:
    """The guest's choices: with ``--coverage`` the driver is loaded after booting, by us."""
    if (requested.by_block or requested.by_kcov) and not requested.modules:
        option = "--coverage-blocks" if requested.by_block else "--coverage-kcov"
        raise click.UsageError(f"{option} is for --coverage")
    if requested.by_block and requested.by_kcov:
        raise click.UsageError("--coverage-kcov counts blocks by itself: not --coverage-blocks")
    if not requested.modules:
        return choices
    if why := why_not_writable(requested.file):
        raise click.BadParameter(why, param_hint="--coverage-file")
    if not choices["probe"]:
        raise click.UsageError("--coverage loads the driver, which --no-probe forbids")
    choices = choices | {"probe": False}
    if requested.by_block:
        if choices["accelerator"] == "kvm":
            raise click.UsageError("--coverage-blocks sees what QEMU translates: not with KVM")
        from emu.instruments.coverage.blocks import BlockMap

        requested.blocks = BlockMap()
        with working("preparing QEMU's plugin that counts blocks"):
            plugin = requested.blocks.arguments()
        arguments = (*choices["qemu_arguments"], *plugin)
        choices |= {"accelerator": "tcg", "qemu_arguments": arguments}
    return choices


@contextlib.contextmanager
def covered(guest: Guest, requested: CoverageRequest) -> Iterator[None]:
    """Count calls in the guest while the body runs; nothing without modules.

    A body that raises leaves no file: a guest that has gone cannot tell.
    """
    if not requested.modules:
        yield
        return
    from emu.instruments.coverage import data

    with working(f"loading {', '.join(requested.modules)}, whose functions are counted"):
        session = _session(guest, requested)
        session.start()
    yield
    with working("reading which functions ran"):
        coverage = session.finish()
        if requested.blocks is not None:
            coverage = _with_blocks(coverage, session, requested.blocks)
        data.save(requested.file, coverage)
    _tell(coverage, requested)


def _tell(coverage: Coverage, requested: CoverageRequest) -> None:
    """Say how much ran, what the tracer has lost, and where the counts are."""
    from emu.instruments.coverage.report import LOST, lost

    for kernel in coverage.kernels.values():
        for name, module in kernel.modules.items():
            _say(f"{name}: {module.ran} of {len(module.functions)} functions ran")
            if module.blocks is not None:
                _say(f"{name}: {len(module.blocks.ran)} of {module.blocks.total} blocks ran")
        if kernel.missed:
            buffers = f"{kernel.missed} buffers of tasks were full or missing: {LOST}"
            _say(buffers if requested.by_kcov else lost(kernel))
    file = one_line(str(requested.file))
    _say(f"{file} is written: mlx5emu coverage show {one_line(shlex.quote(str(requested.file)))}")


def _session(guest: Guest, requested: CoverageRequest) -> CoverageSession:
    if requested.by_kcov:
        from emu.instruments.coverage.kcov import KcovSession

        return KcovSession(guest, requested.modules)
    from emu.instruments.coverage.session import CoverageSession

    return CoverageSession(guest, requested.modules)


def _with_blocks(coverage: Coverage, session: CoverageSession, shared: BlockMap) -> Coverage:
    from emu.instruments.coverage.blocks import measure

    with work_directory() as work:
        counted = measure(shared, session.files(work), session.bases)
    if shared.lost:
        _say(f"{shared.lost} blocks found no room, and are not counted")
    kernels = {
        release: kernel.model_copy(
            update={
                "modules": {
                    name: module.model_copy(update={"blocks": counted[name]})
                    for name, module in kernel.modules.items()
                }
            }
        )
        for release, kernel in coverage.kernels.items()
    }
    return coverage.model_copy(update={"kernels": kernels})


def _say(text: str) -> None:
    click.echo(f"mlx5emu: {text}", err=True)
