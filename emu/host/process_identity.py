"""The command line by which this process starts another module of the same package."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "__init__.py"


def module_command(name: str) -> list[str]:
    """Return the command that runs module ``name`` of this very package with this interpreter.

    Adds Python's option -P unless the current folder has this package itself: Python searches that
    folder first, and another copy of our sources there must not run.
    """
    here = Path("emu/__init__.py")
    is_from_here = here.exists() and here.samefile(_PACKAGE)
    return [sys.executable, *([] if is_from_here else ["-P"]), "-m", name]
