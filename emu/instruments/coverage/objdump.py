"""Runs objdump (binutils) on a module's code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from emu.guests.errors import LabError

T = TypeVar("T")


def read_listing(
    module: Path, read: Callable[[Iterable[str]], T], *options: str, purpose: str
) -> T:
    """Return what ``read`` makes of the listing of a module file's ``.text``.

    Raises LabError, which names the ``purpose``, without objdump, and if objdump fails.
    """
    command = ["objdump", "-d", *options, "-j", ".text", "--no-show-raw-insn", str(module)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            result = read(process.stdout)
    except FileNotFoundError:
        raise LabError(f"{purpose} needs objdump: install the package binutils") from None
    if process.returncode:
        raise unreadable(module)
    return result


def unreadable(module: Path) -> LabError:
    """Return the error for a module whose code objdump cannot show."""
    return LabError(f"objdump cannot read {module.name}")
