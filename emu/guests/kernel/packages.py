"""Reads Debian packages that a user names as a kernel: their processor and their files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from emu.guests.architecture import ARCHITECTURES, Architecture
from emu.guests.errors import LabError

_MAGIC = b"!<arch>\n"
_ANY = "all"
"""Architecture of packages for every processor (deb-control(5))."""


def is_package(path: Path) -> bool:
    """Return whether the file begins as a .deb does (deb(5)); False for an unreadable one."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def check_architecture(package: Path, arch: Architecture) -> None:
    """Raise LabError for a damaged .deb and for one of another processor than ``arch``'s.

    No file is unpacked. Raises LabError without dpkg-deb.
    """
    theirs = _dpkg_deb("read", "--field", package, "Architecture").strip()
    if theirs in (arch.debian, _ANY):
        return
    boots = f": arch {theirs} boots it" if theirs in ARCHITECTURES else ""
    raise LabError(f"{package} is a package of {theirs}, and the guest is {arch.name}{boots}")


def unpack(package: Path, target: Path) -> None:
    """Unpack a .deb into ``target``; no scripts of the package run.

    Raises :class:`LabError` without dpkg-deb, or for a damaged package.
    """
    _dpkg_deb("unpack", "--extract", package, str(target))


def _dpkg_deb(verb: str, option: str, package: Path, word: str) -> str:
    """Return the output of dpkg-deb; LabError when it is missing or fails."""
    program = shutil.which("dpkg-deb")
    if program is None:
        raise LabError("dpkg-deb is not installed: install the package dpkg")
    command = [program, option, str(package), word]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        said = result.stderr.strip().splitlines() or ["no reason given"]
        raise LabError(f"cannot {verb} {package}: {said[-1]}")
    return result.stdout
