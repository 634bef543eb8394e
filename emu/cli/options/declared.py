"""Turns the declared options of a guest into options of click."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from emu.cli.options.groups import grouped_option
from emu.cli.shared.completion import Complete, complete_device, complete_kernel
from emu.cli.shared.files import ExampleFile, Existing, NewFile
from emu.cli.shared.params import SECONDS, NearChoice, WholeNumber
from emu.guests.options import Option
from emu.guests.options.kinds import (
    Choice,
    Directory,
    File,
    Files,
    Flag,
    OptionKind,
    Seconds,
    Share,
    Whole,
    Words,
)

F = TypeVar("F", bound=Callable[..., Any])

_FILE = Existing(resolve_path=True)
_DIRECTORY = Existing(is_directory=True, resolve_path=True)
_NEW_DIRECTORY = click.Path(file_okay=False, writable=True, path_type=Path, resolve_path=True)
_NEW_FILE = NewFile(resolve_path=True)

_COMPLETED: dict[str, Complete] = {"device": complete_device, "kernel": complete_kernel}
"""Completion of options whose values are more than files and choices, by flag."""


class _Shared(Existing):
    """``DIR`` or ``DIR:rw``, where DIR is an existing directory."""

    def __init__(self) -> None:
        super().__init__(is_directory=True, resolve_path=True)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the directory, and whether the guest may write to it.

        Fails for a missing directory.
        """
        if isinstance(value, tuple):
            return value
        fields = Share().fields("share", value, Path())
        return super().convert(fields["share"], param, ctx), fields["share_writable"]


def click_type(kind: OptionKind) -> Any:
    """Return the click type that reads and checks a value of ``kind``; text for other kinds."""
    if isinstance(kind, Choice):
        return NearChoice(kind.among)
    if isinstance(kind, Whole):
        return WholeNumber(kind.least, kind.most)
    if isinstance(kind, Seconds):
        return SECONDS
    if isinstance(kind, Share):
        return _Shared()
    if isinstance(kind, Directory):
        return _NEW_DIRECTORY if kind.is_made else _DIRECTORY
    if isinstance(kind, Files):
        return _FILE
    if isinstance(kind, File):
        if kind.example:
            return ExampleFile(kind.example, resolve_path=True)
        return _NEW_FILE if kind.is_new else _FILE
    return click.STRING


def _flags(one: Option) -> str:
    """Return the option's names; a flag that is on by default has a --no- form, too."""
    return f"--{one.flag}/--no-{one.flag}" if one.default is True else f"--{one.flag}"


def offered(one: Option, kind: click.Path | None = None, *, default: str = "") -> Callable[[F], F]:
    """Return a decorator that adds the option ``one`` to a command.

    ``kind`` replaces its type, and ``default`` the default that help shows.
    """
    about: dict[str, Any] = {"help": _described(one, default), "default": one.default}
    if isinstance(one.kind, Flag):
        about["is_flag"] = True
    else:
        about |= {"type": kind or click_type(one.kind), "metavar": one.kind.metavar or None}
    if isinstance(one.kind, Words):
        about |= {"multiple": True, "default": ()}
    about["shell_complete"] = _COMPLETED.get(one.flag)
    return grouped_option(one.group, _flags(one), one.name, **about)


def refused(one: Option, why: str) -> Callable[[F], F]:
    """Return a decorator that adds ``one`` as a hidden option, which fails with ``why``.

    Only its use on a command line raises UsageError; the command does not get it.
    """

    def refuse(ctx: click.Context, param: click.Parameter, _value: object) -> None:
        assert param.name is not None
        if ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{one.flag}: {why}", ctx)

    about: dict[str, Any] = {"is_flag": True} if isinstance(one.kind, Flag) else {}
    return click.option(
        _flags(one), one.name, hidden=True, expose_value=False, callback=refuse, **about
    )


def _described(one: Option, default: str) -> str:
    default = default or one.default_text
    return f"{one.help}  [default: {default}]" if default else one.help
