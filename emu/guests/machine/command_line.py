"""QEMU's command line for one guest.

The module is a pure function of its inputs, so tests can check all of it. Every device is listed
explicitly; QEMU's default devices (a display, a network card, a floppy drive) are off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from emu.guests.architecture import NATIVE, Architecture
from emu.guests.inside.runner import PORT_NAME
from emu.guests.machine.qemu import Qemu
from emu.guests.machine.routing import address_option, function_options, root_port

KERNEL_ARGUMENTS = (
    # A panic resets the machine, which ends QEMU; an oops counts as a panic.
    "panic=-1",
    "oops=panic",
    # Emulated processors are slow: no mitigations for hardware bugs, and no lockup warning when a
    # busy host stalls one of them.
    "mitigations=off",
    "nowatchdog",
    "audit=0",
)

DISK_SERIALS = ("root", "modules")
"""Serial numbers by which the guest's init finds the disks of :attr:`Machine.disks`."""


IOMMU_ARGUMENTS = ("intel_iommu=on", "iommu=pt")
"""Kernel arguments: addresses of devices with in-kernel drivers are not translated."""


@dataclass(frozen=True)
class SharedDirectory:
    """A directory of the host that the guest mounts by its tag."""

    tag: str
    path: Path
    writable: bool = False
    optional: bool = False
    """Whether a guest whose kernel cannot mount it boots without it."""
    mapped: bool = False
    """Whether owners, modes and special files that the guest makes stay in extended attributes."""

    @property
    def mode(self) -> str:
        """The mount mode for the guest's begin.sh: rw, ro, or try (read-only, optional)."""
        return "rw" if self.writable else "try" if self.optional else "ro"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The components of a guest's machine."""

    qemu: Qemu
    arch: Architecture = NATIVE
    accelerator: str  # "kvm" or "tcg"
    kernel: Path
    initrd: Path
    kernel_arguments: tuple[str, ...] = ()
    disks: tuple[Path, ...] = ()  # raw; never written
    functions: tuple[Path, ...] = ()  # sockets of vfio-user servers
    vfs: tuple[tuple[Path, ...], ...] = ()  # sockets of each function's virtual functions
    shares: tuple[SharedDirectory, ...] = ()
    network: bool = False  # a virtio card, the host's network behind it
    iommu: bool = False
    memory_mib: int = 2048
    cpus: int = 2
    icount: int | None = None  # each instruction lasts 2^icount ns; TCG, one processor
    console_log: Path | None = None
    control: Path | None = None  # QMP; like port, our own listening socket
    port: Path | None = None  # the port into the guest
    events: Path | None = None  # a second QMP socket, for panics and reboots: QEMU stops there
    gdb: Path | None = None  # a socket on which QEMU waits for a debugger
    extra: tuple[str, ...] = ()
    settings: str = ""
    """Lines of shell by which the initramfs configures the guest."""
    is_resumed: bool = False
    """Whether QEMU starts without a kernel and waits for a saved boot to resume."""


def arguments(machine: Machine) -> list[str]:
    """Return the whole command line, QEMU's program first; QEMU is not started."""
    return [
        *machine.qemu.command,
        *_platform(machine),
        # Before all devices, which search for it when they are created. QEMU's own vfio devices
        # must be notified of each mapping.
        *(("-device", "intel-iommu,caching-mode=on") if machine.iommu else ()),
        *machine.arch.host_bridge,
        *_console(machine),
        *_disks(machine),
        *_channels(machine),
        *_shares(machine),
        *_network(machine),
        *_functions(machine),
        *machine.arch.notes,
        *(("-incoming", "defer") if machine.is_resumed else ()),
        *machine.extra,
    ]


def _platform(machine: Machine) -> list[str]:
    kvm = machine.accelerator == "kvm"
    own = IOMMU_ARGUMENTS if machine.iommu else ()
    memory = f"memory-backend-memfd,id=memory,size={machine.memory_mib}M,share=on"
    return [
        *("-name", "mlx5emu", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", f"{machine.arch.machine},memory-backend=memory"),
        # The servers map the guest's memory, so the memory must be shared.
        *("-object", memory, "-m", f"{machine.memory_mib}M", "-smp", str(machine.cpus)),
        *("-accel", _accelerator(machine), "-cpu", "host" if kvm else machine.arch.cpu),
        *(("-icount", f"shift={machine.icount}") if machine.icount is not None else ()),
        # An unexpected reboot (a panic) ends QEMU; for a requested one this is changed over QMP.
        *("-action", "reboot=shutdown"),
        *("-kernel", str(machine.kernel), "-initrd", str(machine.initrd)),
        *("-append", " ".join((*kernel_arguments(machine.arch), *own, *machine.kernel_arguments))),
    ]


def kernel_arguments(arch: Architecture) -> tuple[str, ...]:
    """Return the arguments of every kernel of ``arch``; the console comes first."""
    return f"console={arch.console}", *KERNEL_ARGUMENTS, *arch.kernel_arguments


def _accelerator(machine: Machine) -> str:
    if machine.accelerator == "kvm":
        return "kvm"
    # Counting instructions needs a single TCG thread.
    return "tcg,thread=multi" if machine.icount is None else "tcg,thread=single"


def _console(machine: Machine) -> list[str]:
    log = f",logfile={_quoted(machine.console_log)}" if machine.console_log else ""
    chardev = f"stdio,id=console,mux=on,signal=off{log}"
    return ["-chardev", chardev, *machine.arch.serial, "-monitor", "none"]


def _disks(machine: Machine) -> list[str]:
    words = []
    for serial, path in zip(DISK_SERIALS, machine.disks):
        # The guest's writes go to a temporary file that is deleted when QEMU ends.
        drive = f"if=none,id={serial},format=raw,snapshot=on,cache=unsafe,file={_quoted(path)}"
        words += [
            "-drive",
            drive,
            "-device",
            f"{_virtio(machine, 'blk')},drive={serial},serial={serial}",
        ]
    return words


def _channels(machine: Machine) -> list[str]:
    words = []
    if machine.control is not None:
        words += ["-qmp", f"unix:{_quoted(machine.control)},server=off"]
    if machine.events is not None:
        words += ["-qmp", f"unix:{_quoted(machine.events)},server=off"]
        words += ["-action", "shutdown=pause"]
    if machine.gdb is not None:
        words += ["-gdb", f"unix:{_quoted(machine.gdb)},server=on,wait=off"]
    if machine.port is not None:
        words += ["-chardev", f"socket,id=port,path={_quoted(machine.port)},server=off"]
        words += ["-device", _virtio(machine, "serial")]
        words += ["-device", f"virtserialport,chardev=port,name={PORT_NAME}"]
    return words


def _shares(machine: Machine) -> list[str]:
    words = []
    for share in machine.shares:
        mode = "" if share.writable else ",readonly=on"
        # Files that the guest makes belong to the user who runs QEMU ("none": unmapped, without an
        # error for a chown that this user may not do). Root may do everything, so a guest's root
        # would make set-user-ID programs and device nodes here.
        model = "mapped-xattr,fmode=0644,dmode=0755" if share.mapped else "none"
        where = f"local,id={share.tag},path={_quoted(share.path)},security_model={model}{mode}"
        device = f"{_virtio(machine, '9p')},fsdev={share.tag},mount_tag={share.tag}"
        words += ["-fsdev", where, "-device", device]
    return words


def _network(machine: Machine) -> list[str]:
    if not machine.network:
        return []
    rom = ",romfile=" if machine.arch.virtio == "pci" else ""  # no firmware boots from it
    device = f"{_virtio(machine, 'net')},netdev=network{rom}"
    return ["-netdev", "user,id=network", "-device", device]


def _virtio(machine: Machine, kind: str) -> str:
    return f"virtio-{kind}-{machine.arch.virtio}"


def _functions(machine: Machine) -> list[str]:
    words = []
    for number, socket in enumerate(machine.functions):
        port, name = f"port{number}", f"function{number}"
        vfs = machine.vfs[number] if machine.vfs else ()
        device = function_options(socket) | {"id": name}
        if machine.arch.has_root_ports:
            device["bus"] = port
            words += ["-device", root_port(port, number + 1, len(vfs))]
        if vfs:
            device |= address_option(0)
        words += ["-device", json.dumps(device)]
        for at, vf in enumerate(vfs):
            place = {"id": f"{name}vf{at}", "bus": port} | address_option(at + 1)
            words += ["-device", json.dumps(function_options(vf) | place)]
    return words


def _quoted(path: Path) -> str:
    """Quote a path inside a list of options: QEMU reads two commas as one."""
    return str(path).replace(",", ",,")
