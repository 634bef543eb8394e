"""The options of a guest: the table, and its checks."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emu.guests.architecture import ARCHITECTURES, NATIVE, is_native, why_not
from emu.guests.archive.names import DEFAULT_SUITE, SUITES, check_packages, why_not_python
from emu.guests.errors import LabError
from emu.guests.options.declare import Option, declared_in, option
from emu.guests.options.kinds import (
    Choice,
    Directory,
    File,
    Files,
    Flag,
    Kernel,
    OptionKind,
    Seconds,
    Share,
    Whole,
    Words,
)
from emu.guests.options.uses import (
    AMD64,
    BOUND,
    FROM_START,
    MEETING,
    OF_SERVER,
    ONE_FILE,
    OWN_PLANS,
    TERMINAL,
    Use,
)
from emu.host.user_error import WRONG_USE
from emu.near import near

DEFAULT_DEVICE = "connectx6"
_CPUS = 2
_BY_ICOUNT: Any = None
"""Default number of processors: :data:`_CPUS`, or one where the clock counts instructions."""
_MIN_MEMORY_MIB = 512
_MAX_DEVICES = 16
_PAGE_MIB = 2


def _foreign_python(options: GuestOptions, packages: Sequence[object]) -> str:
    """Return why a guest of another architecture cannot have these Python packages; else ""."""
    is_foreign = bool(packages) and not is_native(ARCHITECTURES[options.arch])
    return f"only for guests of {NATIVE.name}" if is_foreign else ""


def _beyond(arch: str, value: int, limit: int | None, unit: str) -> str:
    """Return that ``value`` is above the limit of an architecture's machine; "" if it is not."""
    is_beyond = limit is not None and value > limit
    return f"{arch} guests have at most {limit} {unit}" if is_beyond else ""


class OptionError(LabError):
    """An invalid option; ``name`` is its field, ``others`` are errors found in the same check."""

    status = WRONG_USE

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name
        self.others: tuple[OptionError, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GuestOptions:
    """Options of one guest; the constructor raises :class:`LabError` for an invalid option.

    ``faults`` is a fault plan for the functions. ``faults_when``, or else the plan, sets its start:
    with the boot (``loading``, the default), or as soon as the guest accepts commands (``loaded``).
    ``record`` is the file that records which faults fired, by default a file in the guest's logs if
    there is a plan.

    ``packages`` are Debian packages to install in addition to the standard ones. ``pip`` has the
    names of Python packages, with a version or without, and ``wheels`` files of such packages; what
    they depend on is installed, too.

    ``share`` is a directory mounted at /mnt/share, read-only unless ``share_writable``; the guest's
    /mnt/out is the directory ``out``. ``network`` adds a virtio network card connected to the
    host's network. With ``iommu``, devices reach only memory that the kernel has mapped for them;
    devices of in-kernel drivers reach all memory, unless ``kernel_arguments`` change that.

    ``dump`` is the file for the memory of a guest that panics. ``devices`` are passed to the server
    unchanged, one emulated function each. ``kernel`` and ``modules`` replace the suite's kernel: a
    bzImage, and its module tree if it has modules. ``probe`` loads the mlx5 driver during boot.
    ``kernel_arguments`` and ``qemu_arguments`` are appended. With ``icount`` the guest's clock
    counts instructions, each 2^icount ns; that needs emulation and one processor.

    A guest is resumed from a saved boot if the cache has one (:mod:`emu.guests.guest.saved_boot`):
    its functions appear on a bus that its kernel has already scanned. With ``cold`` it boots from
    the start.

    The last fields are not options of users: commands set them. With ``share_optional`` a guest
    whose kernel cannot mount ``share`` boots without. With ``gdb`` QEMU accepts a debugger.
    ``hold_probe`` loads the mlx5 driver during boot, but leaves the functions to
    :meth:`emu.guests.Guest.probe`. With ``stays`` a guest that panics or powers off stays for
    inspection, and one that reboots is awaited. ``server_options`` are appended. ``hostname`` is
    the guest's own name. ``hang_timeout`` is the maximum number of seconds for the answer to a
    ping. ``verbose`` copies the console and the server's log to our standard error.
    """

    suite: str = option(
        DEFAULT_SUITE,
        flag="suite",
        group="Guest",
        kind=Choice(among=SUITES),
        help="Debian suite of the guest.",
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
    )
    arch: str = option(
        NATIVE.name,
        flag="arch",
        group="Guest",
        kind=Choice(among=tuple(ARCHITECTURES)),
        help="Processor architecture of the guest, emulated unless it is the host's.",
        refused={Use.FUZZ_RUN: AMD64, Use.FUZZ_REPLAY: AMD64},
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
        wrong=lambda o: why_not(ARCHITECTURES[o.arch], vars(o)),
    )
    packages: tuple[str, ...] = option(
        (),
        flag="package",
        group="Guest",
        kind=Words(metavar="NAME"),
        help="An additional Debian package of the guest; may be repeated.",
        is_recorded=True,
    )
    pip: tuple[str, ...] = option(
        (),
        flag="pip",
        word="pip",
        group="Guest",
        kind=Words(metavar="NAME[==VERSION]"),
        help="An additional Python package of the guest, fetched by pip; may be repeated.",
        is_recorded=True,
        wrong=lambda o: why_not_python(o.pip, ()) or _foreign_python(o, o.pip),
    )
    wheels: tuple[Path, ...] = option(
        (),
        flag="wheel",
        word="wheels",
        group="Guest",
        kind=Files(),
        help="A file of an additional Python package of the guest; may be repeated.",
        is_recorded=True,
        wrong=lambda o: (
            why_not_python((), [path.name for path in o.wheels]) or _foreign_python(o, o.wheels)
        ),
    )
    kernel: Path | None = option(
        None,
        flag="kernel",
        group="Kernel",
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
        group="Kernel",
        kind=Directory(metavar="DIRECTORY"),
        help="Modules of a kernel file: a build tree, or lib/modules/RELEASE.",
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
        wrong=lambda o: "modules need a kernel" if o.modules and not o.kernel else "",
    )
    devices: tuple[str, ...] = option(
        (DEFAULT_DEVICE,),
        flag="device",
        group="Devices and network",
        kind=Words(metavar="SPEC"),
        help="Emulated function: a MODEL of `mlx5emu models`, which settings may follow, as in "
        "connectx6dx,vfs=4; may be repeated.",
        tables={Use.CAMPAIGN: "device"},
        wrong=lambda o: f"at most {_MAX_DEVICES}" if len(o.devices) > _MAX_DEVICES else "",
    )
    share: Path | None = option(
        None,
        flag="share",
        group="Guest",
        kind=Share(metavar="DIR[:rw]"),
        help="A directory mounted at /mnt/share, read-only; with :rw the guest may write there.",
        is_recorded=True,
    )
    out: Path | None = option(
        None,
        flag="out",
        group="Guest",
        kind=Directory(metavar="DIRECTORY", is_made=True),
        help="Directory of the host for the guest's /mnt/out; created when absent.",
    )
    network: bool = option(
        False,
        flag="network",
        group="Devices and network",
        kind=Flag(),
        help="Add a virtio network card connected to the host's network.",
        is_recorded=True,
    )
    trace: Path | None = option(
        None,
        flag="trace",
        group="Faults and traces",
        kind=File(is_new=True),
        help="Record what the functions do in this file.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        wrong=lambda o: "needs a device" if o.trace and not o.devices else "",
    )
    trace_limit: int | None = option(
        None,
        flag="trace-limit",
        group="Faults and traces",
        kind=Whole(metavar="MIB", least=1),
        help="End the trace when the file has this size, in MiB.",
        otherwise="1024",
        refused={use: why for use, why in ONE_FILE.items() if use is not Use.PYTEST},
        tables=OF_SERVER,
        is_for_server=True,
    )
    pcap: Path | None = option(
        None,
        flag="pcap",
        group="Faults and traces",
        kind=File(is_new=True),
        help="Write the packets of the functions' ports to this file; RDMA messages between"
        " functions of one server need --pcap-messages.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        is_for_server=True,
    )
    pcap_messages: bool = option(
        False,
        flag="pcap-messages",
        group="Faults and traces",
        kind=Flag(),
        help="Send RDMA messages between functions of one server as packets, for --pcap.",
        refused=ONE_FILE,
        tables=OF_SERVER,
        is_for_server=True,
    )
    faults: Path | None = option(
        None,
        flag="faults",
        group="Faults and traces",
        kind=File(example="plan"),
        help="Inject the faults of this plan; @NAME is one of `guide @faults`.",
        refused=OWN_PLANS,
        tables=OF_SERVER,
        wrong=lambda o: "needs a device" if o.faults and not o.devices else "",
    )
    faults_when: str | None = option(
        None,
        flag="faults-when",
        group="Faults and traces",
        kind=Choice(among=("loading", "loaded")),
        help="Start of the plan: with the boot (loading), or once the driver is up (loaded).",
        otherwise="as the plan says",
        refused=OWN_PLANS,
        tables=OF_SERVER,
        wrong=lambda o: "needs a plan (faults)" if o.faults_when and not o.faults else "",
    )
    record: Path | None = option(
        None,
        flag="record",
        group="Faults and traces",
        kind=File(is_new=True),
        help="File for the record of the faults.",
        refused=ONE_FILE,
        tables=OF_SERVER,
    )
    transport: str | None = option(
        None,
        flag="transport",
        group="Devices and network",
        kind=OptionKind(metavar="NAME"),
        help="Connection of functions and guest: vfio-user, libvfio-user, vhost-user (for UML).",
        tables=OF_SERVER,
        is_for_server=True,
    )
    fabric: str | None = option(
        None,
        flag="fabric",
        group="Devices and network",
        kind=OptionKind(metavar="NAME"),
        help="unix:PATH or tcp:HOST:PORT of a fabric shared with other guests' functions.",
        refused={Use.CAMPAIGN: MEETING, Use.CHAOS: MEETING},
        tables=OF_SERVER,
        is_for_server=True,
    )
    subnet: Path | None = option(
        None,
        flag="subnet",
        group="Devices and network",
        kind=File(example="subnet"),
        help="Connect the InfiniBand functions to the subnet of this file, in ibnetdiscover's "
        "format; its manager (opensm) is in the guest. @two-leaves is an example.",
        tables=OF_SERVER,
        is_for_server=True,
        wrong=lambda o: (
            "cannot be used with --fabric: one server has the switches; guests of a lab share it"
            if o.subnet and o.fabric
            else ""
        ),
    )
    nets: tuple[str, ...] = option(
        (),
        flag="net",
        group="Devices and network",
        kind=Words(metavar="UPLINK"),
        help="Uplink of the Ethernet functions' segment: user[,mtu=N][,forward=tcp:PORT:PORT], "
        "stream=PATH, tap=NAME; may be repeated.",
        tables=OF_SERVER,
        is_for_server=True,
    )
    memory_mib: int = option(
        2048,
        flag="memory",
        group="Machine",
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
        group="Machine",
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
        group="Machine",
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
        group="Machine",
        kind=Whole(metavar="N"),
        help="Memory to set aside in huge pages, in units of 2 MiB.",
        is_recorded=True,
        wrong=lambda o: (
            "huge pages (2 MiB each) may take half of the memory"
            if o.hugepages * _PAGE_MIB > o.memory_mib // 2
            else ""
        ),
    )
    probe: bool = option(
        True,
        flag="probe",
        group="Kernel",
        kind=Flag(),
        help="Load the mlx5 driver while booting.",
        refused={Use.FUZZ_RUN: BOUND, Use.FUZZ_REPLAY: BOUND},
        tables={Use.CAMPAIGN: "workload"},
        is_recorded=True,
    )
    accelerator: str = option(
        "auto",
        flag="accel",
        group="Machine",
        kind=Choice(among=("auto", "kvm", "tcg")),
        help="Run the guest with KVM, by emulation (tcg), or with what works (auto).",
    )
    cold: bool = option(
        False,
        flag="cold",
        group="Guest",
        kind=Flag(),
        help="Boot from the start instead of resuming a saved boot of the same machine.",
        refused={Use.BOOT: FROM_START},
        is_recorded=True,
    )
    boot_timeout: float = option(
        180.0,
        flag="boot-timeout",
        group="Guest",
        kind=Seconds(metavar="S"),
        help="Seconds in which the guest must accept commands; raise it on a shared host.",
    )
    kernel_arguments: tuple[str, ...] = option(
        (),
        flag="kernel-arg",
        group="Kernel",
        kind=Words(metavar="ARG"),
        help="Add to the kernel's command line; may be repeated.",
        is_recorded=True,
    )
    qemu_arguments: tuple[str, ...] = option(
        (),
        flag="qemu-arg",
        group="Machine",
        kind=Words(metavar="ARG"),
        help="Add an argument to QEMU's command line, for a disk or a card; may be repeated.",
    )
    iommu: bool = option(
        False,
        flag="iommu",
        group="Machine",
        kind=Flag(),
        help="Add an IOMMU (Intel's) for all devices, so that vfio can assign them to programs.",
        is_recorded=True,
    )
    dump: Path | None = option(
        None,
        flag="dump",
        group="Kernel",
        kind=File(is_new=True),
        help="File for the guest's memory if it panics, for crash and drgn.",
        refused={**ONE_FILE, Use.BOOT: TERMINAL},
    )
    share_writable: bool = False
    share_optional: bool = False
    server_options: tuple[str, ...] = ()
    hold_probe: bool = False
    stays: bool = False
    hostname: str = "guest"
    gdb: bool = False
    hang_timeout: float = 90.0
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.cpus is _BY_ICOUNT:
            object.__setattr__(self, "cpus", _CPUS if self.icount is None else 1)
        for one in options():
            if why := one.kind.wrong(getattr(self, one.name)) or one.wrong(self):
                raise OptionError(one.name, f"{one.word}: {why}")
        if self.hang_timeout <= 0:
            raise OptionError("hang_timeout", "hang_timeout: needs more than 0 s")
        try:
            check_packages(self.packages)
        except LabError as error:
            raise OptionError("packages", f"packages: {error}") from None

    @property
    def python_packages(self) -> tuple[str, ...]:
        """Python packages to install: requirements, then paths of wheels."""
        return (*self.pip, *map(str, self.wheels))

    @property
    def server_words(self) -> tuple[str, ...]:
        """Arguments of ``mlx5emu serve`` besides functions, trace and faults."""
        return (*server_words(vars(self)), *self.server_options)


@functools.cache
def options() -> tuple[Option, ...]:
    """Return every option, in the order in which help shows them."""
    return declared_in(GuestOptions)


def option_named(name: str) -> Option:
    """Return the option whose field has that name. Raises OptionError for an unknown name."""
    for one in options():
        if one.name == name:
            return one
    raise unknown_option(name, [one.name for one in options()])


def unknown_option(name: str, known: Iterable[str]) -> OptionError:
    """Return the error for a name that is not among the ``known`` ones; it has similar names."""
    return OptionError(name, f"no option {name!r} of a guest{near(name, known)}")


def server_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return arguments of ``mlx5emu serve`` for values by the options' names.

    Options that are not for the server, and empty or absent values, are left out. A flag has no
    value; a list repeats its option.
    """
    words: list[str] = []
    for one in options():
        value = values.get(one.name)
        if not one.is_for_server or not value:
            continue
        if isinstance(one.kind, Flag):
            words.append(f"--{one.flag}")
            continue
        for single in value if isinstance(one.kind, Words) else (value,):
            words += (f"--{one.flag}", str(single))
    return tuple(words)
