"""Module trees for modprobe, made from the output of a kernel's build or from packages.

Formats: modules.order and modules.builtin of the kernel's build (Documentation/kbuild), depmod(8).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import NATIVE
from emu.guests.errors import LabError
from emu.guests.share import ELF_HEAD_BYTES, other_processor

_TABLES = ("modules.order", "modules.builtin", "modules.builtin.modinfo")
_PATH = "/usr/sbin:/sbin"


def is_build_tree(tree: Path) -> bool:
    """Return whether modules were built here, and not installed."""
    return (tree / "modules.order").is_file() and (tree / ".config").is_file()


def staged(tree: Path, release: str) -> Path:
    """Update the module tree of a build tree, in the cache and without debug data; return it.

    Modules that the build no longer has are deleted there; unchanged ones are not copied again.
    Raises :class:`LabError` when strip or depmod fails.
    """
    name = hashlib.sha256(os.fsencode(tree.resolve())).hexdigest()[:16]
    root = cache.subdir("kernels") / f"tree-{name}"
    with cache.lock(f"kernel-tree-{name}"):
        target = root / "lib" / "modules" / release
        target.mkdir(parents=True, exist_ok=True)
        built = _built(tree)
        for path in target.rglob("*.ko"):
            if path.relative_to(target / "kernel") not in built:
                path.unlink()
        for path in built:
            _strip(tree / path, target / "kernel" / path)
        for table in _TABLES:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(tree / table, target / table)
        depmod(root, release)
    return target


def _built(tree: Path) -> set[Path]:
    """Return the existing modules that the build made (modules.order), relative to ``tree``."""
    modules = set()
    for line in (tree / "modules.order").read_text(errors="replace").splitlines():
        # Up to 6.1 the path begins with "kernel/"; from 6.4 on it names the object.
        for word in (line, line.removeprefix("kernel/")):
            path = Path(word).with_suffix(".ko")
            if not path.is_absolute() and ".." not in path.parts and (tree / path).is_file():
                modules.add(path)
    return modules


def _strip(source: Path, target: Path) -> None:
    """Copy a module without its debug data, unless the copy is newer; unstripped without strip(1).

    GNU's strip knows only the host's processor; modules of others need llvm-strip. Raises LabError
    when strip fails.
    """
    if target.exists() and target.stat().st_mtime_ns > source.stat().st_mtime_ns:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file:
        is_native = not other_processor(file.read(ELF_HEAD_BYTES), NATIVE.debian)
    program = shutil.which("strip" if is_native else "llvm-strip")
    if program is None:
        shutil.copy(source, target)
        return
    command = [program, "--strip-debug", "-o", str(target), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        target.unlink(missing_ok=True)
        raise LabError(f"cannot strip the module {source}: {result.stderr.strip()}")


def depmod(root: Path, release: str) -> None:
    """Make modules.dep and its companions in ``root``/lib/modules.

    Raises :class:`LabError` without depmod(8), or when it fails.
    """
    program = shutil.which("depmod", path=f"{os.environ.get('PATH', '')}:{_PATH}")
    if program is None:
        raise LabError("depmod is not installed: install the package kmod")
    command = [program, "--basedir", str(root), release]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not (root / "lib/modules" / release / "modules.dep").exists():
        raise LabError(f"depmod failed for {release}: {result.stderr.strip()}")
