"""Other processes that run the same code as this one."""

from __future__ import annotations

import sys
from pathlib import Path

import emu


def module_command(name: str) -> list[str]:
    """The command that runs a module of this very package.

    Python looks for a module in the current folder first. There may be other sources of ours, such
    as those of the checkout in whose folder a compiled package is tried: these are not wanted.
    """
    here = Path("emu/__init__.py")
    is_from_here = here.exists() and here.samefile(emu.__file__)
    return [sys.executable, *([] if is_from_here else ["-P"]), "-m", name]
