"""Options of a guest's kernel: its file and modules, its command line, the mlx5 driver, a dump."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from emu.guests.options.declare import option
from emu.guests.options.kinds import Directory, File, Flag, Kernel, Words
from emu.guests.options.uses import BOUND, ONE_FILE, TERMINAL, Use


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Options in the group Kernel.

    ``kernel`` and ``modules`` replace the suite's kernel: a bzImage, and its module tree if it has
    modules. ``probe`` loads the mlx5 driver during boot. ``kernel_arguments`` are appended.
    ``dump`` is the file for the memory of a guest that panics.
    """

    GROUP: ClassVar = "Kernel"

    kernel: Path | None = option(
        None,
        flag="kernel",
        kind=Kernel(metavar="WHAT"),
        help="Instead of the suite's: a kernel, a build tree (of User-Mode Linux, too), Debian "
        "packages (repeat it), or debian:rt, debian:cloud, debian:VERSION from the archive.",
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
        wrong=lambda o: f"no kernel {o.kernel}" if o.kernel and not o.kernel.is_file() else "",
    )
    modules: Path | None = option(
        None,
        flag="modules",
        kind=Directory(metavar="DIRECTORY"),
        help="Modules of a kernel file: a build tree, or lib/modules/RELEASE.",
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
        wrong=lambda o: "modules need a kernel" if o.modules and not o.kernel else "",
    )
    probe: bool = option(
        True,
        flag="probe",
        kind=Flag(),
        help="Load the mlx5 driver while booting.",
        refused={Use.FUZZ_RUN: BOUND, Use.FUZZ_REPLAY: BOUND},
        tables={Use.CAMPAIGN: "workload"},
        is_recorded=True,
    )
    kernel_arguments: tuple[str, ...] = option(
        (),
        flag="kernel-arg",
        kind=Words(metavar="ARG"),
        help="Add to the kernel's command line; may be repeated.",
        is_recorded=True,
    )
    dump: Path | None = option(
        None,
        flag="dump",
        kind=File(is_new=True, is_regular=True),
        help="File for the guest's memory if it panics, for crash and drgn.",
        refused={**ONE_FILE, Use.BOOT: TERMINAL},
    )
