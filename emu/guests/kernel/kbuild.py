"""Configures and builds a kernel for the lab, with the kernel's own build system."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from emu.guests.architecture import NATIVE
from emu.guests.archive.disk_space import free_bytes
from emu.guests.errors import LabError
from emu.guests.kernel import kconfig
from emu.host.counted import decimal

_TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
}
"""Programs that a build runs, with their Debian packages."""
_HEADERS = {"gelf.h": "libelf-dev"}
_UML = ("ARCH=um",)
_FULL = 16 << 20
"""Free bytes below which a disk is full, before and after a build: one object may need that."""
_FIRST_BUILD = 150_000_000
_WITH_DEBUG_INFO = 1_000_000_000
"""Bytes that any first build needs at least: an estimate, half of it for the linked kernel."""
_INCLUDE = (Path("/usr/include"), Path("/usr/local/include"))


def check_tools() -> None:
    """Raise :class:`LabError`, with the apt-get command, for missing build programs and headers."""
    packages = [package for name, package in _TOOLS.items() if shutil.which(name) is None]
    packages += [
        package
        for name, package in _HEADERS.items()
        if not any((where / name).exists() for where in _INCLUDE)
    ]
    if packages:
        raise LabError(f"a kernel's build needs more: apt-get install {' '.join(packages)}")


def check_tree(tree: Path) -> None:
    """Raise :class:`LabError` unless ``tree`` is a kernel's source or build tree."""
    if not (tree / "Makefile").is_file():
        raise LabError(f"{tree} is not a kernel's source or build tree: it has no Makefile")


def configure(
    tree: Path, debug: Iterable[str], output: Path | None, machine: str = kconfig.QEMU
) -> list[str]:
    """Write the smallest configuration; return the options that this kernel did not accept.

    ``output`` is the build directory, by default ``tree``; it is created. An old .config is
    replaced. Raises :class:`LabError` on a host other than amd64, for a tree without Makefile,
    missing tools, an unknown feature or a failed make.
    """
    if NATIVE.name != kconfig.CONFIGURED:
        raise LabError(
            f"configurations are for {kconfig.CONFIGURED}, and this host is {NATIVE.name}:"
            f" make defconfig in {tree}, then mlx5emu kernel build"
        )
    check_tree(tree)
    requested = kconfig.smallest(debug, machine)
    check_tools()
    where = output or tree
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".config") as fragment:
        fragment.writelines(f"CONFIG_{name}={value}\n" for name, value in requested.items())
        fragment.flush()
        arch = _UML if machine == kconfig.UML else ()
        _make(tree, output, "-s", *arch, "allnoconfig", f"KCONFIG_ALLCONFIG={fragment.name}")
    got = kconfig.parse((where / ".config").read_text())
    return [name for name, value in requested.items() if got.get(name, "n") != value]


def build(tree: Path, output: Path | None, jobs: int, words: Sequence[str] = ()) -> Path:
    """Build image and modules for this host, with ccache if installed; return the build tree.

    User-Mode Linux is built if the configuration is for it. The build's output is written to ours.
    Raises :class:`LabError` without a configuration, tools or space for a first build, and when
    make fails.
    """
    check_tree(tree)
    check_tools()
    where = output or tree
    if not (where / ".config").is_file():
        raise LabError(f"{where} has no configuration: mlx5emu kernel config writes one")
    config = kconfig.parse((where / ".config").read_text(errors="replace"))
    if not (where / "vmlinux").exists():
        _check_space(where, _WITH_DEBUG_INFO if config.get("DEBUG_INFO") == "y" else _FIRST_BUILD)
    compiler = ["CC=ccache gcc"] if shutil.which("ccache") else []
    uml = kconfig.is_uml(config)
    targets = (*_UML, "linux") if uml else (Path(NATIVE.boot_file).name,)
    _make(tree, output, f"-j{jobs}", *compiler, *words, *targets, "modules")
    return where


def _check_space(place: Path, needed: int) -> None:
    """Raise :class:`LabError` when fewer than ``needed`` bytes are free in ``place``."""
    if (free := free_bytes(place)) < needed:
        raise LabError(
            f"a first build needs at least {decimal(needed)} in {place}, where {decimal(free)} are"
            " free: free some, or name another directory by --output"
        )


def _make(tree: Path, output: Path | None, *words: str) -> None:
    """Run make in ``tree`` with our output; LabError when it fails, with a hint on a full disk.

    A disk that is full before the build is refused. ``output`` is the separate build directory, if
    any. The variable ARCH is not passed on.
    """
    place = output or tree
    full = f"the disk of {place} is full, --output names another directory"
    if free_bytes(place) < _FULL:
        raise LabError(full)
    where = [f"O={output.resolve()}"] if output is not None else []
    command = ["make", "-C", str(tree), *where, *words]
    # The kernel's build would read these variables as its own options.
    environ = {name: value for name, value in os.environ.items() if name != "ARCH"}
    result = subprocess.run(command, stdin=subprocess.DEVNULL, env=environ, check=False)
    if result.returncode != 0:
        why = f"make {words[-1]} failed in {tree} with status {result.returncode}"
        if free_bytes(place) < _FULL:
            why += f": {full}"
        raise LabError(why)
