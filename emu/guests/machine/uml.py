"""The command line of a guest whose kernel is a process: User-Mode Linux.

The root file system is the suite's, on a block device with a copy-on-write layer for each guest
(ubd). hostfs exposes directories of the host. Commands are sent over a serial line that is a
socket. Sources: arch/um/drivers (ubd_kern.c, ssl.c, fd.c, virtio_uml.c), Linux 6.12.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import LabError
from emu.guests.image import image
from emu.guests.kernel import custom, kconfig
from emu.guests.machine import initramfs
from emu.guests.options import GuestOptions
from emu.server.service.transports import DEVICE_ID

MAX_FUNCTIONS: Final = 8
"""arch/um/drivers/virt-pci.c: MAX_DEVICES."""
_VERSION_TIMEOUT: Final = 20.0
_NEEDED: Final = (
    *("BLK_DEV_INITRD", "BINFMT_ELF", "BINFMT_SCRIPT", "PROC_FS", "SYSFS", "DEVTMPFS", "TMPFS"),
    *("TTY", "UNIX98_PTYS", "SSL", "BLK_DEV_UBD", "EXT4_FS", "HOSTFS", "UNIX", "INET"),
)
_NEEDED_FOR_FUNCTIONS: Final = ("UML_PCI_OVER_VIRTIO", "MLX5_CORE")
_PORT: Final = "/dev/ttyS0"
_ROOT: Final = "/dev/ubda"
_LOG_LEVEL: Final = 7
"""Minimum level at which a crash prints its address (arch/x86/um/sysrq_64.c: show_regs)."""
_MAX_DELAY_US: Final = 60_000_000
"""Microseconds, counted as loops, after which a read of the device fails.

The default of 40,000 is too short on a busy host.
"""


def release(kernel: Path) -> str:
    """Run a User-Mode Linux program with ``--version``; return its release (``uname -r``).

    Raises LabError if it does not run, or reports anything but one word within 20 s.
    """
    try:
        said = subprocess.run(
            [kernel.resolve(), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"cannot run the kernel {kernel}: {error}") from error
    words = said.stdout.split()
    if said.returncode or len(words) != 1:
        raise LabError(f"{kernel} reports no kernel release")
    return words[0]


@dataclass(frozen=True)
class Descriptors:
    """Descriptors for the kernel's process: the port into the guest, and the console's log."""

    port: int
    console: int


def command(
    options: GuestOptions,
    work: Path,
    functions: Sequence[Path],
    descriptors: Descriptors,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> list[str]:
    """Return the kernel's whole command line, not started; build what the cache lacks.

    ``work`` is a directory for this boot's own files. Raises :class:`LabError` for an option that
    User-Mode Linux does not support, and for a kernel that lacks something.
    """
    kernel = options.kernel
    assert kernel is not None
    check(options)
    root = image.ensure(
        options.suite, options.packages, progress, on_wait, python=options.python_packages
    )
    version = release(kernel)
    config = kconfig.known(kernel, options.modules, kernel.read_bytes())
    if config is not None:
        _check_config(config, options)
    initrd = work / "initrd"
    initrd.write_bytes(initramfs.build(root.busybox, [], _config(options, version, work)))
    return [
        str(kernel.resolve()),
        f"mem={options.memory_mib}M",
        f"initrd={initrd}",
        # c: not locked; otherwise QEMU could not open the suite's image while this guest runs.
        f"ubd0c={work / 'root.cow'},{root.root_disk}",
        *("con=null", f"con0=null,fd:{descriptors.console}", f"ssl0=fd:{descriptors.port}"),
        *("panic=-1", "oops=panic", "audit=0", f"loglevel={_LOG_LEVEL}"),
        f"virt_pci.max_delay_us={_MAX_DELAY_US}",
        *(f"virtio_uml.device={path}:{DEVICE_ID}" for path in functions),
        *options.kernel_arguments,
    ]


def check(options: GuestOptions) -> None:
    """Raise :class:`LabError` for options that User-Mode Linux lacks and more than 8 functions."""
    from emu.server.service.devicespec import parse_all

    lacks = {
        "network": options.network,
        "hugepages": options.hugepages > 0,
        "iommu": options.iommu,
        "icount": options.icount is not None,
        "accel kvm": options.accelerator == "kvm",
        "qemu-arg": bool(options.qemu_arguments),
        "dump": options.dump is not None,
        "gdb": options.gdb,
        "transport": options.transport is not None,
    }
    said = [f"--{name}" for name, is_wanted in lacks.items() if is_wanted]
    if said:
        raise LabError(f"{', '.join(said)}: not supported with User-Mode Linux")
    if options.stays:
        raise LabError("a User-Mode Linux guest supports one command, a campaign or a test")
    if any(spec.vfs for spec in parse_all(options.devices, fabric=True)):
        raise LabError("vfs: not supported with User-Mode Linux")
    if len(options.devices) > MAX_FUNCTIONS:
        raise LabError(
            f"{len(options.devices)} functions: User-Mode Linux has at most {MAX_FUNCTIONS}"
        )


def _check_config(config: Mapping[str, str], options: GuestOptions) -> None:
    """Raise LabError with the options that the guest needs and the kernel's configuration lacks."""
    needed = [*_NEEDED, *(_NEEDED_FOR_FUNCTIONS if options.devices else ())]
    missing = [name for name in needed if config.get(name) not in ("y", "m")]
    if options.devices and config.get("UML_PCI_OVER_VIRTIO_DEVICE_ID") != str(DEVICE_ID):
        missing.append(f"UML_PCI_OVER_VIRTIO_DEVICE_ID={DEVICE_ID}")
    if missing:
        names = ", ".join(f"CONFIG_{name}" for name in missing)
        raise LabError(f"the kernel lacks {names}: mlx5emu kernel config --uml sets what is needed")


def _config(options: GuestOptions, version: str, work: Path) -> dict[str, str | int]:
    """Return shell variables for the init script of the initramfs.

    An optional share whose path has a comma is left out. Raises LabError for another shared
    directory with a comma.
    """
    modules = custom.find_tree(options.modules, version, work) if options.modules else ""
    has_share = not (options.share_optional and "," in str(options.share))
    shared = options.share if has_share else None
    shares = {
        "share": (shared, "rw" if options.share_writable else "ro"),
        "out": (options.out, "rw"),
    }
    for place in (modules, shared or "", options.out or ""):
        if "," in str(place):
            raise LabError(
                f"{place}: the path of a directory that User-Mode Linux mounts has a comma"
            )
    return {
        "release": version,
        "probe": "held" if options.hold_probe else int(options.probe),
        "dump": 0,
        "shares": " ".join(f"{tag}={mode}" for tag, (path, mode) in shares.items() if path),
        **{f"host_{tag}": str(path.resolve()) for tag, (path, _) in shares.items() if path},
        "network": 0,
        "hugepages": 0,
        "hostname": options.hostname,
        "shell": 0,
        "root": _ROOT,
        "host_modules": str(modules),
        "port": _PORT,
    }
