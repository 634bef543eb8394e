"""Builds an out-of-tree module: ``make M=DIRECTORY``, on the host's processors.

Against a build tree, ``make`` is the host's. Against Debian's headers, ``make`` runs in the root
directory of :mod:`emu.guests.kernel.headers`, in a separate mount namespace. The module's directory
has the same path in both, so an editor finds the files that the compiler names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from emu.guests.errors import LabError
from emu.guests.kernel import headers

_INSIDE = """
root=$1 directory=$2
shift 2
mkdir -p "$root/tmp"
for one in /dev /proc "$directory"; do
    mkdir -p "$root$one"
    mount --rbind "$one" "$root$one"
done
exec chroot "$root" "$@"
"""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"}


def against_tree(tree: Path, directory: Path, jobs: int, words: Sequence[str] = ()) -> None:
    """Make the directory's modules for a kernel's build tree. Raises LabError."""
    environ = {name: value for name, value in os.environ.items() if name != "ARCH"}
    _run(_make(str(tree), directory, jobs, words), directory, environ)


def against_headers(
    root: Path, release: str, directory: Path, jobs: int, words: Sequence[str] = ()
) -> None:
    """Make the directory's modules for Debian's kernel of that release, in the root ``root``.

    make runs in its own mount namespace, as a mapped root for other users. Raises LabError without
    unshare(1), or when make fails.
    """
    program = shutil.which("unshare")
    if program is None:
        raise LabError("unshare is not installed: install the package util-linux")
    alone = [program, *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    make = _make(headers.source(release), directory, jobs, words)
    command = [*alone, "sh", "-euc", _INSIDE, "sh", str(root), str(directory), *make]
    _run(command, directory, _ENVIRONMENT)


def check_directory(directory: Path) -> None:
    """Raise :class:`LabError` unless the directory can contain a module's sources."""
    if not any((directory / name).is_file() for name in ("Kbuild", "Makefile")):
        raise LabError(f"{directory} has no sources of a module: neither Makefile nor Kbuild")


def _make(tree: str, directory: Path, jobs: int, words: Sequence[str]) -> list[str]:
    own = [f"-j{jobs}", "--no-print-directory", "-C", tree, f"M={directory}"]
    return ["make", *own, *(words or ("modules",))]


def _run(command: Sequence[str], directory: Path, environ: dict[str, str]) -> None:
    """Run a command, whose output is written to ours; LabError when it is missing or fails."""
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, env=environ, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not installed") from error
    if result.returncode != 0:
        raise LabError(f"make failed in {directory} with status {result.returncode}")
