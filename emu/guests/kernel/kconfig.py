"""A kernel's configuration: the options that the lab needs, and the smallest set that has them.

``options.toml`` beside this file lists the options. A configuration is read from a build tree, from
a package, or from the kernel itself when it was built with CONFIG_IKCONFIG.
"""

from __future__ import annotations

import re
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from emu.guests.architecture import ARCHITECTURES
from emu.guests.errors import LabError
from emu.guests.options import GuestOptions

CONFIGURED = "amd64"
"""Architecture of the kernels whose configurations :func:`smallest` has."""
QEMU, UML = "qemu", "uml"
"""The machines that kernels are for: tables of ``options.toml``."""

_ALWAYS = (
    *("BLK_DEV_INITRD", "BINFMT_ELF", "BINFMT_SCRIPT", "PROC_FS", "SYSFS", "DEVTMPFS", "TMPFS"),
    *("TTY", "UNIX98_PTYS", "PCI", "UNIX", "INET", "VIRTIO_BLK", "VIRTIO_CONSOLE", "EXT4_FS"),
)
_DRIVER = ("PCI_MSI", "MLX5_CORE", "MLX5_INFINIBAND", "INFINIBAND_USER_ACCESS")
SHARE = ("9P_FS", "NET_9P_VIRTIO")
"""Options that a kernel needs for a shared directory."""
_LINE = re.compile(r"CONFIG_(\w+)=(.*)")
_IKCONFIG = b"IKCFG_ST"
_MAX_BYTES = 4 << 20


@cache
def table() -> Mapping[str, Any]:
    """Return the options of ``options.toml``."""
    return tomllib.loads(resources.files("emu.guests.kernel").joinpath("options.toml").read_text())


def features() -> list[str]:
    """Return the features that ``--debug`` can add."""
    return list(table()["debug"])


def smallest(debug: Iterable[str], machine: str = QEMU) -> dict[str, str]:
    """Return values by option of the smallest configuration, with the debugging features ``debug``.

    ``machine`` is :data:`QEMU` or :data:`UML`. Raises :class:`LabError` for an unknown feature.
    """
    options = table()["base"] | table()[machine]
    for name in debug:
        if name not in table()["debug"]:
            raise LabError(f"no debugging feature {name!r}: one of {', '.join(features())}")
        options |= table()["debug_info"] | table()["debug"][name]
        options |= table().get(f"debug_{machine}", {}).get(name, {})
    return {name: str(value) for name, value in options.items()}


def parse(text: str) -> dict[str, str]:
    """Return the options that a ``.config`` sets."""
    return {match[1]: match[2] for line in text.splitlines() if (match := _LINE.fullmatch(line))}


def is_uml(config: Mapping[str, str]) -> bool:
    """Return whether a configuration is one of User-Mode Linux."""
    return config.get("UML") == "y"


def known(kernel: Path, modules: Path | None, vmlinux: bytes | None) -> dict[str, str] | None:
    """Return the configuration of a kernel by option; None when none is found.

    Searched are files beside the kernel and its modules, then CONFIG_IKCONFIG's data in
    ``vmlinux``.
    """
    places = [kernel.parent / "config"]
    if modules is not None:
        places += [modules / ".config", modules / "config", modules / "build" / ".config"]
    for path in places:
        if path.is_file():
            return parse(path.read_text(errors="replace"))
    at = (vmlinux or b"").find(_IKCONFIG)
    if vmlinux is None or at < 0:
        return None
    try:
        packed = vmlinux[at + len(_IKCONFIG) :][:_MAX_BYTES]
        return parse(zlib.decompressobj(31).decompress(packed, _MAX_BYTES).decode(errors="replace"))
    except zlib.error:
        return None


def needed(options: GuestOptions) -> list[str]:
    """Return the options that a guest's kernel must have, without CONFIG_."""
    from emu.server.service.devicespec import parse_all

    arch = ARCHITECTURES[options.arch]
    names = [*_ALWAYS, arch.console_option, f"VIRTIO_{arch.virtio.upper()}"]
    if options.devices and options.probe:
        names += _DRIVER
    if options.out is not None or (options.share is not None and not options.share_optional):
        names += SHARE
    if options.network:
        names.append("VIRTIO_NET")
    if options.hugepages:
        names.append("HUGETLBFS")
    if any(spec.vfs for spec in parse_all(options.devices, fabric=True)):
        # SR-IOV is a capability beyond the first 256 bytes of configuration space.
        names += ["PCI_MMCONFIG", "PCI_IOV"]
    return names


def why_not_shared(config: Mapping[str, str]) -> str:
    """Return why a kernel can mount no shared directory, and the remedies; empty if it can."""
    missing = [f"CONFIG_{name}" for name in SHARE if config.get(name) not in ("y", "m")]
    if not missing:
        return ""
    return (
        f"the kernel lacks {', '.join(missing)} and mounts no directory of the host: leave out"
        " --share and --out (--no-share), or boot a kernel that has these options"
    )


def check(config: Mapping[str, str], options: GuestOptions, modules: Path | None) -> None:
    """Raise :class:`LabError` with the options that the guest needs and the kernel lacks.

    Raise LabError too if a needed option is a module and ``modules`` is None.
    """
    missing = [name for name in needed(options) if config.get(name) not in ("y", "m")]
    if missing and set(missing) <= set(SHARE):
        raise LabError(why_not_shared(config))
    if missing:
        names = ", ".join(f"CONFIG_{name}" for name in missing)
        how = ": mlx5emu kernel config sets what is needed" if options.arch == CONFIGURED else ""
        raise LabError(f"the kernel lacks {names}{how}")
    loose = [name for name in needed(options) if config[name] == "m"]
    if loose and modules is None:
        names = ", ".join(f"CONFIG_{name}" for name in loose)
        raise LabError(f"the kernel has {names} as modules: --modules names their directory")
