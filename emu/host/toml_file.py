"""TOML files that users write: all mistakes are reported at once, with line and allowed values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from emu.host.user_error import WRONG_USE, UserError
from emu.host.userfiles import read_infile
from emu.model_words import in_words, model_mistakes
from emu.near import near
from emu.toml_lines import Place, TomlLines, syntax_mistake

_MAX_BYTES = 1 << 20
_MAX_BITS = 64
_MAX_SHOWN = 20
_MAX_ROUNDS = 3
"""Checks of a file: as it is, without its mistakes, and with the keys that these need."""
M = TypeVar("M", bound=BaseModel)


class TomlFile(Generic[M]):
    """A file's tables, and the lines where they begin."""

    def __init__(
        self,
        path: Path,
        model: type[M],
        tables: Mapping[str, type[BaseModel]],
        error: type[UserError] = UserError,
    ) -> None:
        """Read and check the file; ``tables`` are the models by the tables' names.

        A model's ``refused`` maps keys that users may expect in it to the reason for their absence.

        Mistakes of keys and values become :attr:`mistakes` if the rest of the file fits the model,
        so the caller can report its own mistakes with them. Raises ``error`` with a line for each
        mistake otherwise, and OSError.
        """
        self.path = path
        self.mistakes: list[tuple[Place, object]] = []
        """Mistakes whose keys ``content`` lacks; the caller must refuse a file that has any."""
        self._error = error
        text = self._text()
        self._lines = TomlLines(text)
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as failure:
            raise self.refusal(f"{path}:{syntax_mistake(failure, text)}") from None
        if (found := _unusable(table)) is not None:
            raise self.errors_at([found])
        self.content = self._checked(table, model, tables)

    def _checked(
        self, table: dict[str, Any], model: type[M], tables: Mapping[str, type[BaseModel]]
    ) -> M:
        """Return the table's content, without the keys of the mistakes, which are recorded.

        Removes these keys from ``table``, and sets required texts that are missing. Raises the
        class's ``error`` if the rest does not fit.
        """
        for _ in range(_MAX_ROUNDS):
            try:
                return model.model_validate(table)
            except ValidationError as failure:
                causes = model_mistakes(failure.errors(), table)
            self.mistakes = self.mistakes or [
                (place, _in_words(place, details, model, tables)) for place, details in causes
            ]
            for number, (place, details) in enumerate(causes):
                if details[0]["type"] == "missing":
                    _fill(table, place, f"x{number}")
                else:
                    _remove(table, place)
        raise self.errors_at(self.mistakes)

    def _text(self) -> str:
        """Return the file's text, invalid UTF-8 replaced.

        Raises the class's ``error`` for more than 1 MiB, and OSError.
        """
        try:
            return read_infile(self.path, _MAX_BYTES).decode(errors="replace")
        except UserError as failure:
            raise self.refusal(str(failure)) from None

    def line(self, place: Place) -> int:
        """Return the line of the innermost part of a place that the text shows.

        1 if it shows none.
        """
        return self._lines.of(place) or 1

    def place(self, place: Place) -> str:
        """Return the file and the line of a place, for messages."""
        return f"{self.path}:{self.line(place)}"

    def errors_at(self, mistakes: Sequence[tuple[Place, object]]) -> UserError:
        """Return, not raise, one error for several mistakes, sorted by line; 20 are listed."""
        lines = sorted(((self.line(place), why) for place, why in mistakes), key=lambda one: one[0])
        texts = [
            f"{self.path}:{line}: {one}" for line, why in lines for one in f"{why}".split("\n")
        ]
        more = [f"{self.path}: {len(texts) - _MAX_SHOWN} more"] * (len(texts) > _MAX_SHOWN)
        return self.refusal("\n".join(texts[:_MAX_SHOWN] + more))

    def refusal(self, text: str) -> UserError:
        """Return, not raise, an error about the file, with the exit status of wrong use."""
        error = self._error(text)
        error.status = WRONG_USE
        return error


def _unusable(table: dict[str, Any]) -> tuple[Place, str] | None:
    """Return the place and the mistake of a value that no use of a file takes; None without one.

    tomllib reads integers of any length; messages and records cannot have more than 4300 digits. No
    path, argument or command has a NUL.
    """
    waiting: list[tuple[Place, str, object]] = [((), "", table)]
    while waiting:
        place, name, value = waiting.pop()
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return place, f"{name}: an integer of TOML has 64 bits"
        if isinstance(value, str) and "\0" in value:
            return place, f"{name}: a string without NUL is needed"
        if isinstance(value, dict):
            waiting += [((*place, key), key, inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, number), name, inner) for number, inner in enumerate(value)]
    return None


def _remove(table: dict[str, Any], place: Place) -> None:
    """Remove the innermost key of ``table`` that is part of a place; without any, change nothing.

    An element of a list is not removed alone, as the next ones would change their numbers.
    """
    inner: Any = table
    holder, key = table, place[0] if place else ""
    for part in place:
        if isinstance(inner, dict) and part in inner:
            holder, key = inner, part
        elif not (isinstance(inner, list) and isinstance(part, int) and part < len(inner)):
            break
        inner = inner[part]
    holder.pop(str(key), None)


def _fill(table: dict[str, Any], place: Place, text: str) -> None:
    """Set a missing key, so that the mistakes of other keys are found, too."""
    inner: Any = table
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = text


def _in_words(
    place: Place,
    details: Sequence[Any],
    model: type[BaseModel],
    tables: Mapping[str, type[BaseModel]],
) -> str:
    """Return a mistake in words; for an unknown key, the model's reason or the allowed keys."""
    *_, key = place or ("the file",)
    kind = details[0]["type"]
    if kind == "extra_forbidden":
        inner = tables.get(str(place[0]), model) if len(place) > 1 else model
        if why := getattr(inner, "refused", {}).get(str(key)):
            return f"{key}: {why}"
        known = inner.model_fields
        return f"no key {str(key)!r} here{near(str(key), known)}; there are {', '.join(known)}"
    if kind == "missing":
        return f"no {key}, which is needed here"
    names = [str(part) for part in place if isinstance(part, str)]
    return f"{names[-1] if names else key}: {in_words(details)}"
