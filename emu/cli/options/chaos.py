"""Options of ``mlx5emu chaos``, and the test behind ``--``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
import cloup

from emu.cli.options.groups import RESULTS, grouped_option
from emu.cli.shared.files import ExampleFile
from emu.cli.shared.params import NearChoice, RealNumber, WholeNumber
from emu.instruments.campaign.description import MAX_SECONDS
from emu.instruments.chaos.recipe import ChaosRecipe, read_recipe
from emu.instruments.chaos.runs import Patience
from emu.instruments.chaos.sets import LinkLayer
from emu.instruments.chaos.verdicts import BAD, ChaosVerdict
from emu.instruments.outcome import EX_DATAERR
from emu.near import near

F = TypeVar("F", bound=Callable[..., Any])
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # before click 8.2 the class is not generic

CHAOS = "Failures"
NEVER = "never"
MAX_SEED = (1 << 63) - 1
MAX_PATIENCE = 1_000_000
MAX_DEFAULT_JOBS = 8
"""Limit of the guests for which a user has not asked; each has gigabytes of memory."""
_SECONDS = RealNumber(0, MAX_SECONDS, min_open=True)
_TEST = "emu.cli.options.chaos.test"
"""Key of the test's words in a context's ``meta``."""
_RECIPE = "emu.cli.options.chaos.recipe"
"""Key of the recipe in a context's ``meta``."""


@dataclass(frozen=True)
class ChaosChoices:
    """The choices of a user besides those about the guest."""

    link: LinkLayer | None
    peer: str | None
    """Command of a second guest."""
    patterns: tuple[str, ...]
    seeds: range
    jobs: int
    timeout: float
    patience: Patience
    fail_on: tuple[ChaosVerdict, ...]
    wrong_data_status: int
    is_compared: bool
    as_json: bool
    results: Path | None


class TestCommand(cloup.Command):
    """A command whose words behind ``--`` are a test; sets stand before ``--``."""

    __test__ = False  # no test of pytest's

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and keep the others for :func:`test_of`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_TEST] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def test_of(ctx: click.Context) -> tuple[str, ...]:
    """Return the words of the test: those behind ``--``, or of the recipe.

    Raises UsageError if there are none, and if there are both.
    """
    words: tuple[str, ...] = ctx.meta.get(_TEST, ())
    recipe: ChaosRecipe | None = ctx.meta.get(_RECIPE)
    if recipe is not None and words:
        raise click.UsageError("--recipe has the test: give none behind --", ctx)
    if recipe is not None:
        return recipe.words
    if not words:
        raise click.UsageError("give the test behind --: mlx5emu chaos -- ./my-test", ctx)
    return words


def _with_recipe(ctx: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Make the values of the recipe defaults of the other options. Raises UserError."""
    if path is not None:
        recipe = read_recipe(path)
        ctx.meta[_RECIPE] = recipe
        ctx.default_map = {**(ctx.default_map or {}), **recipe.values}
    return path


class _Verdicts(_ParamType):
    """Verdicts separated by commas, or ``never``."""

    name = "verdicts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the verdicts; fail, with near names, for another word."""
        if isinstance(value, tuple):
            return value
        known = [one.value for one in ChaosVerdict if one is not ChaosVerdict.NO_RESULT]
        if value == NEVER:
            return ()
        for word in value.split(","):
            if word not in known:
                names = ", ".join(known)
                self.fail(
                    f"{word!r} is not {NEVER} or one of {names}{near(word, known)}", param, ctx
                )
        return tuple(ChaosVerdict(word) for word in value.split(","))


_OPTIONS = (
    grouped_option(
        CHAOS,
        "--recipe",
        type=ExampleFile("recipe"),
        metavar="FILE|@NAME",
        callback=_with_recipe,
        expose_value=False,
        is_eager=True,
        help="A file with TEST, its guest and defaults of these options, or an example.",
    ),
    grouped_option(
        CHAOS,
        "--link",
        type=NearChoice(["ib", "eth"]),
        help="Link layer of the two functions, and of the failures.  [default: ib; with --device"
        " failures of both]",
    ),
    grouped_option(
        CHAOS,
        "--peer",
        metavar="COMMAND",
        help="Run COMMAND in a second guest, such as the server of TEST; it has the second function"
        " and no failures.",
    ),
    grouped_option(
        CHAOS,
        "--only",
        "patterns",
        multiple=True,
        metavar="PATTERN",
        help="Select failures whose names match, such as 'link-*'; may be repeated.",
    ),
    grouped_option(
        CHAOS,
        "--seed",
        type=WholeNumber(0, MAX_SEED),
        default=0,
        show_default=True,
        metavar="N",
        help="Seed of the moments of the failures, and of their random decisions.",
    ),
    grouped_option(
        CHAOS,
        "--repeat",
        type=WholeNumber(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="Run each failure N times, with the seeds from --seed on.",
    ),
    grouped_option(
        CHAOS,
        "--jobs",
        type=WholeNumber(1, 1024),
        metavar="N",
        help="Parallel guests.  [default: one more than processors, at most 8]",
    ),
    grouped_option(
        CHAOS,
        "--timeout",
        type=_SECONDS,
        default=300.0,
        show_default=True,
        metavar="S",
        help="Time limit of the run without faults, in seconds.",
    ),
    grouped_option(
        CHAOS,
        "--patience",
        type=RealNumber(1, MAX_PATIENCE),
        default=10.0,
        show_default=True,
        metavar="K",
        help="TEST hangs if it runs K times as long as without faults, plus the time of its fault.",
    ),
    grouped_option(
        CHAOS,
        "--min-patience",
        type=_SECONDS,
        default=20.0,
        show_default=True,
        metavar="S",
        help="TEST does not hang before S seconds.",
    ),
    grouped_option(
        RESULTS,
        "--fail-on",
        type=_Verdicts(),
        default=",".join(BAD),
        show_default=True,
        metavar="VERDICTS",
        help=f"Verdicts that fail the command, with commas between them, or {NEVER}.",
    ),
    grouped_option(
        RESULTS,
        "--wrong-data-status",
        type=WholeNumber(1, 255),
        default=EX_DATAERR,
        show_default=True,
        metavar="N",
        help="Exit status by which TEST reports wrong data.",
    ),
    grouped_option(
        RESULTS,
        "--compare",
        "is_compared",
        is_flag=True,
        help="Standard output of a TEST with status 0 must be that of the run without faults.",
    ),
    grouped_option(
        RESULTS, "--json", "as_json", is_flag=True, help="Print the report as JSON, not as a table."
    ),
    grouped_option(
        RESULTS,
        "--results",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIRECTORY",
        help="Directory for the results; earlier results there are removed.  [default: SET.chaos]",
    ),
)


def chaos_options(function: F) -> F:
    """Add the options to a command, which gets them as ``chosen``, a :class:`ChaosChoices`."""

    @wraps(function)
    def chosen(
        *args: Any,
        link: LinkLayer | None,
        peer: str | None,
        patterns: tuple[str, ...],
        seed: int,
        repeat: int,
        jobs: int | None,
        timeout: float,
        patience: float,
        min_patience: float,
        fail_on: tuple[ChaosVerdict, ...],
        wrong_data_status: int,
        is_compared: bool,
        as_json: bool,
        results: Path | None,
        **others: Any,
    ) -> Any:
        choices = ChaosChoices(
            link=link,
            peer=peer,
            patterns=patterns,
            seeds=range(seed, seed + repeat),
            jobs=jobs or min(len(os.sched_getaffinity(0)) + 1, MAX_DEFAULT_JOBS),
            timeout=timeout,
            patience=Patience(patience, min_patience),
            fail_on=fail_on,
            wrong_data_status=wrong_data_status,
            is_compared=is_compared,
            as_json=as_json,
            results=results,
        )
        return function(*args, chosen=choices, **others)

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return cast(F, chosen)
