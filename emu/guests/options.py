"""The options of a guest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emu.guests.archive.names import DEFAULT_SUITE, SUITES, check_packages
from emu.guests.errors import LabError

ACCELERATORS = ("auto", "kvm", "tcg")
DEFAULT_DEVICE = "connectx6"
DEFAULT_CPUS = 2
DEFAULT_BOOT_TIMEOUT = 180.0
"""Seconds until a guest accepts commands."""
MOST_ICOUNT = 10
"""QEMU's largest shift (-icount)."""
_MIN_MEMORY_MIB = 512
_MAX_DEVICES = 16
_MAX_CPUS = 64


@dataclass(frozen=True, kw_only=True)
class GuestOptions:
    """Options of one guest; the constructor raises :class:`LabError` for an invalid option.

    ``faults`` is a fault plan for the functions. It begins when its expectation says: with the boot
    (``loading``, and without an expectation), or as soon as the guest accepts commands
    (``loaded``). ``record`` is the file that records which faults fired. If there is a plan, it is
    by default a file in the guest's logs.

    ``packages`` are Debian packages to install in addition to the standard ones.

    ``share`` is a directory to see at /mnt/share, read-only unless ``share_writable``; what the
    guest writes in /mnt/out goes to the directory ``out``. ``network`` adds a virtio network card
    with the host's network behind it.

    ``dump`` is where the memory of a guest that panics goes. With ``gdb`` QEMU takes a debugger.
    ``hold_probe`` loads the mlx5 driver during boot, but leaves the functions to
    :meth:`emu.guests.Guest.probe`.

    ``devices`` are passed to the server unchanged, one emulated function each. ``kernel`` and
    ``modules`` replace the suite's kernel: a bzImage, and its module tree if it has modules.
    With ``stays`` a guest that panics or powers off can still be looked at, and one that
    reboots comes back. ``probe`` loads the mlx5 driver during boot. ``kernel_arguments`` and
    ``qemu_arguments`` are appended. With ``icount`` the guest's clock counts instructions, each
    2^icount ns; that takes emulation and one processor. ``hang_timeout`` is how many seconds
    the guest may take to answer a ping. ``verbose`` copies the console and the server's log to
    our standard error.
    """

    suite: str = DEFAULT_SUITE
    packages: tuple[str, ...] = ()
    kernel: Path | None = None
    modules: Path | None = None
    devices: tuple[str, ...] = (DEFAULT_DEVICE,)
    share: Path | None = None
    share_writable: bool = False
    out: Path | None = None
    network: bool = False
    trace: Path | None = None
    faults: Path | None = None
    record: Path | None = None
    server_options: tuple[str, ...] = ()
    memory_mib: int = 2048
    cpus: int = DEFAULT_CPUS
    hugepages: int = 0
    probe: bool = True
    hold_probe: bool = False
    dump: Path | None = None
    stays: bool = False
    gdb: bool = False
    accelerator: str = "auto"
    icount: int | None = None
    kernel_arguments: tuple[str, ...] = ()
    qemu_arguments: tuple[str, ...] = ()
    boot_timeout: float = DEFAULT_BOOT_TIMEOUT
    hang_timeout: float = 90.0
    verbose: bool = False

    def __post_init__(self) -> None:
        for wrong, message in (
            (
                self.suite not in SUITES,
                f"no guest suite {self.suite!r}: one of {', '.join(SUITES)}",
            ),
            (
                self.accelerator not in ACCELERATORS,
                f"no accelerator {self.accelerator!r}: one of {', '.join(ACCELERATORS)}",
            ),
            (self.modules and not self.kernel, "--modules is for --kernel"),
            (self.kernel and not self.kernel.is_file(), f"no kernel {self.kernel}"),
            (self.modules and not self.modules.is_dir(), f"no directory {self.modules}"),
            (self.share and not self.share.is_dir(), f"no directory {self.share} to share"),
            (self.out and not self.out.is_dir(), f"no directory {self.out} for what comes back"),
            (self.trace and not self.devices, "nothing to trace without a device"),
            (self.faults and not self.devices, "nothing to fail without a device"),
            (len(self.devices) > _MAX_DEVICES, f"at most {_MAX_DEVICES} devices"),
            (self.memory_mib < _MIN_MEMORY_MIB, f"at least {_MIN_MEMORY_MIB} MiB of memory"),
            (not 1 <= self.cpus <= _MAX_CPUS, f"1 to {_MAX_CPUS} processors"),
            (
                self.icount is not None and not 0 <= self.icount <= MOST_ICOUNT,
                f"icount: 0 to {MOST_ICOUNT}",
            ),
            (self.icount is not None and self.cpus != 1, "icount is for one processor"),
            (
                self.icount is not None and self.accelerator == "kvm",
                "icount is for emulation, not for KVM",
            ),
            (
                not 0 <= self.hugepages * 2 <= self.memory_mib // 2,
                "huge pages (2 MiB each) may take half of the memory",
            ),
            (self.boot_timeout <= 0 or self.hang_timeout <= 0, "a timeout is more than 0 s"),
        ):
            if wrong:
                raise LabError(message)
        check_packages(self.packages)
