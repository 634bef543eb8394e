"""Files that come with the package: the guide, the manual page, and examples.

In a checkout they stand in ``share/`` and ``examples/``. A wheel has copies in ``emu/data``, with
the same folders (``setup.py``), so examples that name each other find each other there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from emu.host.user_error import UserError
from emu.near import near

_PACKAGE: Final = Path(__file__).parents[1]
_CHECKOUT: Final = _PACKAGE.parent

FOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": ("faults", "links", "findings"),
    "lab": ("lab", "subnet", "switch"),
    "campaign": ("campaigns",),
    "program": ("programs",),
    "finding": ("findings",),
}
"""Folders of ``examples/`` by the kind of their files; a name is looked for in this order."""
_PROGRAMS: Final = (".py", ".c")
_FEW: Final = 12
"""Names that a message lists; of more it names the pages that do."""
_NO_EXAMPLE: Final = frozenset(("findings", "fixes"))
"""Files of these folders that are lists about the others."""


def is_checkout() -> bool:
    """Return whether the package runs from a checkout of the project."""
    return (_CHECKOUT / "share" / "guide").is_dir()


def root() -> Path:
    """Return the folder that has ``share`` and ``examples``."""
    return _CHECKOUT if is_checkout() else _PACKAGE / "data"


def examples(kind: str) -> dict[str, Path]:
    """Return the examples of a kind (a key of ``FOLDERS``) by their names.

    A program's name has its suffix, as ``exchange.c``; the others have no ``.toml``.
    """
    found: dict[str, Path] = {}
    for folder in FOLDERS[kind]:
        for path in sorted((root() / "examples" / folder).iterdir()):
            if kind == "program" and path.suffix in _PROGRAMS:
                found.setdefault(path.name, path)
            elif path.suffix == ".toml" and path.stem not in _NO_EXAMPLE:
                found.setdefault(path.stem, path)
    return found


def all_examples() -> dict[str, Path]:
    """Return the examples of all kinds by their names, and the page of a folder by the folder's."""
    folders = {folder for folders in FOLDERS.values() for folder in folders}
    pages = {folder: root() / "examples" / folder / "README.md" for folder in folders}
    found = {folder: page for folder, page in pages.items() if page.is_file()}
    for kind in FOLDERS:
        found |= examples(kind)
    return found


def example(kind: str, name: str) -> Path:
    """Return the file of an example. Raises UserError, with near names, if there is none."""
    known = examples(kind)
    if name not in known:
        pages = (f"@{folder}" for folder in FOLDERS[kind] if folder in all_examples())
        where = " and ".join(pages) if len(known) > _FEW else ""
        rest = f"mlx5emu guide has {where}" if where else f"there are {', '.join(known)}"
        raise UserError(f"no {kind} @{name}{near(name, known)}; {rest}")
    return known[name]


def pages() -> dict[str, Path]:
    """Return the pages of the guide by their names; its index is not among them."""
    paths = sorted((root() / "share" / "guide").glob("*.md"))
    return {path.stem: path for path in paths if path.stem != "README"}
