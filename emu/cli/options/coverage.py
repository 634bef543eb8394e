"""``--coverage``, for commands that boot a guest, run a workload and stop the guest."""

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

from emu.cli.options.groups import COVERAGE, grouped_option
from emu.cli.shared.files import NewFile
from emu.cli.shared.notice import notice
from emu.cli.shared.progress import working
from emu.guests import Guest, GuestOptions, LabError
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
    """Return the module names of a list with commas, each once, with underscores.

    Raises BadParameter for an invalid name or more than 32 names.
    """
    names = tuple(name.strip().replace("-", "_") for name in value.split(",") if value)
    wrong = [name for name in names if not _MODULE.fullmatch(name)]
    if wrong or len(names) > _MAX_MODULES:
        raise click.BadParameter(
            f"use at most {_MAX_MODULES} names of kernel modules, such as mlx5_core,mlx5_ib"
        )
    return tuple(dict.fromkeys(names))


@dataclass
class CoverageRequest:
    """Values of the coverage options."""

    modules: tuple[str, ...]
    file: Path
    by_block: bool
    by_kcov: bool
    blocks: BlockMap | None = None


def coverage_options(function: F) -> F:
    """Add the options to a command, which gets them as ``coverage``, a :class:`CoverageRequest`.

    The map of counted blocks is closed when the command ends.
    """

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
        grouped_option(
            COVERAGE,
            "--coverage-kcov",
            is_flag=True,
            help="With --coverage, use the kernel's KCOV, and count basic blocks, too.",
        ),
        grouped_option(
            COVERAGE,
            "--coverage-blocks",
            is_flag=True,
            help="With --coverage, count basic blocks, too. Needs a C compiler; not with KVM.",
        ),
        grouped_option(
            COVERAGE,
            "--coverage-file",
            type=NewFile(),
            default=DEFAULT_FILE,
            show_default=True,
            help="File that --coverage writes.",
        ),
        grouped_option(
            COVERAGE,
            "--coverage",
            default="",
            callback=_modules,
            metavar="MODULE[,...]",
            help="Record which functions of these kernel modules run, from loading on.",
        ),
    ):
        collected = option(collected)
    return cast("F", collected)


def with_coverage(choices: dict[str, Any], requested: CoverageRequest) -> dict[str, Any]:
    """Return the guest's options; with ``--coverage`` the boot does not load the driver.

    :func:`covered` loads the driver once counting has started. ``--coverage-blocks`` builds QEMU's
    plugin and forces emulation. Raises UsageError or BadParameter for options that exclude each
    other.
    """
    if (requested.by_block or requested.by_kcov) and not requested.modules:
        option = "--coverage-blocks" if requested.by_block else "--coverage-kcov"
        raise click.UsageError(f"{option} needs --coverage")
    if requested.by_block and requested.by_kcov:
        raise click.UsageError("--coverage-kcov counts blocks, too: drop --coverage-blocks")
    if not requested.modules:
        return choices
    if (arch := choices["arch"]) != "amd64":
        raise click.UsageError(f"--coverage counts calls in amd64 guests, not in {arch}")
    if why := why_not_writable(requested.file):
        raise click.BadParameter(why, param_hint="--coverage-file")
    if not choices["probe"]:
        raise click.UsageError("--coverage loads the driver: drop --no-probe")
    choices = choices | {"probe": False}
    if requested.by_block:
        if choices["accelerator"] == "kvm":
            raise click.UsageError("--coverage-blocks needs QEMU's translator: drop --accel kvm")
        from emu.instruments.coverage.blocks import BlockMap, why_not_here

        if why := why_not_here():
            raise click.UsageError(f"--coverage-blocks: {why}")
        requested.blocks = BlockMap()
        with working("building QEMU's plugin that counts blocks"):
            plugin = requested.blocks.arguments()
        arguments = (*choices["qemu_arguments"], *plugin)
        choices |= {"accelerator": "tcg", "qemu_arguments": arguments}
    return choices


def check_modules(options: GuestOptions, requested: CoverageRequest) -> None:
    """Raise BadParameter for a counted module that the guest's kernel is known to lack.

    Unknown before the boot are the modules of an image that is not built yet, and of a kernel
    without a module tree.
    """
    if not requested.modules:
        return
    from emu.guests.machine.listed import listed_modules

    listed = listed_modules(options)
    if listed is None:
        return
    try:
        for name in requested.modules:
            listed.check(name)
    except LabError as error:
        raise click.BadParameter(str(error), param_hint="--coverage") from None


@contextlib.contextmanager
def covered(guest: Guest, requested: CoverageRequest) -> Iterator[None]:
    """Load the modules, count calls in the guest while the body runs, then write the file.

    Without modules nothing is counted. A body that raises leaves no file, because the counts are
    read from the guest. Raises GuestError if the modules cannot be loaded or counted.
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
    """Print the functions and blocks that ran, the events that the tracer lost, and the file."""
    from emu.instruments.coverage.report import LOST, lost

    for kernel in coverage.kernels.values():
        for name, module in kernel.modules.items():
            notice(f"{name}: {module.ran:,} of {len(module.functions):,} functions ran")
            if module.blocks is not None:
                notice(f"{name}: {len(module.blocks.ran):,} of {module.blocks.total:,} blocks ran")
        if kernel.missed:
            buffers = f"{kernel.missed} KCOV buffers were full or missing: {LOST}"
            notice(buffers if requested.by_kcov else lost(kernel))
    file = one_line(str(requested.file))
    notice(f"{file} is written: mlx5emu coverage show {one_line(shlex.quote(str(requested.file)))}")


def _session(guest: Guest, requested: CoverageRequest) -> CoverageSession:
    """Return the session that counts: by KCOV if requested, else by ftrace."""
    if requested.by_kcov:
        from emu.instruments.coverage.kcov import KcovSession

        return KcovSession(guest, requested.modules)
    from emu.instruments.coverage.session import CoverageSession

    return CoverageSession(guest, requested.modules)


def _with_blocks(coverage: Coverage, session: CoverageSession, shared: BlockMap) -> Coverage:
    """Return ``coverage`` with the basic blocks that QEMU's plugin counted; report lost blocks."""
    from emu.instruments.coverage.blocks import measure

    with work_directory() as work:
        counted = measure(shared, session.files(work), session.bases)
    if shared.lost:
        notice(f"{shared.lost} blocks exceed the plugin's table and are not counted")
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
