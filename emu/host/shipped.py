"""Files of the package for users: the guide, the manual page, and examples.

A checkout has them in ``share/`` and ``examples/``. A wheel has copies in ``emu/data``, in the same
folders (``setup.py``), so examples that name each other find each other there.
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
    "lab": ("lab", "subnet", "switch", "sriov"),
    "subnet": ("subnet",),
    "campaign": ("campaigns",),
    "failure set": ("chaos",),
    "recipe": ("recipes",),
    "program": ("programs",),
    "finding": ("findings",),
}
"""Folders of ``examples/`` by the kind of their files; names are searched in this order."""
_PROGRAMS: Final = (".py", ".c")
_SUFFIXES: Final[Mapping[str, str]] = {"subnet": ".net"}
"""Suffixes of files by their kind; of other kinds ``.toml``."""
_FEW: Final = 12
"""Number of names that a message lists; for more it names the pages of the guide."""
_NO_EXAMPLE: Final = frozenset(("findings", "fixes"))
"""Files of these folders that list the others."""


def is_checkout() -> bool:
    """Return whether the package runs from a checkout of the project."""
    return (_CHECKOUT / "share" / "guide").is_dir()


def root() -> Path:
    """Return the folder that contains ``share`` and ``examples``."""
    return _CHECKOUT if is_checkout() else _PACKAGE / "data"


def examples(kind: str) -> dict[str, Path]:
    """Return the examples of a kind (a key of ``FOLDERS``) by their names.

    KeyError for another kind. The name of a program includes its suffix (``exchange.c``); other
    names omit the suffix. A name that two folders have stands for the first folder's file.
    """
    found: dict[str, Path] = {}
    for folder in FOLDERS[kind]:
        for path in sorted((root() / "examples" / folder).iterdir()):
            if kind == "program" and path.suffix in _PROGRAMS:
                found.setdefault(path.name, path)
            elif path.suffix == _SUFFIXES.get(kind, ".toml") and path.stem not in _NO_EXAMPLE:
                found.setdefault(path.stem, path)
    return found


def all_examples() -> dict[str, Path]:
    """Return all examples by their names, and each folder's README.md by the folder's name.

    Programs have names with a suffix. An example has precedence over a folder of the same name.
    """
    folders = {folder for folders in FOLDERS.values() for folder in folders}
    pages = {folder: root() / "examples" / folder / "README.md" for folder in folders}
    found = {folder: page for folder, page in pages.items() if page.is_file()}
    for kind in FOLDERS:
        found |= examples(kind)
    return found


def files() -> dict[str, Path]:
    """Return the examples and the other pages that pages name, by their paths below :func:`root`.

    A wheel has those that README.md and pages of the guide name.
    """
    patterns = (
        "*.md", "action.yml", "scripts/benchmarks/*.md", "share/guide/README.md",
        "examples/README.md", "examples/*/*", "firmware_cmds/README.md", "emu/*/**/README.md",
    )  # fmt: skip
    paths = (path for pattern in patterns for path in sorted(root().glob(pattern)))
    return {path.relative_to(root()).as_posix(): path for path in paths if path.is_file()}


def named_example(kind: str, word: str) -> Path | None:
    """Return the example that a user's word ``@NAME`` means; None for another word.

    An existing file whose name begins with ``@`` is preferred. Raises UserError as :func:`example`.
    """
    return example(kind, word[1:]) if word.startswith("@") and not Path(word).exists() else None


def path_of(kind: str, word: str) -> Path:
    """Return the file that a user's word means: the example ``@NAME``, else the word itself.

    Raises UserError as :func:`example`.
    """
    return named_example(kind, word) or Path(word)


def shown(path: Path) -> str:
    """Return how to show a file to a user: ``@NAME`` for an example that was named so.

    The path is then absolute, below :func:`root`; any other path is returned as text.
    """
    if path.is_absolute() and path.is_relative_to(root() / "examples"):
        for name, example_path in all_examples().items():
            if example_path == path:
                return f"@{name}"
    return str(path)


def example(kind: str, name: str) -> Path:
    """Return the file of an example of this kind.

    Raises UserError if no example has the name; the text has near names, and the known ones or the
    guide's page.
    """
    known = examples(kind)
    if name not in known:
        names = [f"@{one}" for one in known]
        pages = (f"@{folder}" for folder in FOLDERS[kind] if folder in all_examples())
        where = " or ".join(pages) if len(known) > _FEW else ""
        rest = f"all are in mlx5emu guide {where}" if where else f"known: {', '.join(names)}"
        raise UserError(f"no {kind} @{name}{near(f'@{name}', names)}; {rest}")
    return known[name]


def manual() -> Path:
    """Return the manual page of the program, for man(1)."""
    return root() / "share" / "man" / "man1" / "mlx5emu.1"


def pages() -> dict[str, Path]:
    """Return the pages of the guide by their names; its index is not among them."""
    paths = sorted((root() / "share" / "guide").glob("*.md"))
    return {path.stem: path for path in paths if path.stem != "README"}
