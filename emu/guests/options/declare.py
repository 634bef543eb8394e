"""How an option is declared: beside its field of :class:`GuestOptions`, in one call."""

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
    """Its field of :class:`GuestOptions`, and its key of the marker ``mlx5``."""
    default: Any = None
    flag: str
    """Its name on a command line, without dashes."""
    word: str = ""
    """Its key in files and records."""
    kind: OptionKind
    help: str
    otherwise: str = ""
    """The default in words, where the value does not tell it."""
    refused: Mapping[Use, str] = field(default_factory=dict)
    """Uses in which it has no meaning, and why."""
    tables: Mapping[Use, str] = field(default_factory=dict)
    """In which table of a file it stands, where that is not ``guest``."""
    is_recorded: bool = False
    """Whether a record has it, and a replay takes it from there."""
    is_for_server: bool = False
    """Whether it is passed on to ``mlx5emu serve`` as it is."""
    wrong: Callable[[Any], str] = lambda _: ""
    """What is wrong with it in view of the other options (:class:`GuestOptions`); else empty."""

    def table(self, use: Use) -> str:
        """The table of a use's file in which it stands."""
        return self.tables.get(use, GUEST)

    def why_not(self, use: Use) -> str:
        """The sentence with which a use refuses it; empty where it has a meaning."""
        return self.refused.get(use, "")

    @property
    def default_text(self) -> str:
        """The default as help shows it; empty for one that is no more than absent."""
        if self.otherwise:
            return self.otherwise
        if isinstance(self.default, tuple):
            return ", ".join(self.default)
        if isinstance(self.default, bool):
            return self.flag if self.default else ""
        return "" if self.default is None else f"{self.default}".removesuffix(".0")


def option(default: Any, **about: Any) -> Any:
    """A field of a dataclass that is an option; ``about`` are fields of :class:`Option`."""
    word = about["flag"].replace("-", "_") + "s" * (type(about["kind"]) is Words)
    declared = Option(default=default, **{"word": word, **about})
    return dataclasses.field(default=default, metadata={_KEY: declared})


def declared_in(cls: Any) -> tuple[Option, ...]:
    """The options among a dataclass' fields, in their order."""
    return tuple(
        dataclasses.replace(one.metadata[_KEY], name=one.name)
        for one in dataclasses.fields(cls)
        if _KEY in one.metadata
    )
