"""The command line by which this process starts another module of the same package."""

from __future__ import annotations

import sys
from pathlib import Path

import emu


def module_command(name: str) -> list[str]:
    """Return the command that runs a module of this very package.

    Python searches the current folder first. Another copy of our sources may be there, for example
    the checkout in whose folder a compiled package is tried; that copy must not run.
    """
    here = Path("emu/__init__.py")
    is_from_here = here.exists() and here.samefile(emu.__file__)
    return [sys.executable, *([] if is_from_here else ["-P"]), "-m", name]
