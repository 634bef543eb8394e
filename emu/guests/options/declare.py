"""The declaration of an option: one call beside its field of :class:`GuestOptions`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from emu.guests.options.kinds import OptionKind, Words
from emu.guests.options.uses import GUEST, Use

_KEY = "option"


@dataclass(frozen=True, kw_only=True, eq=False)
class Option:
    """One option of a guest, in all uses."""

    name: str = ""
    """Name of its field of :class:`GuestOptions`, and its key of the marker ``mlx5``."""
    default: Any = None
    flag: str
    """Name on a command line, without dashes."""
    word: str = ""
    """Key in files and records."""
    group: str = ""
    """Title of the group in which a command's help shows it."""
    kind: OptionKind
    help: str
    otherwise: str = ""
    """The default in words, where the value does not show it."""
    refused: Mapping[Use, str] = field(default_factory=dict)
    """Uses that refuse the option, each with the reason."""
    tables: Mapping[Use, str] = field(default_factory=dict)
    """Name of its table in a file, where that is not ``guest``."""
    is_recorded: bool = False
    """Whether records contain the option, and a replay restores it."""
    is_for_server: bool = False
    """Whether ``mlx5emu serve`` receives it unchanged."""
    wrong: Callable[[Any], str] = lambda _: ""
    """Returns what is wrong with it in view of the other :class:`GuestOptions`; else ""."""

    def table(self, use: Use) -> str:
        """Return the name of the option's table in the file of a use."""
        return self.tables.get(use, GUEST)

    def why_not(self, use: Use) -> str:
        """Return the reason with which a use refuses it; "" if the use accepts it."""
        return self.refused.get(use, "")

    @property
    def default_text(self) -> str:
        """The default as help shows it; empty for an option that is merely absent."""
        if self.otherwise:
            return self.otherwise
        if isinstance(self.default, tuple):
            return ", ".join(self.default)
        if isinstance(self.default, bool):
            return self.flag if self.default else ""
        return "" if self.default is None else f"{self.default}".removesuffix(".0")


def option(default: Any, **about: Any) -> Any:
    """Return a dataclass field that is an option; ``about`` are fields of :class:`Option`.

    Its key in files is the flag with underscores, in the plural for lists, unless ``word`` is
    given.
    """
    word = about["flag"].replace("-", "_") + "s" * (type(about["kind"]) is Words)
    declared = Option(default=default, **{"word": word, **about})
    return dataclasses.field(default=default, metadata={_KEY: declared})


def declared_in(*groups: Any) -> tuple[Option, ...]:
    """Return the options among the fields of dataclasses, in order; each names its ``GROUP``."""
    return tuple(
        dataclasses.replace(one.metadata[_KEY], name=one.name, group=group.GROUP)
        for group in groups
        for one in dataclasses.fields(group)
    )
