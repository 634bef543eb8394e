"""Kernel modules of a guest's initramfs, and their loading order.

Formats: modules.dep(5), and modules.builtin beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from emu.guests.errors import LabError

ROOT_DISK = ("virtio_pci", "virtio_blk", "ext4", "virtio_console")
CHECKSUMS = ("crc32c_generic", "crc32c_cryptoapi")
"""Up to 6.13 ext4 requests ``crc32c`` by its alias, which is not in modules.dep."""

_OPTIONS = {"ext4": "EXT4_FS"}
_SUFFIX = re.compile(r"\.ko(\.(xz|gz|zst))?$")


def module_name(path: str) -> str:
    """Return a module's name: ``kernel/fs/nls/nls-base.ko.xz`` -> ``nls_base``."""
    return _SUFFIX.sub("", path.rsplit("/", 1)[-1]).replace("-", "_")


def load_order(modules_dep: str, builtin: str, needed: Iterable[str] = ROOT_DISK) -> list[str]:
    """Return paths relative to the module tree in loading order: dependencies first.

    ``modules_dep`` and ``builtin`` are the files' texts. Built-in modules are left out. Raises
    :class:`LabError` for a needed module that is neither a file nor built in.
    """
    needs: dict[str, list[str]] = {}
    for line in modules_dep.splitlines():
        path, colon, rest = line.partition(":")
        if colon:
            needs[path.strip()] = rest.split()
    paths = {module_name(path): path for path in needs}
    built_in = {module_name(path) for path in builtin.split()}
    order: list[str] = []

    def add(path: str, chain: tuple[str, ...] = ()) -> None:
        if path in order or path in chain:
            return
        for need in needs.get(path, []):
            add(need, (*chain, path))
        order.append(path)

    for name in (*CHECKSUMS, *needed):
        if name in paths:
            add(paths[name])
        elif name not in built_in and name not in CHECKSUMS:
            raise LabError(
                f"the kernel has no {name}, neither as a module nor built in:"
                f" CONFIG_{_OPTIONS.get(name, name.upper())} builds it"
            )
    return order
