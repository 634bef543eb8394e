"""A choice on a command line, with similar words in its error message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from emu.guests.options.kinds import Choice

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # before click 8.2 the class is not generic


class NearChoice(_Choice):
    """One of several words; the error for another word lists similar ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; fail, with similar words, for one that is not a choice. Case counts."""
        if value not in self.choices:
            self.fail(Choice(among=tuple(self.choices)).wrong(value), param, ctx)
        return str(value)
