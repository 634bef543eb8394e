"""Names of guests, for a shell that completes them."""

from __future__ import annotations

import contextlib

import click

from emu.guests.errors import LabError
from emu.guests.named import running


def complete_guest(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """The guests that run: ``NAME``, of a lab ``LAB/GUEST``."""
    with contextlib.suppress(LabError, OSError):
        names = [
            entry.name if len(entry.guests) == 1 else f"{entry.name}/{guest}"
            for entry in running.entries()
            for guest in entry.guests
        ]
        return [name for name in names if name.startswith(start)]
    return []
