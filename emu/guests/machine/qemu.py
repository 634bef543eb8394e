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
from emu.guests.architecture import ARCHITECTURES, NATIVE, Architecture, is_native
from emu.guests.archive.bootstrap import Progress, bootstrap_files
from emu.guests.archive.disk_space import DiskSpace
from emu.guests.archive.mirror import source_line
from emu.guests.errors import LabError

MINIMUM = (10, 1)  # the first with a vfio-user client
_SUITE = "trixie"
_UNPACKED = "trixie-backports-1"  # increase the number when _wanted() changes
_KEPT_ANSWERS = 7  # number of cached answers about other QEMUs
_PROGRAM = re.compile(r"qemu-system-\w+")
_WITH = {"qemu-system-x86": ("seabios",), "qemu-system-riscv": ("opensbi",)}
"""Packages of firmware that a QEMU package only recommends."""
_DISK_SPACE = DiskSpace(cached=210_000_000, tree=365_000_000)
_FIRMWARE = ("qemu", "seabios")
"""Directories of /usr/share in which QEMU finds firmware."""
_LOADERS = {
    "amd64": ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu"),
    "arm64": ("lib/ld-linux-aarch64.so.1", "lib/aarch64-linux-gnu"),
}
"""Dynamic loader and libraries below /usr, by the host's architecture."""


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


def find(arch: Architecture = NATIVE) -> Qemu | None:
    """Return ``MLX5EMU_QEMU``, the system's or the cached QEMU; None if none is suitable.

    ``MLX5EMU_QEMU`` is for guests of the host's architecture. Only 10.1 or newer with vfio-user-pci
    is suitable. Raises :class:`LabError` when
    ``MLX5EMU_QEMU`` names one that is not. Downloads are left to :func:`ensure`.
    """
    named = os.environ.get("MLX5EMU_QEMU")
    if named and is_native(arch):
        qemu = _examine(Path(named), "MLX5EMU_QEMU")
        if qemu is None:
            raise LabError(f"MLX5EMU_QEMU={named} is not QEMU {_minimum()} with vfio-user-pci")
        return qemu
    system = shutil.which(_program(arch))
    return (_examine(Path(system), "system") if system else None) or _cached(arch)


def ensure(
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    arch: Architecture = NATIVE,
) -> Qemu:
    """Return a suitable QEMU; fetch Debian's package into the cache if there is none.

    ``on_wait`` is called if another process fetches it. Raises LabError when the download fails, or
    when the fetched QEMU does not run here.
    """
    qemu = find(arch)
    if qemu is None:
        with cache.lock("qemu", on_wait):
            if _cached(arch) is None:
                with cache.building(_directory(arch)) as work:
                    _fetch(arch, work, progress)
        qemu = _cached(arch)
    if qemu is None:
        raise LabError(f"the QEMU in {_directory(arch)} does not run here: remove that directory")
    return qemu


def program_path(qemu: Qemu) -> Path:
    """Return one file that starts this QEMU: its program, or a script written to the cache.

    The cached QEMU needs its own dynamic loader, libraries and firmware, which the script names.
    """
    if len(qemu.command) == 1:
        return Path(qemu.command[0])
    names = (Path(word).name for word in qemu.command)
    name = next(filter(_PROGRAM.fullmatch, names), _program(NATIVE))
    path = cache.subdir("qemu") / name
    script = f'#!/bin/sh\nexec {shlex.join(qemu.command)} "$@"\n'
    if not path.exists() or path.read_text() != script:
        cache.save_text(path, script, 0o755)
    return path


def _minimum() -> str:
    return ".".join(map(str, MINIMUM)) + " or newer"


def _program(arch: Architecture) -> str:
    return f"qemu-system-{arch.emulator}"


def _directory(arch: Architecture) -> Path:
    package = "" if arch.package == "qemu-system-x86" else f"-{arch.package}"
    return cache.subdir("qemu") / f"{_UNPACKED}{package}"


def _cached(arch: Architecture) -> Qemu | None:
    """Return the QEMU in the cache; None if it is absent or not suitable."""
    usr = _directory(arch) / "usr"
    loader, libraries = (usr / path for path in _LOADERS[NATIVE.name])
    if not loader.exists():
        return None
    firmware = [usr / "share" / name for name in _FIRMWARE]
    return _examine(
        usr / "bin" / _program(arch),
        "cache",
        before=(str(loader), "--library-path", str(libraries)),
        after=tuple(word for path in firmware if path.is_dir() for word in ("-L", str(path))),
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


def _fetch(arch: Architecture, work: Path, progress: Progress | None) -> None:
    """Unpack Debian's packages into ``work``, but only the files that guests of ``arch`` need.

    A package's programs for other architectures are kept, because they have the same directory.
    """
    loader, libraries = map(re.escape, _LOADERS[NATIVE.name])
    of_package = (one for one in ARCHITECTURES.values() if one.package == arch.package)
    programs = "|".join(dict.fromkeys(map(_program, of_package)))
    kept = re.compile(
        rf"\./usr/(bin/({programs})|{loader}|{libraries}/[^/]*\.so[^/]*"
        rf"|lib/[^/]*/opensbi/.*|share/({'|'.join(_FIRMWARE)})/[^/]*)"
    )
    bootstrap_files(
        [
            "--variant=extract",
            f'--aptopt=APT::Default-Release "{_SUITE}-backports"',
            '--aptopt=Acquire::Languages "none"',
            f"--include={','.join((arch.package, *_WITH.get(arch.package, ())))}",
        ],
        _SUITE,
        [source_line(_SUITE), source_line(f"{_SUITE}-backports")],
        work,
        kept,
        what=f"QEMU for {arch.debian}" if arch is not NATIVE else "QEMU",
        log=cache.cache_dir() / "build-qemu.log",
        space=_DISK_SPACE,
        progress=progress,
    )
