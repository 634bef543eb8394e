"""Boots that are saved: what each guest of a kind does first is done once, and kept in the cache.

A guest without any device boots, mounts its root disk read-only, loads the driver and stops there.
Its memory goes to a file (a migration of QEMU's, ``mapped-ram``: some 130 MB). A guest that goes on
from there has its functions, shares and network card on its buses from the start; its kernel finds
them when it is told to look (``/sys/bus/pci/rescan``), and numbers them as it does in a boot. That
costs a third of a boot. Its clock is set; its random numbers are its own, as QEMU's vmgenid device
tells the kernel that it has been copied.

A saved boot is for one machine: the same QEMU, kernel, command line, root disk, memory and
processors. The first guest of a machine that has booted lets the next one have it made, so nothing
is kept for what is booted once, nor tried with what does not boot.
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
"""What a :data:`Progress` is told meanwhile."""
CONNECT_TIMEOUT = 60.0
_COPY_TIMEOUT = 60.0
"""Seconds for QEMU to write the memory, or to read it."""
_CONFIG_ADDRESS, _CONFIG_DATA, _ENABLE = 0xCF8, 0xCFC, 1 << 31
_PRIMARY_BUS = 0x18
"""The register of a bridge with the numbers of its buses: primary, secondary, subordinate."""
_MIN_ROOM_MIB = 256
_PAGE_STRUCTURES = 64
"""Bytes of memory for each byte of ``struct page``."""
_ANY_SPEED = 1 << 40
"""Bytes a second: QEMU holds itself to 128 MiB by default."""


@dataclass(frozen=True)
class Beginning:
    """How a guest begins: it goes on from ``boot``, or boots from the start without one."""

    boot: SavedBoot | None = None
    name: str | None = None
    """Of the machine, where a boot of it can be saved."""

    def note_up(self) -> None:
        """The guest has booted: the next one of its machine may have its boot saved."""
        if self.name is not None:
            saved.note_booted(self.name)


FROM_THE_START = Beginning()


def beginning(
    options: GuestOptions,
    machine: Machine,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Beginning:
    """How a guest with these options is to begin; a boot that is to be saved is saved now.

    One that cannot be saved is no error: the log says why, and it is not tried again.
    """
    if not can_be_saved(options, machine):
        return FROM_THE_START
    with work_directory() as work:
        bare = bare_machine(options, work)
        name = saved.name_of(options.suite, bare)
        boot = saved.find(name)
        if boot is None and saved.is_worth_saving(name) and _has_room(options.memory_mib):
            with cache.lock(f"boot-{name}", on_wait):
                boot = saved.find(name) or _made(bare, name, work, options.boot_timeout, progress)
        return Beginning(boot, name)


def _has_room(memory_mib: int) -> bool:
    """Return whether the disk has room for a saved boot; the log says when it has not.

    Some 130 MB are a kernel and its caches; the pages' structures grow with the memory.
    """
    needed = (_MIN_ROOM_MIB + memory_mib // _PAGE_STRUCTURES) << 20
    free = free_bytes(cache.cache_dir())
    if free < needed:
        logger.info("the boot is not saved: it takes %d bytes, and %d are free", needed, free)
    return free >= needed


def can_be_saved(options: GuestOptions, machine: Machine) -> bool:
    """Whether guests with these options may go on from a saved boot.

    Not with KVM, which boots faster than that and has clocks of the host's; not where the boot
    itself is looked at, or has devices or a clock that only the user knows of.
    """
    return not (
        machine.accelerator == "kvm"
        or options.cold
        or options.kernel is not None
        or options.qemu_arguments
        or options.iommu
        or options.icount is not None
        or options.gdb
        or options.verbose
    )


def resume(qmp: Qmp, connection: socket.socket, boot: SavedBoot, settings: str) -> None:
    """Let a QEMU that waits for it (``is_resumed``) go on from a saved boot.

    ``settings`` are what an initramfs would have told the guest (:mod:`emu.guests.inside`). Raises
    :class:`GuestError`, and removes a saved boot that QEMU does not take.
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
    """Number the buses behind the ports of functions, as the firmware does in a boot.

    The kernel logs "bridge configuration invalid" otherwise (drivers/pci/probe.c:
    pci_scan_bridge_extend). By PCI's configuration mechanism 1: the guest stands still.
    """
    buses = qmp.execute("query-pci")
    slots = [device["slot"] for bus in buses for device in bus["devices"] if "pci_bridge" in device]
    for number, slot in enumerate(sorted(slots), 1):
        _out(qmp, _CONFIG_ADDRESS, _ENABLE | slot << 11 | _PRIMARY_BUS)
        _out(qmp, _CONFIG_DATA, number << 16 | number << 8)


def _out(qmp: Qmp, port: int, value: int) -> None:
    """Write 32 bits to an I/O port; a QEMU that does not leaves it to the guest's kernel."""
    line = f"o/w {port:#x} {value:#x}"
    if complaint := qmp.execute("human-monitor-command", **{"command-line": line}):
        logger.warning("QEMU refuses %s: %s", line, one_line(str(complaint)))


def _made(
    bare: Machine, name: str, work: Path, boot_timeout: float, progress: Progress | None
) -> SavedBoot | None:
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
    """Boot until the guest says that it can be saved, and save it."""
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
    """Wait until the guest has done all that can be done without its devices."""
    connection.settimeout(timeout)
    said = b""
    while frames.MARK not in said:
        data = connection.recv(frames.CHUNK)
        if not data:
            raise GuestError("the guest has ended")
        said = said[-len(frames.MARK) :] + data


def _allow(qmp: Qmp) -> None:
    """Each page has its place in the file, so it has no page twice, and is read in one go."""
    qmp.execute(
        "migrate-set-capabilities", capabilities=[{"capability": "mapped-ram", "state": True}]
    )


def _await(qmp: Qmp) -> None:
    """Wait until QEMU has written or read the memory; it takes a tenth of a second or two."""
    deadline = time.monotonic() + _COPY_TIMEOUT
    while True:
        about = qmp.execute("query-migrate")
        status = about.get("status")
        if status == "completed":
            return
        if status == "failed":
            raise GuestError(about.get("error-desc") or "QEMU gives no reason")
        if time.monotonic() > deadline:
            raise GuestError(f"not done after {_COPY_TIMEOUT:g} s")
        time.sleep(0.01)
