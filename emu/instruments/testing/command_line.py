"""The plugin's options on pytest's command line."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentTypeError
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emu.guests.options import Option, OptionError, Use, option_named, options
from emu.guests.options.kinds import Choice, File, Flag, OptionKind, Seconds, Whole, Words
from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.testing.watched import MAX_LINES

MAX_SECONDS = 1_000_000
COMMAND_SECONDS = 300.0
"""Default time limit of a guest's command, in seconds."""


def add_options(parser: pytest.Parser) -> None:
    """Add an option for each guest option, and those of reports and time limits."""
    group = parser.getgroup("mlx5emu", "guests with emulated mlx5 functions")
    for one in options():
        _add(group, one)
    group.addoption(
        "--mlx5-no-share",
        action="store_true",
        help="Share no directory. Default without --mlx5-share: share the working directory.",
    )
    group.addoption(
        "--mlx5-no-trace",
        action="store_true",
        help="Do not trace: reports of failed tests then have no trace.",
    )
    group.addoption(
        "--mlx5-fail-on", choices=["warning", "error", "never"], default="warning",
        help="Least severity of the guest's kernel log that fails a test: a WARNING (the"
        " default), a BUG, oops, sanitizer's or lockdep report, or nothing.",
    )  # fmt: skip
    group.addoption(
        "--mlx5-full",
        action="store_true",
        help=f"Reports of failed tests show all logs and traces of the guest, not only the"
        f" last {MAX_LINES} lines of the test's body, with failures before other events.",
    )
    group.addoption(
        "--mlx5-timeout", type=_command_seconds, default=COMMAND_SECONDS, metavar="S",
        help="End a guest's command that takes longer, unless it has a timeout of its own; the test"
        f" fails then. 0 for no limit. The default is {COMMAND_SECONDS:g}.",
    )  # fmt: skip
    group.addoption(
        "--mlx5-tap", type=Path, metavar="FILE",
        help="Write the results of all tests as TAP, the format of kernel selftests.",
    )  # fmt: skip


def _add(group: pytest.OptionGroup, one: Option) -> None:
    """Add ``--mlx5-FLAG`` for a guest option; a refused option is hidden and fails with its reason.

    A flag that is on by default gets the form ``--mlx5-no-FLAG``. Lists, and the suite, may be
    repeated.
    """
    flag = f"--mlx5-{'no-' if one.default is True else ''}{one.flag}"
    about: dict[str, object] = {"dest": f"mlx5_{one.name}", "help": one.help}
    if why := one.why_not(Use.PYTEST):
        about |= {"help": SUPPRESS, "nargs": "?", "const": ""}
        group.addoption(flag, type=partial(_refuse, why), **about)
    elif isinstance(one.kind, Flag):
        about["help"] = f"Leave out: {one.help}" if one.default else one.help
        group.addoption(flag, action="store_const", const=not one.default, **about)
    elif isinstance(one.kind, Words) or one.name == "suite":
        group.addoption(flag, action="append", default=[], metavar=_metavar(one), **about)
    else:
        if isinstance(one.kind, File) and one.kind.example:
            # pytest reads a word that begins with @ as the name of a file of options.
            about["help"] = one.help.replace("@", f"{flag}=@", 1)
        group.addoption(flag, type=partial(_parsed, one.kind), metavar=_metavar(one), **about)


def _metavar(one: Option) -> str:
    if isinstance(one.kind, Choice):
        return "|".join(one.kind.among)
    return one.kind.metavar


def _refuse(why: str, _value: str) -> None:
    raise ArgumentTypeError(why)


def _command_seconds(text: str) -> float:
    """Return the value of --mlx5-timeout; ArgumentTypeError unless from 0 to 1,000,000 s."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= MAX_SECONDS:
        raise ArgumentTypeError(f"{text!r}: from 0 to {MAX_SECONDS} s")
    return seconds


def _parsed(kind: OptionKind, text: str) -> Any:
    """Return a command-line word as a value of ``kind``.

    ``@NAME`` is an example where the option accepts examples, unless a file has that name. Raises
    ArgumentTypeError for a word that is no number, outside choices and limits, or no example.
    """
    if isinstance(kind, File) and kind.example:
        try:
            found = shipped.named_example(kind.example, text)
        except UserError as error:
            raise ArgumentTypeError(str(error)) from None
        return text if found is None else str(found)
    numbers: dict[type[OptionKind], type[float]] = {Whole: int, Seconds: float}
    try:
        value = numbers[type(kind)](text) if type(kind) in numbers else text
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if isinstance(kind, Choice | Whole | Seconds) and (why := kind.wrong(value)):
        raise ArgumentTypeError(why)
    return value


def check_command_line(config: pytest.Config) -> None:
    """Raise UsageError for an invalid guest option of the command line, before any test.

    ``--collect-only`` and ``--help`` are not checked, as a kernel may not be built yet.
    """
    said = given_options(config)
    if "share" in said and config.getoption("--mlx5-no-share"):
        raise pytest.UsageError("use --mlx5-share or --mlx5-no-share, not both")
    suites = config.getoption("--mlx5-suite") or []
    # Listing tests and --help must work before a kernel is built.
    starts = not (config.option.collectonly or config.option.help)
    if not starts or not (said or suites):
        return
    from emu.guests.options.checks import check_options
    from emu.guests.requested import check_requested

    try:
        check_options(said)
        for about in [{"suite": suite} for suite in suites] or [{}]:
            check_requested(said | about)
    except OptionError as error:
        raise pytest.UsageError(*map(_of_option, (error, *error.others))) from None


def _of_option(error: OptionError) -> str:
    """Return the text of a mistake, with the option's name on the command line."""
    option = option_named(error.name)
    return f"--mlx5-{option.flag}: {str(error).removeprefix(f'{option.word}: ')}"


def given_options(config: pytest.Config) -> dict[str, Any]:
    """Return the guest options of the command line by name, without absent ones and the suites.

    With several suites each test has one, by its fixture.
    """
    names = [one.name for one in options() if one.name != "suite"]
    given = {name: config.getoption(f"mlx5_{name}", None) for name in names}
    return {name: value for name, value in given.items() if value not in (None, [])}
