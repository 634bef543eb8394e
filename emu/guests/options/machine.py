"""Options of the machine that QEMU emulates: processors, clock, memory, IOMMU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from emu.guests.architecture import ARCHITECTURES
from emu.guests.options.declare import option
from emu.guests.options.kinds import Choice, Flag, Whole, Words

_CPUS = 2
_BY_ICOUNT: Any = None
"""Default number of processors: :data:`_CPUS`, or one where the clock counts instructions."""
_MIN_MEMORY_MIB = 512
_PAGE_MIB = 2


def _beyond(arch: str, value: int, limit: int | None, unit: str) -> str:
    """Return that ``value`` is above the limit of an architecture's machine; "" if it is not."""
    is_beyond = limit is not None and value > limit
    return f"{arch} guests have at most {limit} {unit}" if is_beyond else ""


@dataclass(frozen=True, kw_only=True)
class MachineOptions:
    """Options in the group Machine.

    With ``icount`` the guest's clock counts instructions, each 2^icount ns; that needs emulation
    and one processor. With ``iommu``, devices reach only memory that the kernel has mapped for
    them; devices of in-kernel drivers reach all memory, unless ``kernel_arguments`` change that.
    ``qemu_arguments`` are appended.
    """

    GROUP: ClassVar = "Machine"

    memory_mib: int = option(
        2048,
        flag="memory",
        kind=Whole(metavar="MIB", least=_MIN_MEMORY_MIB),
        help="Memory of the guest in MiB; the host allocates only pages that the guest touches.",
        is_recorded=True,
        wrong=lambda o: _beyond(
            o.arch, o.memory_mib, ARCHITECTURES[o.arch].max_memory_mib, "MiB of memory"
        ),
    )
    cpus: int = option(
        _BY_ICOUNT,
        flag="cpus",
        kind=Whole(metavar="N", least=1, most=64),
        help="Number of processors.",
        otherwise=f"{_CPUS}; 1 with icount",
        is_recorded=True,
        wrong=lambda o: (
            "icount needs one processor"
            if o.icount is not None and o.cpus != 1
            else _beyond(o.arch, o.cpus, ARCHITECTURES[o.arch].max_cpus, "processors")
        ),
    )
    icount: int | None = option(
        None,
        flag="icount",
        kind=Whole(metavar="SHIFT", most=10),
        help="Let the processor's clock count instructions, 2^SHIFT ns each: runs differ less.",
        is_recorded=True,
        wrong=lambda o: (
            "needs emulation, not KVM" if o.icount is not None and o.accelerator == "kvm" else ""
        ),
    )
    hugepages: int = option(
        0,
        flag="hugepages",
        kind=Whole(metavar="N"),
        help="Memory to set aside in huge pages, in units of 2 MiB.",
        is_recorded=True,
        wrong=lambda o: (
            "huge pages (2 MiB each) may take half of the memory"
            if o.hugepages * _PAGE_MIB > o.memory_mib // 2
            else ""
        ),
    )
    accelerator: str = option(
        "auto",
        flag="accel",
        kind=Choice(among=("auto", "kvm", "tcg")),
        help="Run the guest with KVM, by emulation (tcg), or with what works (auto).",
    )
    qemu_arguments: tuple[str, ...] = option(
        (),
        flag="qemu-arg",
        kind=Words(metavar="ARG"),
        help="Add an argument to QEMU's command line, for a disk or a card; may be repeated.",
    )
    iommu: bool = option(
        False,
        flag="iommu",
        kind=Flag(),
        help="Add an IOMMU (Intel's) for all devices, so that vfio can assign them to programs.",
        is_recorded=True,
    )

    def __post_init__(self) -> None:
        if self.cpus is _BY_ICOUNT:
            object.__setattr__(self, "cpus", _CPUS if self.icount is None else 1)
