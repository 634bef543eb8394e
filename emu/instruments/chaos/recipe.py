"""Reads a recipe of chaos: a program with its guest, and how its runs are compared.

A recipe gives the options of ``mlx5emu chaos`` other defaults. ``[guest]`` has the keys of a lab's
guest, with paths relative to the recipe. Its directory is shared, unless ``share`` names another,
and the command begins in the shared one.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator

from emu.guests.options import OptionError, Use, option_named
from emu.guests.options.checks import check_options
from emu.guests.options.tables import OptionTable, has_options
from emu.guests.requested import check_requested
from emu.host.toml_file import TomlFile
from emu.instruments.campaign.description import Seconds
from emu.instruments.chaos.sets import LinkLayer

_SHARE = "share"


@has_options(Use.CHAOS)
class RecipeGuestTable(OptionTable):
    """``[guest]``: options of the guests."""


class RecipeFile(BaseModel):
    """The content of a recipe; keys besides ``about`` and ``command`` are options of the command.

    ``sets`` are files beside the recipe or ``@NAME``, ``only`` has patterns of failures, and
    ``compare`` asks for the output of the clean run.
    ``peer`` is the command of a second guest.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    about: Annotated[StrictStr, Field(min_length=1, max_length=300)]
    command: Annotated[StrictStr, Field(min_length=1, max_length=4000)]
    peer: Annotated[StrictStr, Field(max_length=4000)] | None = None
    link: LinkLayer | None = None
    sets: tuple[StrictStr, ...] = ()
    only: tuple[StrictStr, ...] = ()
    compare: StrictBool = False
    timeout: Seconds | None = None
    patience: Annotated[float, Field(ge=1, le=1000)] | None = None
    guest: RecipeGuestTable = RecipeGuestTable()

    @field_validator("command", "peer")
    @classmethod
    def _has_words(cls, said: str | None) -> str | None:
        """Return the command. Raises ValueError for unbalanced quotes, and without any word."""
        if said is not None and not shlex.split(said):
            raise ValueError("no word")
        return said


class ChaosRecipe(BaseModel):
    """A recipe: the words of its command, and values of options by the options' names."""

    model_config = ConfigDict(frozen=True)

    about: str
    words: tuple[str, ...]
    values: dict[str, Any]
    """Values as users write them: texts of paths, lists of words."""


def read_recipe(path: Path) -> ChaosRecipe:
    """Return the recipe in a file. Raises UserError for each mistake with its line, and OSError."""
    file = TomlFile(path, RecipeFile, {"guest": RecipeGuestTable})
    content, base = file.content, path.resolve().parent
    mistakes = list(file.mistakes)
    given = {_SHARE: ".", **content.guest.given()}
    try:
        check_requested(given, base)
        check_options({"devices": given.get("devices")})
    except OptionError as error:
        mistakes.append((("guest", option_named(error.name).word), error))
    if mistakes:
        raise file.errors_at(mistakes)
    chosen = {
        "peer": content.peer,
        "link": content.link,
        "sets": tuple(one if one.startswith("@") else str(base / one) for one in content.sets),
        "patterns": content.only,
        "is_compared": content.compare,
        "timeout": content.timeout,
        "patience": content.patience,
    }
    values = {name: value for name, value in chosen.items() if value not in (None, (), False)}
    values |= {name: option_named(name).kind.placed(value, base) for name, value in given.items()}
    return ChaosRecipe(
        about=content.about, words=tuple(shlex.split(content.command)), values=values
    )
