"""Makes patches: applies edits by function to a kernel tree and returns the diff.

Edits are stored in a file beside the findings and contain no kernel lines. Each edit names words of
the line where it applies, so it fits releases that changed the function elsewhere.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.instruments.fuzz.report.place import definition

FIXES: Final = "fixes.toml"
_MAX_FIXES: Final = 1 << 20
_MAX_SOURCE: Final = 4 << 20
_PLACES: Final = ("before", "after", "instead")


class DoesNotFitError(Exception):
    """The sources lack the location of an edit."""


@dataclass(frozen=True)
class Edit:
    """Lines for one location in a function."""

    file: str
    function: str
    where: str
    """Position of the lines: ``before``, ``after`` or ``instead`` of the line with the words."""
    words: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Fix:
    """The proposed patch for a finding."""

    why: str
    edits: tuple[Edit, ...] = field(default=())


def fix_of(folder: Path, finding: str) -> Fix | None:
    """Return the proposal for a finding in ``folder``'s fixes.toml; None without file or proposal.

    Raises UserError for an invalid file.
    """
    path = folder / FIXES
    if not path.is_file():
        return None
    try:
        for table in tomllib.loads(read_infile(path, _MAX_FIXES).decode()).values():
            if finding in table["findings"]:
                return Fix(str(table["why"]), tuple(map(_edit, table["edit"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: not a valid file of proposed patches") from None
    return None


def _edit(table: dict[str, Any]) -> Edit:
    where = next((one for one in _PLACES if one in table), "where")
    lines = tuple(str(table["lines"]).splitlines())
    return Edit(str(table["file"]), str(table["function"]), where, str(table[where]), lines)


def diff(fix: Fix, tree: Path) -> list[str]:
    """Return a unified diff of the tree for git apply; the tree is unchanged.

    Raises DoesNotFitError if a file is missing, or if not exactly one line has an edit's words.
    """
    result: list[str] = []
    for name in dict.fromkeys(edit.file for edit in fix.edits):
        path = tree / name
        if not path.is_file():
            raise DoesNotFitError(f"{name} is missing")
        old = read_infile(path, _MAX_SOURCE).decode(errors="replace").splitlines()
        new = old
        for edit in fix.edits:
            if edit.file == name:
                new = _edited(new, edit)
        changes = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
        result += [f"diff --git a/{name} b/{name}", *changes]
    return result


def _edited(lines: Sequence[str], edit: Edit) -> list[str]:
    """Return the lines with one edit applied.

    Raises DoesNotFitError unless exactly one line of the function has the edit's words.
    """
    places = [at for at in _body(lines, edit.function) if edit.words in lines[at]]
    if len(places) != 1:
        found = f"{edit.function} has {len(places)} lines with {edit.words}"
        raise DoesNotFitError(f"{edit.file}: {found}")
    (at,) = places
    first = at + (edit.where == "after")
    last = at + (edit.where != "before")
    return [*lines[:first], *edit.lines, *lines[last:]]


def _body(lines: Sequence[str], function: str) -> range:
    """Return the line numbers of a function's body, from 0; empty if the function is missing."""
    found = definition(lines, function)
    return range(0) if found is None else range(*found[1:])
