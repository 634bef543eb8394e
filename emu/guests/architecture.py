"""The architectures of guests: QEMU's machine, processor and console, and the kernel's package.

Guests of the host's architecture run by KVM or emulated, all others emulated. No program of another
architecture runs on the host, so its images are unpacked and not configured
(``image/finalize_foreign.sh``).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One value of ``--arch``."""

    name: str
    debian: str
    """Debian's name of the processor's architecture, as dpkg's."""
    kernel: str
    """Debian's package of the newest kernel."""
    flavours: tuple[str, ...] = ()
    """Debian's other kernels: ``rt`` is in linux-image-rt-..."""
    boot_file: str
    """Kernel in a build tree, which QEMU starts."""
    emulator: str
    """Suffix of QEMU's program: qemu-system-..."""
    package: str
    """Debian's package of that program."""
    machine: str
    """QEMU's ``-machine``."""
    cpu: str = "max"
    """QEMU's ``-cpu`` without KVM."""
    console: str = "ttyS0"
    """The kernel's console."""
    serial: tuple[str, ...] = ("-serial", "chardev:console")
    """QEMU's arguments that connect the console."""
    kernel_arguments: tuple[str, ...] = ()
    """Arguments of every kernel of this architecture."""
    console_option: str = "SERIAL_8250_CONSOLE"
    """The kernel's option for that console, without CONFIG_."""
    notes: tuple[str, ...] = ()
    """QEMU's devices by which the kernel and QEMU inform each other."""
    host_bridge: tuple[str, ...] = ()
    """QEMU's arguments that configure the PCI host bridge."""
    virtio: str = "pci"
    """Bus of virtio devices: pci, or ccw for channel I/O."""
    has_root_ports: bool = True
    """Whether each function is behind a PCI Express root port."""
    min_functions: int = 1
    """Smallest number of vfio-user functions with which QEMU starts, besides none."""
    max_cpus: int | None = None
    """Largest number of processors of QEMU's machine; None above that of any guest."""
    max_memory_mib: int | None = None
    """Largest memory that QEMU's machine addresses, in MiB; None above any host's."""
    has_verbs: bool = True
    """Whether Debian's libibverbs has a driver of mlx5 (libmlx5)."""

    @property
    def kernel_suffix(self) -> str:
        """End of the names of Debian's kernel packages: ``-arm64-16k``, ``-powerpc64le``."""
        return self.kernel.removeprefix("linux-image")


_AMD64: Final = Architecture(
    name="amd64", debian="amd64", kernel="linux-image-amd64",
    flavours=("rt", "cloud"), boot_file="arch/x86/boot/bzImage",
    emulator="x86_64", package="qemu-system-x86", machine="q35",
    # No panic when the timer of an emulated processor is late ("IO-APIC + timer doesn't work!").
    kernel_arguments=("no_timer_check",),
    # The kernel writes VMCOREINFO for a debugger of its memory; a kernel that is resumed from a
    # saved boot reseeds its random numbers.
    notes=("-device", "vmcoreinfo", "-device", "vmgenid,guid=auto"),
)  # fmt: skip
_ARM64: Final = Architecture(
    name="arm64", debian="arm64", kernel="linux-image-arm64",
    flavours=("rt", "cloud"), boot_file="arch/arm64/boot/Image",
    emulator="aarch64", package="qemu-system-arm",
    console="ttyAMA0", console_option="SERIAL_AMBA_PL011_CONSOLE",
    machine="virt,gic-version=3,its=on",  # the ITS delivers MSIs of PCI functions
    cpu="neoverse-n1",  # "max" has pointer authentication, which is slow to emulate
)  # fmt: skip
_ARM64_16K: Final = replace(
    _ARM64, name="arm64-16k", kernel="linux-image-arm64-16k", flavours=(),
    kernel_arguments=("default_hugepagesz=2M",),  # of 2 MiB, 32 MiB and 1 GiB
)  # fmt: skip
_ARMHF: Final = replace(
    _ARM64, name="armhf", debian="armhf", kernel="linux-image-armmp-lpae", flavours=(),
    boot_file="arch/arm/boot/zImage", emulator="arm", cpu="cortex-a15",
    machine="virt,highmem=off,gic-version=2",  # all below 4 GiB; MSIs by GICv2m
    # hw/arm/virt.c: GIC_NCPU of a GICv2; memory begins at 1 GiB.
    max_cpus=8, max_memory_mib=3072, has_verbs=False,
)  # fmt: skip
_PPC64EL: Final = Architecture(
    name="ppc64el", debian="ppc64el", kernel="linux-image-powerpc64le",
    boot_file="vmlinux", emulator="ppc64", package="qemu-system-ppc", machine="pseries",
    console="hvc0", console_option="HVC_CONSOLE",
    serial=("-device", "spapr-vty,chardev=console"), has_root_ports=False,
    min_functions=2,  # QEMU 11.1 aborts with one (hw/ppc/spapr_pci_vfio.c: vfio_eeh_as_container)
    # A boot clears the 32-bit DMA window: a DMA_UNMAP for each of its pages and each function, so
    # 128 MiB instead of 1 GiB. Memory of the driver is in another window, of 64 bits.
    host_bridge=("-global", "spapr-pci-host-bridge.dma_win_size=0x8000000"),
)  # fmt: skip
_RISCV64: Final = Architecture(
    name="riscv64", debian="riscv64", kernel="linux-image-riscv64",
    boot_file="arch/riscv/boot/Image",
    emulator="riscv64", package="qemu-system-riscv", machine="virt,aia=aplic-imsic",
)  # fmt: skip
_S390X: Final = Architecture(
    name="s390x", debian="s390x", kernel="linux-image-s390x",
    boot_file="arch/s390/boot/bzImage", emulator="s390x", package="qemu-system-s390x",
    console="ttysclp0", console_option="SCLP_CONSOLE",
    machine="s390-ccw-virtio", serial=("-device", "sclpconsole,chardev=console"),
    virtio="ccw", has_root_ports=False,
)  # fmt: skip

_ALL: Final = (
    _AMD64,
    _ARM64,
    _ARM64_16K,
    _ARMHF,
    _PPC64EL,
    replace(_PPC64EL, name="ppc64el-64k", kernel="linux-image-powerpc64le-64k"),
    _RISCV64,
    _S390X,
)
ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType({one.name: one for one in _ALL})

HOSTS: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architectures of hosts, by the processor's name of uname(2)."""
NATIVE: Final = ARCHITECTURES[HOSTS.get(platform.machine(), "amd64")]
"""The architecture of guests without ``--arch``: that of the host."""


WITH_VFS: Final = _AMD64.name
"""Architecture of guests with virtual functions: the server knows the machine's addresses."""

_ONLY_AMD64: Final = {
    "iommu": "emulated IOMMU",
    "dump": "dump of their memory",
    "gdb": "debugger",
}
"""Options of amd64 guests only, with their names in a refusal."""


def is_native(arch: Architecture) -> bool:
    """Return whether the host's processor runs the programs of ``arch``."""
    return arch.debian == NATIVE.debian


def why_only_amd64(arch: Architecture, name: str) -> str:
    """Return why guests of ``arch`` cannot have the option of field ``name``; "" if they can."""
    what = _ONLY_AMD64.get(name) if arch is not _AMD64 else None
    return f"{arch.name} guests have no {what}" if what else ""


def why_not(arch: Architecture, options: Mapping[str, Any]) -> str:
    """Return why guests of ``arch`` cannot have these options (fields by name); "" if they can."""
    if options["accelerator"] == "kvm" and not is_native(arch):
        return f"KVM runs guests of {NATIVE.debian} only on this host"
    for name in _ONLY_AMD64:
        if options[name] and (why := why_only_amd64(arch, name)):
            return why
    count = len(options["devices"])
    if 0 < count < arch.min_functions:
        return f"QEMU starts {arch.name} guests with {arch.min_functions} functions or more"
    return ""
