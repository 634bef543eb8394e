"""``--coverage``, for the commands that run something in a guest and end with it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.lab import Guest

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


def coverage_options(function: F) -> F:
    """Add the options; ``coverage`` and ``coverage_file`` are for :func:`covered`."""
    for option in (
        click.option(
            "--coverage-file",
            type=click.Path(dir_okay=False, writable=True, path_type=Path),
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
        function = option(function)
    return function


def with_coverage(choices: dict[str, Any], modules: tuple[str, ...]) -> dict[str, Any]:
    """The guest's choices: with ``--coverage`` the driver is loaded after booting, by us."""
    if modules and not choices["probe"]:
        raise click.UsageError("--coverage loads the driver, which --no-probe forbids")
    return choices | {"probe": choices["probe"] and not modules}


@contextlib.contextmanager
def covered(guest: Guest, modules: tuple[str, ...], file: Path) -> Iterator[None]:
    """Count calls in the guest while the body runs; nothing without modules.

    A body that raises leaves no file: a guest that has gone cannot tell.
    """
    if not modules:
        yield
        return
    from emu.coverage import data
    from emu.coverage.session import Session

    session = Session(guest, modules)
    session.start()
    yield
    coverage = session.finish()
    data.save(file, coverage)
    for kernel in coverage.kernels.values():
        for name, module in kernel.modules.items():
            click.echo(
                f"mlx5emu: {name}: {module.ran} of {len(module.functions)} functions ran", err=True
            )
        if kernel.missed:
            click.echo(
                f"mlx5emu: {kernel.missed} calls were not seen, and are not counted", err=True
            )
