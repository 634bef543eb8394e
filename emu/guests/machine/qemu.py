"""Finds a QEMU that supports vfio-user, or fetches one.

The system's QEMU is used if it is new enough. Otherwise Debian's package for trixie is unpacked in
the cache with its libraries, and started with its own dynamic loader. QEMU then runs on any
distribution, and nothing is installed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress, bootstrap_files
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError

MINIMUM = (10, 1)  # the first with a vfio-user client
_PROGRAM = "qemu-system-x86_64"
_SUITE = "trixie"
_UNPACKED = "trixie-backports-1"  # increase the number when _wanted() changes
_KEPT_ANSWERS = 7  # number of cached answers about other QEMUs
_DISK_SPACE = DiskSpace(cached=210_000_000, tree=365_000_000)
_KEPT = re.compile(
    r"\./usr/(bin/qemu-system-x86_64|lib64/.*|lib/x86_64-linux-gnu/[^/]*\.so[^/]*"
    r"|share/(qemu|seabios)/[^/]*)"
)


@dataclass(frozen=True)
class Qemu:
    """A QEMU that can be started."""

    command: tuple[str, ...]
    version: tuple[int, int, int]
    origin: str

    @property
    def version_text(self) -> str:
        """The version in dotted form."""
        return ".".join(map(str, self.version))


def find() -> Qemu | None:
    """Return ``MLX5EMU_QEMU``, the system's or the cached QEMU; None if none is suitable.

    Only 10.1 or newer with vfio-user-pci is suitable. Raises :class:`LabError` when
    ``MLX5EMU_QEMU`` names one that is not. Downloads are left to :func:`ensure`.
    """
    named = os.environ.get("MLX5EMU_QEMU")
    if named:
        qemu = _examine(Path(named), "MLX5EMU_QEMU")
        if qemu is None:
            raise LabError(f"MLX5EMU_QEMU={named} is not QEMU {_minimum()} with vfio-user-pci")
        return qemu
    system = shutil.which(_PROGRAM)
    return (_examine(Path(system), "system") if system else None) or _cached()


def ensure(progress: Progress | None = None, on_wait: Callable[[], None] | None = None) -> Qemu:
    """Return a suitable QEMU; fetch Debian's package into the cache if there is none.

    ``on_wait`` is called if another process fetches it. Raises LabError when the download fails, or
    when the fetched QEMU does not run here.
    """
    qemu = find()
    if qemu is None:
        with cache.lock("qemu", on_wait):
            if _cached() is None:
                with cache.building(_directory()) as work:
                    _fetch(work, progress)
        qemu = _cached()
    if qemu is None:
        raise LabError(f"the QEMU in {_directory()} does not run here: remove that directory")
    return qemu


def program_path(qemu: Qemu) -> Path:
    """Return one file that starts this QEMU: its program, or a script written to the cache.

    The cached QEMU needs its own dynamic loader, libraries and firmware, which the script names.
    """
    if len(qemu.command) == 1:
        return Path(qemu.command[0])
    path = _directory().parent / _PROGRAM
    script = f'#!/bin/sh\nexec {shlex.join(qemu.command)} "$@"\n'
    if not path.exists() or path.read_text() != script:
        cache.save_text(path, script, 0o755)
    return path


def _minimum() -> str:
    return ".".join(map(str, MINIMUM)) + " or newer"


def _directory() -> Path:
    return cache.subdir("qemu") / _UNPACKED


def _cached() -> Qemu | None:
    """Return the QEMU in the cache; None if it is absent or not suitable."""
    usr = _directory() / "usr"
    loader = usr / "lib64" / "ld-linux-x86-64.so.2"
    if not loader.exists():
        return None
    libraries = usr / "lib" / "x86_64-linux-gnu"
    share = usr / "share"
    return _examine(
        usr / "bin" / _PROGRAM,
        "cache",
        before=(str(loader), "--library-path", str(libraries)),
        after=("-L", str(share / "qemu"), "-L", str(share / "seabios")),
    )


def _examine(
    program: Path, origin: str, before: tuple[str, ...] = (), after: tuple[str, ...] = ()
) -> Qemu | None:
    """Return the QEMU in ``program`` if it has version 10.1 and vfio-user; else None.

    ``before`` and ``after`` surround it on its command line. The answer is cached by path, time and
    size.
    """
    try:
        stat = program.stat()
    except OSError:
        return None
    command = (*before, str(program), *after)
    store = cache.cache_dir() / "qemu.json"
    known = cache.load_json(store)
    key = f"{program} {stat.st_mtime_ns} {stat.st_size}"
    if key not in known:
        known = {key: _ask(command)} | {name: known[name] for name in list(known)[:_KEPT_ANSWERS]}
        cache.save_json(store, known)
    version = known[key]
    if version is None or tuple(version[:2]) < MINIMUM:
        return None
    return Qemu(command, (version[0], version[1], version[2]), origin)


def _ask(command: tuple[str, ...]) -> tuple[int, int, int] | None:
    """Return the version of a QEMU; None if it does not run, or lacks the device vfio-user-pci."""

    def output(*arguments: str) -> str:
        try:
            result = subprocess.run(
                [*command, *arguments], capture_output=True, text=True, check=False, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return result.stdout

    match = re.search(r"version (\d+)\.(\d+)\.(\d+)", output("--version"))
    if match is None or '"vfio-user-pci"' not in output("-device", "help"):
        return None
    return int(match[1]), int(match[2]), int(match[3])


def _fetch(work: Path, progress: Progress | None) -> None:
    """Unpack Debian's packages into ``work``, but only the files that our guests need."""
    bootstrap_files(
        [
            "--variant=extract",
            f'--aptopt=APT::Default-Release "{_SUITE}-backports"',
            '--aptopt=Acquire::Languages "none"',
            "--include=qemu-system-x86,seabios",
        ],
        _SUITE,
        [source_line(_SUITE), source_line(f"{_SUITE}-backports")],
        work,
        _KEPT,
        what="QEMU",
        log=cache.cache_dir() / "build-qemu.log",
        space=_DISK_SPACE,
        progress=progress,
    )
