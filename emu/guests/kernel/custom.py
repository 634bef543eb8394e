"""Boots a user's own kernel and its modules with a suite's file system."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from emu.guests import cache
from emu.guests.errors import LabError
from emu.guests.kernel import binaries, kconfig, module_tree
from emu.guests.kernel.modules import load_order, module_name
from emu.guests.options import GuestOptions

_SPARE = 32 << 20  # bytes of free space on a module disk


@dataclass(frozen=True)
class BootKernel:
    """A kernel to start, the modules of its initramfs, and the disk with the other modules."""

    path: Path
    release: str
    boot_modules: list[tuple[str, bytes]]
    module_disk: Path | None = None


def prepare(options: GuestOptions, bzimage: Path, work: Path) -> BootKernel:
    """Prepare a user's kernel for booting; write the unpacked kernel and a module disk to ``work``.

    Without ``options.modules`` the kernel must have everything built in. Raises :class:`LabError`
    for a file that is no bzImage, for missing modules, and with the names of the missing options if
    the configuration is known.
    """
    modules = options.modules
    release = binaries.release(bzimage)
    vmlinux = binaries.extract_vmlinux(bzimage)
    config = kconfig.known(bzimage, modules, vmlinux)
    if config is not None:
        kconfig.check(config, options, modules)
    path = bzimage
    if vmlinux is not None:
        path = work / "vmlinux"
        path.write_bytes(vmlinux)
    if modules is None:
        return BootKernel(path, release, [])
    tree = find_tree(modules, release, work)
    return BootKernel(path, release, _boot_modules(tree), _module_disk(tree, work))


def find_tree(modules: Path, release: str, work: Path) -> Path:
    """Return the directory with ``modules.dep``: ``modules``, or modules_install's below it.

    A build tree is staged in the cache. A tree without modules.dep is copied to ``work`` and
    indexed there. Raises LabError if none has modules of ``release``.
    """
    if module_tree.is_build_tree(modules):
        return module_tree.staged(modules, release)
    trees = [
        modules / below
        for below in ("", release, f"lib/modules/{release}", f"usr/lib/modules/{release}")
    ]
    for tree in trees:
        if (tree / "modules.dep").is_file():
            return tree
    for tree in trees:
        if (tree / "kernel").is_dir():
            copy = work / "lib" / "modules" / release
            shutil.copytree(tree, copy, symlinks=True)
            module_tree.depmod(work, release)
            return copy
    raise LabError(f"no modules for kernel {release} in {modules}: modules.dep is missing")


def _boot_modules(tree: Path) -> list[tuple[str, bytes]]:
    """Return names and unpacked contents of the modules for the root disk, in loading order."""
    builtin = tree / "modules.builtin"
    order = load_order(
        (tree / "modules.dep").read_text(), builtin.read_text() if builtin.exists() else ""
    )
    return [
        (f"{module_name(name)}.ko", binaries.unpack_module(name, (tree / name).read_bytes()))
        for name in order
    ]


def _module_disk(tree: Path, work: Path) -> Path:
    """Make an ext4 image of the tree in ``work`` and return it; the guest mounts it for modprobe.

    Raises LabError without mke2fs, or when it fails.
    """
    disk = work / "modules.ext4"
    size = cache.disk_usage(tree) * 5 // 4 + _SPARE
    program = shutil.which("mke2fs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise LabError("mke2fs is not installed: install the package e2fsprogs")
    options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0"]
    result = subprocess.run(
        [program, *options, "-d", str(tree), str(disk), f"{size >> 10}k"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise LabError(f"cannot pack the modules in {tree}: {result.stderr.strip()}")
    return disk
