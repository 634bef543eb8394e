"""A guest's options as tables of TOML files: models that check them, made from the declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr
from pydantic_core import PydanticCustomError

from emu.guests.options.declare import Option
from emu.guests.options.guest import option_named, options
from emu.guests.options.kinds import MAX_WORDS, Choice, Flag, OptionKind, Seconds, Whole, Words
from emu.guests.options.uses import Use
from emu.model_words import CHOICE, matching


class OptionTable(BaseModel):
    """A table of a file; ``refused`` maps keys that it does not have to the reasons."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    refused: ClassVar[Mapping[str, str]] = {}

    def given(self) -> dict[str, Any]:
        """Return the options that the file sets, by their names; defaults are left out."""
        values = ((one.name, getattr(self, one.word, None)) for one in options())
        said = {one.name for one in options() if one.word in self.model_fields_set}
        return {name: value for name, value in values if name in said and value is not None}

    def value(self, name: str) -> Any:
        """Return the value of an option, set or default."""
        return getattr(self, option_named(name).word)


_Text = Annotated[StrictStr, matching(r"[^\0]*", "a string without NUL")]
"""A string that can be a word of a command or a path."""
T = TypeVar("T", bound=OptionTable)


def with_keys(base: type[T], declared: Iterable[Option]) -> type[T]:
    """Return a new model class with a key for each option, in addition to those of ``base``."""
    fields: dict[str, Any] = {one.word: (_type(one), one.default) for one in declared}
    made: type[T] = pydantic.create_model(
        base.__name__, __base__=base, __module__=base.__module__, __doc__=base.__doc__, **fields
    )
    return made


def has_options(use: Use, name: str | None = None) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds a key for each option of a use's table ``name``.

    Without ``name`` the options of all tables are added. Options that the use refuses are not keys:
    the new class lists them in ``refused`` with the reason, or with the table that has them.
    """

    def decorate(base: type[T]) -> type[T]:
        mine = [
            one
            for one in options()
            if not one.why_not(use) and one.table(use) == (name or one.table(use))
        ]
        made = with_keys(base, mine)
        made.refused = {
            one.word: one.why_not(use) or f"a key of {one.table(use)}"
            for one in options()
            if one not in mine
        }
        return made

    return decorate


def _type(one: Option) -> Any:
    """Return pydantic's type of an option."""
    checked = _of_kind(one.kind)
    return checked if one.default is not None else checked | None


def _of_kind(kind: OptionKind) -> Any:
    """Return pydantic's type of an option's kind, with its limits."""
    if isinstance(kind, Words):
        return Annotated[tuple[_Text, ...], Field(max_length=MAX_WORDS)]
    if isinstance(kind, Whole):
        return Annotated[int, Field(strict=True, ge=kind.least, le=kind.most)]
    if isinstance(kind, Seconds):
        return Annotated[float, Field(gt=0, le=kind.most, allow_inf_nan=False)]
    if isinstance(kind, Flag):
        return StrictBool
    if isinstance(kind, Choice):
        return Annotated[StrictStr, AfterValidator(lambda value: _chosen(kind, value))]
    return _Text


def _chosen(kind: Choice, value: str) -> str:
    if why := kind.wrong(value):
        raise PydanticCustomError(CHOICE, "{why}", {"why": why})
    return value
