"""Kinds of values of an option.

Each use parses them itself: :mod:`emu.cli.options.declared` as words of a command line,
:mod:`emu.guests.options.tables` as keys of TOML files, :mod:`emu.pytest_plugin` as options of
pytest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emu.host.userfiles import missing_text, why_not_replaceable, why_not_writable
from emu.model_words import given_text
from emu.near import near

WRITABLE = ":rw"
MAX_WORDS = 1000


@dataclass(frozen=True, kw_only=True)
class OptionKind:
    """A single text; ``metavar`` is its placeholder in help."""

    metavar: str = ""

    def placed(self, said: object, base: Path) -> Any:
        """Return a user's value, with paths that no longer depend on ``base``."""
        return said

    def misfit(self, said: object) -> str:
        """Return the needed type if a user's value has another; "" if it fits."""
        return "" if isinstance(said, str) else "a string is needed"

    def fields(self, name: str, said: object, base: Path) -> dict[str, Any]:
        """Return the fields of :class:`GuestOptions` for a user's value; ``base`` is for paths."""
        return {name: said}

    def wrong(self, value: object) -> str:
        """Return what is wrong with a field's value; "" if it is valid."""
        return ""

    def recorded(self, name: str, fields: Mapping[str, Any]) -> object:
        """Return the recorded value of the field ``name`` of a guest's ``fields``."""
        return plain(fields[name])


@dataclass(frozen=True, kw_only=True)
class Words(OptionKind):
    """Texts; an option of a command line is repeated."""

    def misfit(self, said: object) -> str:
        """Return the error for a string, which has words of one letter, and for other values."""
        if isinstance(said, str):
            return f"a list is needed, such as {[said]!r}"
        if not isinstance(said, list | tuple):
            return "a list is needed"
        return "" if all(isinstance(word, str) for word in said) else "a list of strings is needed"

    def fields(self, name: str, said: Any, base: Path) -> dict[str, Any]:
        """Return the words as a tuple."""
        return {name: tuple(said)}

    def wrong(self, value: object) -> str:
        """Return the error for a value that is no list of strings."""
        return self.misfit(value)


@dataclass(frozen=True, kw_only=True)
class Files(Words):
    """Existing files; an option of a command line is repeated."""

    metavar: str = "FILE"

    def misfit(self, said: object) -> str:
        """Return the error for a value that is no list of paths."""
        if not isinstance(said, list | tuple):
            return "a list of paths is needed"
        is_fit = all(isinstance(word, str | Path) for word in said)
        return "" if is_fit else "a list of paths is needed"

    def placed(self, said: Any, base: Path) -> Any:
        """Return paths that are absolute if ``base`` is."""
        return tuple(str(base / word) for word in said)

    def fields(self, name: str, said: Any, base: Path) -> dict[str, Any]:
        """Return paths relative to ``base``."""
        return {name: tuple(base / word for word in said)}

    def wrong(self, value: Any) -> str:
        """Return the error for the first file that is missing or a directory."""
        one = File()
        return next((why for path in value if (why := one.wrong(Path(path)))), "")


@dataclass(frozen=True, kw_only=True)
class Kernel(Words):
    """The words of :func:`emu.guests.kernel.choice.choose`: paths, or ``debian:NAME``."""

    def misfit(self, said: object) -> str:
        """Return the error for a value that is neither a path nor a list of paths."""
        words = said if isinstance(said, list | tuple) else (said,)
        is_fit = all(isinstance(word, str | Path) for word in words)
        return "" if is_fit else "a path or a list of paths is needed"

    def placed(self, said: Any, base: Path) -> Any:
        """Return the words as a tuple: paths relative to ``base``, ``debian:NAME`` unchanged."""
        words = [said] if isinstance(said, str | Path) else said
        return tuple(
            word if word.startswith("debian:") else str(base / word) for word in map(str, words)
        )

    def fields(self, name: str, said: object, base: Path) -> dict[str, Any]:
        """Return the words, with which :func:`emu.guests.requested.requested` chooses a kernel."""
        return {name: self.placed(said, base)}

    def wrong(self, value: object) -> str:
        """Return an empty text: the field is the path of the chosen kernel."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Choice(OptionKind):
    """One of a few words."""

    among: tuple[str, ...]

    def wrong(self, value: object) -> str:
        """Return the error for a word that is not among the choices; "" for a choice or None."""
        if value is None or value in self.among:
            return ""
        similar = near(str(value), self.among)
        return f"{given_text(value)} is not one of {', '.join(self.among)}{similar}"


@dataclass(frozen=True, kw_only=True)
class Whole(OptionKind):
    """A number without a fraction."""

    least: int = 0
    most: int | None = None

    def misfit(self, said: object) -> str:
        """Return the error for a value that is no integer; a bool is none."""
        is_fit = isinstance(said, int) and not isinstance(said, bool)
        return "" if is_fit else "a whole number is needed"

    def wrong(self, value: Any) -> str:
        """Return the limits for a number outside them; "" for a valid number and for None."""
        if value is None or self.least <= value <= (math.inf if self.most is None else self.most):
            return ""
        return f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"


@dataclass(frozen=True, kw_only=True)
class Seconds(OptionKind):
    """A duration in seconds."""

    most: float = 1e6

    def misfit(self, said: object) -> str:
        """Return the error for a value that is no number; a bool is none."""
        is_fit = isinstance(said, int | float) and not isinstance(said, bool)
        return "" if is_fit else "a number is needed"

    def wrong(self, value: Any) -> str:
        """Return the error unless 0 < value <= limit."""
        return "" if 0 < value <= self.most else f"more than 0 s, at most {self.most:.0f} s"


@dataclass(frozen=True, kw_only=True)
class Flag(OptionKind):
    """Yes or no; an option of a command line has no value."""

    def misfit(self, said: object) -> str:
        """Return the error for a value that is no bool."""
        return "" if isinstance(said, bool) else "true or false is needed"


class _OnePath(OptionKind):
    """A file or a directory; creates nothing."""

    def misfit(self, said: object) -> str:
        """Return the error for a value that is no path."""
        return "" if isinstance(said, str | Path) else "a path is needed"

    def placed(self, said: Any, base: Path) -> Any:
        """Return a path that is absolute if ``base`` is."""
        return str(base / said)

    def fields(self, name: str, said: Any, base: Path) -> dict[str, Any]:
        """Return a path relative to ``base``."""
        return {name: base / said}


@dataclass(frozen=True, kw_only=True)
class File(_OnePath):
    """A file; ``is_new`` for one that is written, ``is_regular`` for one that is replaced."""

    metavar: str = "FILE"
    is_new: bool = False
    is_regular: bool = False
    """Whether a device or a pipe is refused."""
    example: str = ""
    """Kind of the examples that a command line accepts as @NAME (emu.host.shipped), if any."""

    def wrong(self, value: Any) -> str:
        """Return the error for a missing file, a directory, or a new file that cannot be written.

        A device or a pipe is an error with ``is_regular``. Return an empty text for a valid file
        and for None.
        """
        if value is None:
            return ""
        if self.is_new:
            why = why_not_writable(value)
            return why or (why_not_replaceable(value) if self.is_regular else "")
        if not value.exists():
            return missing_text("file", value)
        return f"{value} is a directory" if value.is_dir() else ""


@dataclass(frozen=True, kw_only=True)
class Directory(_OnePath):
    """A directory; ``is_made`` for one that is created when absent."""

    is_made: bool = False

    def wrong(self, value: Any) -> str:
        """Return the error for a missing directory or a file; "" for a directory and for None."""
        if value is None or value.is_dir():
            return ""
        return f"{value} is not a directory" if value.exists() else missing_text("directory", value)


@dataclass(frozen=True, kw_only=True)
class Share(Directory):
    """``DIR``, or ``DIR:rw`` for a directory that the guest may write to."""

    def fields(self, name: str, said: Any, base: Path) -> dict[str, Any]:
        """Return the directory, and whether the guest may write to it (suffix ``:rw``).

        A directory whose own name ends in ``:rw`` is taken by that name, read-only. A Path sets the
        directory alone.
        """
        if isinstance(said, Path):
            return {name: base / said}
        # A directory whose own name ends with ":rw" is still found.
        is_writable = said.endswith(WRITABLE) and not (base / said).is_dir()
        path = base / (said.removesuffix(WRITABLE) if is_writable else said)
        return {name: path, f"{name}_writable": is_writable}

    def recorded(self, name: str, fields: Mapping[str, Any]) -> object:
        """Return the directory in the user's form."""
        suffix = WRITABLE if fields[f"{name}_writable"] else ""
        return None if fields[name] is None else f"{fields[name]}{suffix}"


def plain(value: object) -> Any:
    """Return a field's value in a form for JSON: lists for tuples, texts for paths."""
    if isinstance(value, tuple):
        return [str(one) if isinstance(one, Path) else one for one in value]
    return str(value) if isinstance(value, Path) else value
