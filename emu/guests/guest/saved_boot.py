"""Saved boots: the common first phase of a machine's boot, done once and kept in the cache.

A guest without any device boots, mounts its root disk read-only, loads the driver and parks. QEMU
writes its memory to a file (migration, ``mapped-ram``: some 130 MB). A guest resumed from it has
its functions, shares and network card on its buses from the start. Its kernel finds them by a
rescan (``/sys/bus/pci/rescan``), and numbers them like in a boot. Resuming takes a third of a
boot's time. The clock is set; the random numbers are reseeded, because QEMU's vmgenid device
notifies the kernel of the copy.

A saved boot is for one machine: the same QEMU, kernel, command line, root disk, memory and
processors. After the first guest of a machine has booted, the next one saves the boot. A machine
that is booted once, or fails to boot, is never saved.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from emu.guests import cache
from emu.guests.archive.bootstrap import Progress
from emu.guests.archive.disk_space import free_bytes
from emu.guests.channel import frames
from emu.guests.errors import GuestError
from emu.guests.guest import console
from emu.guests.guest.process import ChildListener, stop, tied
from emu.guests.machine import saved
from emu.guests.machine.command_line import Machine, arguments
from emu.guests.machine.launch import bare_machine
from emu.guests.machine.qmp import Qmp
from emu.guests.machine.saved import SavedBoot
from emu.guests.options import GuestOptions
from emu.guests.workdir import work_directory
from emu.host.printable import one_line

logger = logging.getLogger(__name__)

SAVING = "saving the boot"
"""Activity that a :data:`Progress` is called with meanwhile."""
CONNECT_TIMEOUT = 60.0
_COPY_TIMEOUT = 60.0
"""Seconds for QEMU to write the memory, or to read it."""
_CONFIG_ADDRESS, _CONFIG_DATA, _ENABLE = 0xCF8, 0xCFC, 1 << 31
_PRIMARY_BUS = 0x18
"""The bridge register of the numbers of its buses: primary, secondary, subordinate."""
_MIN_SPACE_MIB = 256
_PAGE_STRUCTURES = 64
"""Bytes of memory for each byte of ``struct page``."""
_ANY_SPEED = 1 << 40
"""Bytes a second: QEMU's default limit is 128 MiB a second."""


@dataclass(frozen=True)
class Beginning:
    """The start of a guest: resumed from ``boot``, or booted from the start without one."""

    boot: SavedBoot | None = None
    name: str | None = None
    """Name of the machine, if its boot can be saved."""

    def note_up(self) -> None:
        """Record that the guest has booted: the next one of its machine may save its boot."""
        if self.name is not None:
            saved.note_booted(self.name)


FROM_THE_START = Beginning()


def beginning(
    options: GuestOptions,
    machine: Machine,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Beginning:
    """Return how a guest with these options starts; save its machine's boot now if that is due.

    Return :data:`FROM_THE_START` for options that exclude a saved boot. A failure to save is no
    error: it is logged, and saving is not tried again for this machine.
    """
    if not can_be_saved(options, machine):
        return FROM_THE_START
    with work_directory() as work:
        bare = bare_machine(options, work)
        name = saved.name_of(options.suite, bare)
        boot = saved.find(name)
        if boot is None and saved.should_save(name) and _has_space(options.memory_mib):
            with cache.lock(f"boot-{name}", on_wait):
                boot = saved.find(name) or _save_boot(
                    bare, name, work, options.boot_timeout, progress
                )
        return Beginning(boot, name)


def _has_space(memory_mib: int) -> bool:
    """Return whether the disk has space for a saved boot; log the lack of it.

    A kernel and its caches need some 130 MB; the page structures grow with the memory.
    """
    needed = (_MIN_SPACE_MIB + memory_mib // _PAGE_STRUCTURES) << 20
    free = free_bytes(cache.cache_dir())
    if free < needed:
        logger.info("the boot is not saved: it needs %d bytes, and %d are free", needed, free)
    return free >= needed


def can_be_saved(options: GuestOptions, machine: Machine) -> bool:
    """Return whether guests with these options may be resumed from a saved boot.

    Excluded are KVM, architectures besides amd64, ``cold``, a user's kernel, QEMU arguments,
    ``iommu``, ``icount``, ``gdb`` and ``verbose``. KVM boots faster and has clocks of the host.
    """
    return not (
        machine.accelerator == "kvm"
        or options.arch != "amd64"
        or options.cold
        or options.kernel is not None
        or options.qemu_arguments
        or options.iommu
        or options.icount is not None
        or options.gdb
        or options.verbose
    )


def resume(qmp: Qmp, connection: socket.socket, boot: SavedBoot, settings: str) -> None:
    """Load a saved boot into a QEMU that waits for one (``is_resumed``), and let it run.

    ``settings`` are those of an initramfs (:mod:`emu.guests.inside`); they are sent with the time
    of day. Raises :class:`GuestError`, and removes the saved boot, when QEMU refuses it. Raises
    OSError when the guest's port is closed.
    """
    try:
        _allow(qmp)
        qmp.execute("migrate-incoming", uri=f"file:{boot.memory}")
        _await(qmp)
        _number_buses(qmp)
        qmp.execute("cont")
    except GuestError as error:
        boot.remove()
        raise GuestError(
            f"the saved boot {boot.path.name} cannot be resumed, and is removed: {error}"
        ) from error
    connection.sendall(f"{settings}now={int(time.time())}\n".encode() + b"\0")


def _number_buses(qmp: Qmp) -> None:
    """Assign numbers to the buses behind the functions' ports, like the firmware in a boot.

    Otherwise the kernel logs "bridge configuration invalid" (drivers/pci/probe.c:
    pci_scan_bridge_extend). PCI's configuration mechanism 1 is usable because the guest is stopped.
    Raises GuestError when QEMU fails.
    """
    buses = qmp.execute("query-pci")
    slots = [device["slot"] for bus in buses for device in bus["devices"] if "pci_bridge" in device]
    for number, slot in enumerate(sorted(slots), 1):
        _out(qmp, _CONFIG_ADDRESS, _ENABLE | slot << 11 | _PRIMARY_BUS)
        _out(qmp, _CONFIG_DATA, number << 16 | number << 8)


def _out(qmp: Qmp, port: int, value: int) -> None:
    """Write 32 bits to an I/O port; log a refusal, as the guest's kernel then numbers the buses."""
    line = f"o/w {port:#x} {value:#x}"
    if complaint := qmp.execute("human-monitor-command", **{"command-line": line}):
        logger.warning("QEMU refuses %s: %s", line, one_line(str(complaint)))


def _save_boot(
    bare: Machine, name: str, work: Path, boot_timeout: float, progress: Progress | None
) -> SavedBoot | None:
    """Boot the bare machine and save it in the cache; return the saved boot, None if that fails.

    A failure is logged and recorded, so this machine is not tried again. Older saved boots beyond
    the maximum are removed.
    """
    target = saved.place_of(name)
    if progress is not None:
        progress(SAVING, 0, 0)
    try:
        with cache.building(target) as place:
            _save(bare, SavedBoot(place), work, boot_timeout)
    except (GuestError, OSError) as error:
        logger.warning("the boot is not saved: %s", error)
        saved.note_failure(name)
        return None
    saved.remove_oldest()
    return SavedBoot(target)


def _save(bare: Machine, boot: SavedBoot, work: Path, boot_timeout: float) -> None:
    """Boot until the guest reports that it can be saved, write its memory, and end QEMU.

    Raises GuestError, with the end of QEMU's log and console, when the boot or the writing fails.
    """
    log = work / "qemu.log"
    with ChildListener(work / "qmp") as control, ChildListener(work / "port") as port:
        machine = replace(
            bare, control=control.path, port=port.path, console_log=work / "console.log"
        )
        process = _started(arguments(machine), log)
        try:
            with (
                contextlib.closing(Qmp(control.accept(process, CONNECT_TIMEOUT))) as qmp,
                port.accept(process, CONNECT_TIMEOUT) as connection,
            ):
                _await_parked(connection, boot_timeout)
                qmp.execute("stop")
                _allow(qmp)
                qmp.execute("migrate-set-parameters", **{"max-bandwidth": _ANY_SPEED})
                qmp.execute("migrate", uri=f"file:{boot.memory}")
                _await(qmp)
        except (GuestError, OSError) as error:
            said = console.read(log) + console.tail(console.read(work / "console.log"))
            raise GuestError(f"{error}; {said}") from error
        finally:
            stop(process)


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as errors:
        return subprocess.Popen(
            tied(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )


def _await_parked(connection: socket.socket, timeout: float) -> None:
    """Wait until the guest has done everything that needs no device of its own (PARKED).

    Raises GuestError when the guest ends first, TimeoutError after ``timeout`` seconds of silence.
    """
    connection.settimeout(timeout)
    said = b""
    while frames.MARK not in said:
        data = connection.recv(frames.CHUNK)
        if not data:
            raise GuestError("the guest has ended")
        said = said[-len(frames.MARK) :] + data


def _allow(qmp: Qmp) -> None:
    """Enable QEMU's migration capability mapped-ram; GuestError if QEMU lacks it.

    Each page then has one position in the file, and one read loads it.
    """
    qmp.execute(
        "migrate-set-capabilities", capabilities=[{"capability": "mapped-ram", "state": True}]
    )


def _await(qmp: Qmp) -> None:
    """Wait until QEMU has written or read the memory, which takes 0.1 to 0.2 s.

    Raises GuestError when the migration fails or takes more than 60 s.
    """
    deadline = time.monotonic() + _COPY_TIMEOUT
    while True:
        about = qmp.execute("query-migrate")
        status = about.get("status")
        if status == "completed":
            return
        if status == "failed":
            raise GuestError(about.get("error-desc") or "QEMU reported no reason")
        if time.monotonic() > deadline:
            raise GuestError(f"not done after {_COPY_TIMEOUT:g} s")
        time.sleep(0.01)
