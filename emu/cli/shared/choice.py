"""A choice on a command line that tells near words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from emu.guests.options.kinds import Choice

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # before click 8.2 no type can be said


class NearChoice(_Choice):
    """One of a few words; of another word the nearest are told."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word."""
        if value not in self.choices:
            self.fail(Choice(among=tuple(self.choices)).wrong(value), param, ctx)
        return str(value)
