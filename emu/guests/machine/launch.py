"""Converts a user's options to a machine that can be started."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emu.guests.architecture import ARCHITECTURES, is_native
from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import LabError
from emu.guests.image import image
from emu.guests.kernel import custom
from emu.guests.kernel.custom import BootKernel
from emu.guests.machine import accel, initramfs, qemu
from emu.guests.machine.command_line import Machine, SharedDirectory
from emu.guests.options import GuestOptions

LOG_LEVEL = 5  # the console shows warnings and worse; dmesg has everything
VERBOSE_LOG_LEVEL = 7
_TRIED = "user.mlx5emu"


@dataclass(frozen=True)
class Terminal:
    """The terminal of an interactive guest: the value of TERM, and its size."""

    kind: str
    rows: int
    columns: int


def machine_for(
    options: GuestOptions,
    work: Path,
    *,
    functions: tuple[Path, ...] = (),
    control: Path | None = None,
    port: Path | None = None,
    events: Path | None = None,
    gdb: Path | None = None,
    console_log: Path | None = None,
    terminal: Terminal | None = None,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
    is_parked: bool = False,
) -> Machine:
    """Return the machine for ``options``, not started; build and fetch what the cache lacks.

    ``work`` is a directory for this boot's own files. With ``terminal`` the guest runs a shell on
    its console; otherwise it serves commands on ``port``. A guest with ``is_parked`` can be saved
    instead. Raises LabError.
    """
    arch = ARCHITECTURES[options.arch]
    program = qemu.ensure(progress, on_wait, arch)
    root = image.ensure(
        options.suite, options.packages, progress, on_wait, arch, options.python_packages
    )
    is_emulated = options.icount is not None or not is_native(arch)
    accelerator = accel.choose("tcg" if is_emulated else options.accelerator, program, root)
    if options.kernel is None:
        kernel = BootKernel(root.kernel, root.release, root.boot_modules())
    else:
        kernel = custom.prepare(options, options.kernel, work)
    initrd = work / "initrd"
    config = _config(options, kernel.release, terminal, is_parked)
    initrd.write_bytes(initramfs.build(root.busybox, kernel.boot_modules, config))
    # The console of a KVM that may boot nothing tells by its first line that the kernel runs.
    is_verbose = options.verbose or accel.is_doubted(accelerator, program)
    level = VERBOSE_LOG_LEVEL if is_verbose else LOG_LEVEL
    # Symbols have the addresses of vmlinux.
    fixed = ("nokaslr",) if gdb is not None else ()
    return Machine(
        qemu=program,
        arch=arch,
        accelerator=accelerator,
        kernel=kernel.path,
        initrd=initrd,
        kernel_arguments=(f"loglevel={level}", *fixed, *options.kernel_arguments),
        disks=tuple(filter(None, (root.root_disk, kernel.module_disk))),
        functions=functions,
        vfs=_vf_sockets(options, functions),
        shares=_shares(options),
        network=options.network,
        iommu=options.iommu,
        memory_mib=options.memory_mib,
        cpus=options.cpus,
        icount=options.icount,
        console_log=console_log,
        control=control,
        port=port,
        events=events,
        gdb=gdb,
        extra=options.qemu_arguments,
        settings=initramfs.settings(config),
    )


def _vf_sockets(options: GuestOptions, functions: Sequence[Path]) -> tuple[tuple[Path, ...], ...]:
    """Return the sockets of each function's virtual functions."""
    from emu.server.service.devicespec import parse_all
    from emu.server.service.endpoints import vf_socket

    specs = parse_all(options.devices, fabric=True) if functions else []
    return tuple(
        tuple(vf_socket(socket, number) for number in range(len(spec.vfs)))
        for socket, spec in zip(functions, specs, strict=True)
    )


def provide(
    wanted: Iterable[tuple[str, tuple[str, ...], tuple[str, ...], str]],
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> None:
    """Fetch QEMU and build the image for each suite, packages and architecture, if absent.

    Debian's packages stand before Python's. Raises LabError.
    """
    for suite, packages, python, name in dict.fromkeys(wanted):
        arch = ARCHITECTURES[name]
        qemu.ensure(progress, on_wait, arch)
        image.ensure(suite, packages, progress, on_wait, arch, python)


def bare_machine(options: GuestOptions, work: Path) -> Machine:
    """Return the machine that all guests with these options share, without per-guest devices.

    Its boot can be saved and resumed with devices. Files are written to ``work``. Raises LabError.
    """
    bare = replace(
        options,
        devices=(),
        share=None,
        out=None,
        network=False,
        trace=None,
        faults=None,
        faults_when=None,
        record=None,
        dump=None,
        hugepages=0,
        # A loaded driver binds a function that appears, whatever drivers_autoprobe says.
        probe=options.probe and not options.hold_probe,
        hold_probe=False,
        stays=False,
        hostname=GuestOptions.hostname,
    )
    return machine_for(bare, work, is_parked=True)


def _shares(options: GuestOptions) -> tuple[SharedDirectory, ...]:
    """Return the shared directories ``share`` and ``out`` of the options, if set.

    Raises LabError.
    """
    shares = []
    if options.share is not None:
        writable = options.share_writable
        shares.append(
            SharedDirectory(
                "share",
                options.share,
                writable,
                optional=options.share_optional,
                mapped=writable and _mapped(options.share),
            )
        )
    if options.out is not None:
        shares.append(
            SharedDirectory("out", options.out, writable=True, mapped=_mapped(options.out))
        )
    return tuple(shares)


def _mapped(directory: Path) -> bool:
    """Return whether the guest's files there need mapped attributes, because we are root.

    Raises :class:`LabError` where the file system has no extended attributes for that.
    """
    if os.geteuid() != 0:
        return False
    try:
        os.setxattr(directory, _TRIED, b"")
        os.removexattr(directory, _TRIED)
    except OSError as error:
        raise LabError(
            f"{directory}: its file system has no extended attributes ({error.strerror}), which a"
            " directory that a guest writes to needs when mlx5emu runs as root"
        ) from None
    return True


def _config(
    options: GuestOptions, release: str, terminal: Terminal | None, is_parked: bool = False
) -> dict[str, str | int]:
    """Return shell variables for the init script of the initramfs."""
    config: dict[str, str | int] = {
        "release": release,
        "probe": "held" if options.hold_probe else int(options.probe),
        "dump": int(options.dump is not None or options.stays),
        "shares": " ".join(f"{share.tag}={share.mode}" for share in _shares(options)),
        "network": int(options.network),
        "hugepages": options.hugepages,
        "hostname": options.hostname,
        "shell": int(terminal is not None),
        "parked": int(is_parked),
    }
    if terminal is not None:
        config |= {"term": terminal.kind, "rows": terminal.rows, "columns": terminal.columns}
    return config
