"""Checks and shell completion of guests' names."""

from __future__ import annotations

import contextlib

import click

from emu.guests.errors import LabError
from emu.guests.named import running


def new_name(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Return the name of a guest to start, None unchanged. Raises BadParameter for an invalid name.

    Whether the name is in use is not checked.
    """
    try:
        if value is not None:
            running.check_name(value)
    except LabError as error:
        raise click.BadParameter(str(error)) from None
    return value


def complete_guest(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Return completions of running guests: ``NAME``, in a lab ``LAB/GUEST``; none on errors."""
    with contextlib.suppress(LabError, OSError):
        names = [
            entry.name if len(entry.guests) == 1 else f"{entry.name}/{guest}"
            for entry in running.entries()
            for guest in entry.guests
        ]
        return [name for name in names if name.startswith(start)]
    return []
