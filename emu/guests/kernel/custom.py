"""Boots a user's own kernel and its modules with a suite's file system."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import ARCHITECTURES
from emu.guests.errors import LabError
from emu.guests.kernel import binaries, kconfig, module_tree
from emu.guests.kernel.modules import ROOT_DISK, load_order, module_name
from emu.guests.options import GuestOptions
from emu.guests.share import other_processor

_SPARE = 32 << 20  # bytes of free space on a module disk


@dataclass(frozen=True)
class BootKernel:
    """A kernel to start, the modules of its initramfs, and the disk with the other modules."""

    path: Path
    release: str
    boot_modules: list[tuple[str, bytes]]
    module_disk: Path | None = None


def prepare(options: GuestOptions, kernel: Path, work: Path) -> BootKernel:
    """Prepare a user's kernel for booting; write the unpacked kernel and a module disk to ``work``.

    Without ``options.modules`` the kernel must have everything built in. Raises :class:`LabError`
    for a file that is no kernel, for missing modules, and with the names of the missing options if
    the configuration is known. Only a bzImage of amd64 names its release, so kernels of other
    architectures need modules.
    """
    modules = options.modules
    if ARCHITECTURES[options.arch].name == "amd64":
        release = binaries.release(kernel)
        vmlinux = binaries.extract_vmlinux(kernel)
    else:
        release, vmlinux = _release_of_modules(options.arch, modules), None
    config = kconfig.known(kernel, modules, vmlinux)
    if config is not None:
        kconfig.check(config, options, modules)
    path = kernel
    if vmlinux is not None:
        path = work / "vmlinux"
        path.write_bytes(vmlinux)
    if modules is None:
        return BootKernel(path, release, [])
    tree = find_tree(modules, release, work)
    return BootKernel(path, release, _boot_modules(tree, options.arch), _module_disk(tree, work))


def _release_of_modules(arch: str, modules: Path | None) -> str:
    """Return the release of the kernel whose modules are in a build tree or a module tree.

    Raises LabError without ``modules``, and if they name no release or several.
    """
    if modules is None:
        raise LabError(f"a kernel file of {arch} needs --modules, which name its release")
    built = modules / "include" / "config" / "kernel.release"
    if built.is_file():
        return built.read_text(errors="replace").strip()
    if (modules / "modules.dep").is_file():
        return modules.name
    names = {path.name for root in ("", "usr") for path in (modules / root).glob("lib/modules/*")}
    if len(names) != 1:
        raise LabError(f"{modules} has modules of {len(names)} kernels, not of one")
    return names.pop()


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


def _boot_modules(tree: Path, arch: str) -> list[tuple[str, bytes]]:
    """Return names and unpacked contents of the modules for the root disk, in loading order.

    Raises LabError for a module that cannot be unpacked, or is for another processor.
    """
    builtin = tree / "modules.builtin"
    bus = f"virtio_{ARCHITECTURES[arch].virtio}"
    order = load_order(
        (tree / "modules.dep").read_text(),
        builtin.read_text() if builtin.exists() else "",
        [bus if name == "virtio_pci" else name for name in ROOT_DISK],
    )
    unpacked = [(name, binaries.unpack_module(name, (tree / name).read_bytes())) for name in order]
    for name, module in unpacked:
        if what := other_processor(module, ARCHITECTURES[arch].debian):
            raise LabError(f"{tree / name} is a module of {what}, and the guest is {arch}")
    return [(f"{module_name(name)}.ko", module) for name, module in unpacked]


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
