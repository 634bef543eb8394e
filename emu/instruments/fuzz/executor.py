"""Carries inputs out in a guest with counted blocks, one at a time.

Under a plan the driver is bound to the functions, works, and is unbound; then the functions are
reset. A guest is replaced after a panic, or when its driver hangs.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from emu.device.faults.parser import dump
from emu.guests import Guest, GuestOptions
from emu.guests.errors import CommandTimeoutError, GuestError, GuestPanicError, LabError
from emu.guests.kernel.binaries import is_uml
from emu.instruments.coverage.blocks import BlockMap
from emu.instruments.fuzz.emulator import internal_errors
from emu.instruments.fuzz.loop import Feedback
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.rules import LASTING
from emu.instruments.fuzz.schedule import Block
from emu.instruments.fuzz.turns import ProgramTurns, ShellTurns, Turns
from emu.instruments.fuzz.watcher import NOBODY, FuzzWatcher
from emu.instruments.fuzz.workloads import MARK, SECTIONS, WORKLOADS
from emu.instruments.outcome import Finding, Kind, findings
from emu.server.control import Client
from emu.server.control.client import ControlError

log = logging.getLogger(__name__)

_Counts = dict[str, tuple[int, int]]

MODULES = ("mlx5_core", "mlx5_ib")
_MAX_SECONDS = 300.0
_PATIENCE = 4
"""Factor by which a faulty run may exceed the fault-free time, plus :data:`_MIN_SECONDS`."""
_MIN_SECONDS = 10.0
_MIN_LIVE_SECONDS = 5.0
"""The same for live workloads, which have neither probe nor removal."""
_BOOT_SECONDS = 600.0
"""Long enough for a machine that is busy for a while."""
_INSTALL_SECONDS = 300.0
_LOG_SECONDS = 60.0
_UML_LOG_SECONDS = 4.0
"""Limit for reading a stuck guest's log: its only processor may be in a loop."""
_HANG_SECONDS = 90.0
_MAX_LOG_CHARS = 200_000
_SECTION = re.compile(r"(\w{1,64}) (\S{1,64}) 0x([0-9a-f]{1,16})")
_KERNEL_ARGUMENTS = ("rcupdate.rcu_expedited=1",)
"""Unbinding waits for RCU many times, which takes half of an input's time."""
_BEYOND_REPAIR = frozenset(
    {Kind.OOPS, Kind.KASAN, Kind.UBSAN, Kind.LOCKDEP, Kind.HANG, Kind.REFCOUNT}
)
"""After these a User-Mode Linux guest, which reboots in seconds, is replaced at once."""
_NO_BUG = frozenset({Kind.DRIVER, Kind.TIMEOUT})
"""Not bugs of the driver: messages about the device, and waits for it."""


class GuestExecutor:
    """Implements :class:`emu.instruments.fuzz.loop.InputExecutor`; :meth:`close` stops the guest.

    Raises LabError if no guest boots, or the functions cannot be reset.
    """

    def __init__(
        self,
        options: GuestOptions,
        modules: Sequence[str] = MODULES,
        watcher: FuzzWatcher = NOBODY,
    ) -> None:
        self._watcher = watcher
        self._is_uml = is_uml(options.kernel)
        self._options = dataclasses.replace(
            options,
            probe=False,
            accelerator="auto" if self._is_uml else "tcg",
            hang_timeout=_HANG_SECONDS,
            boot_timeout=max(options.boot_timeout, _BOOT_SECONDS),
            kernel_arguments=(*_KERNEL_ARGUMENTS, *options.kernel_arguments),
        )
        self._modules = frozenset(modules)
        self._booted: _Booted | None = None
        self._usual: dict[str, float] = {}
        """Seconds of each workload without faults."""
        self.boots = 0
        self.stuck = 0
        """Number of inputs whose driver did not finish in time."""
        self.emulator_errors: list[str] = []
        """Lines about internal errors in the device servers' logs."""

    @property
    def kernel(self) -> str:
        """The kernel release of the guest, which is booted if needed."""
        return self._ready().guest.kernel_release

    def close(self) -> None:
        """Stop the guest, if any; log and record internal errors of its device server.

        A later :meth:`run` boots a new guest.
        """
        if self._booted is None:
            return
        server_log = self._booted.guest.log_files.get("server")
        self._booted.close()
        self._booted = None
        if errors := internal_errors(server_log):
            self.emulator_errors += errors
            log.warning("internal error of the emulator: %s: %s", errors[0], server_log)

    def run(self, one: Input) -> Feedback:
        """Carry out an input in a new or reset guest; return its feedback.

        A panic, a lost guest or a driver that exceeds the time limit is feedback with ``is_lost``,
        and the guest is stopped. After a finding or a lasting fault the functions are reset. Raises
        LabError.
        """
        booted = self._prepared(one.workload)
        guest = booted.guest
        self._watcher.work(f"the guest does {one.workload}")
        with Client(guest.control_socket) as control:
            control.load_plan(dump(one.plan))
            booted.blocks.clear()
            begun = time.monotonic()
            limit = self._limit(one)
            try:
                said = booted.turns.run(one.workload, limit)
            except CommandTimeoutError:
                self.stuck += 1
                feedback = self._ended(booted, control, self._hung_log(guest))
                return dataclasses.replace(feedback, is_stuck=True)
            except GuestPanicError:
                return self._ended(booted, control, _of_turn(guest.console))
            except GuestError as error:
                return self._ended(booted, control, _of_turn(guest.console), str(error))
            seconds = time.monotonic() - begun
            if not one.has_faults:
                self._usual[one.workload] = seconds
            counts = _counts(control)
            control.clear()
        feedback = dataclasses.replace(_feedback(booted, said, counts), seconds=seconds)
        if self._is_uml and _BEYOND_REPAIR & {bug.kind for bug in findings(said)}:
            self.close()
        elif feedback.titles or _lasts(one, feedback):
            booted.turns.spoil()
        return feedback

    def _limit(self, one: Input) -> float:
        """Return an input's time limit in seconds: 300, or from the fault-free time."""
        if not one.has_faults or one.workload not in self._usual:
            return _MAX_SECONDS
        least = _MIN_LIVE_SECONDS if WORKLOADS[one.workload].is_live else _MIN_SECONDS
        return min(_MAX_SECONDS, least + _PATIENCE * self._usual[one.workload])

    def _prepared(self, workload: str) -> _Booted:
        """Return a guest with reset functions; boot a new one if the reset fails.

        Raises LabError if it fails in the new guest too.
        """
        for _ in range(2):
            booted = self._ready()
            try:
                if booted.turns.begin(workload):
                    return booted
            except GuestError as error:
                log.info("replacing the guest: %s", error)
            self.close()
        raise LabError("the functions cannot be reset, even in a new guest")

    def _ready(self) -> _Booted:
        """Return the running guest; boot one if there is none, or if it has ended.

        Raises LabError.
        """
        if self._booted is not None and not self._booted.guest.is_running:
            self.close()
        if self._booted is None:
            self._booted = self._boot()
        return self._booted

    def _boot(self) -> _Booted:
        return self._boot_uml() if self._is_uml else self._boot_emulated()

    def _boot_emulated(self) -> _Booted:
        """Boot a guest in QEMU with the plugin that counts blocks; stop it if that fails."""
        blocks = BlockMap()
        arguments = (*self._options.qemu_arguments, *blocks.arguments())
        guest = self._guest(dataclasses.replace(self._options, qemu_arguments=arguments))
        try:
            guest.start()
            return self._installed(guest, ShellTurns(guest), blocks)
        except BaseException:
            guest.stop()
            blocks.close()
            raise

    def _boot_uml(self) -> _Booted:
        """Boot a User-Mode Linux guest, which counts blocks by KCOV; stop it if that fails."""
        guest = self._guest(self._options)
        try:
            guest.start()
            turns = ProgramTurns(guest)
            return self._installed(guest, turns, turns)
        except BaseException:
            guest.stop()
            raise

    def _guest(self, options: GuestOptions) -> Guest:
        return Guest(options, progress=self._watcher.progress, on_wait=self._watcher.on_wait)

    def _installed(self, guest: Guest, turns: Turns, blocks: BlockMap | ProgramTurns) -> _Booted:
        """Load the driver's modules without probing, and return the guest with its sections."""
        self.boots += 1
        self._watcher.work("loading the driver")
        turns.install()
        listing = guest.run(SECTIONS, timeout=_INSTALL_SECONDS).check().stdout
        return _Booted(guest, turns, blocks, Sections(listing.splitlines(), self._modules))

    def _ended(self, booted: _Booted, control: Client, said: str, why: str = "") -> Feedback:
        """Collect the feedback of a lost guest and stop it.

        Without a finding, ``why`` is the title.
        """
        try:
            counts = _counts(control)
        except ControlError:
            counts = {}
        feedback = _feedback(booted, said, counts, why)
        self.close()
        return dataclasses.replace(feedback, is_lost=True)

    def _hung_log(self, guest: Guest) -> str:
        """Return the log of a guest whose driver hangs, with the stacks of blocked tasks (SysRq-w).

        If the guest does not answer, return the console since the turn began.
        """
        try:
            words = "echo w > /proc/sysrq-trigger; dmesg --read-clear"
            seconds = _UML_LOG_SECONDS if self._is_uml else _LOG_SECONDS
            return guest.run(words, timeout=seconds).stdout
        except GuestError:
            return _of_turn(guest.console)


class Sections:
    """Maps addresses to modules and offsets."""

    def __init__(self, lines: Iterable[str], modules: frozenset[str]) -> None:
        """Take ``lines`` of ``MODULE SECTION ADDRESS``. Raises LabError if a module is missing."""
        sections = []
        for line in lines:
            if said := _SECTION.fullmatch(line.strip()):
                sections.append((int(said[3], 16), said[1], said[2]))
        self._sections = sorted(sections)
        self._starts = [start for start, _, _ in self._sections]
        self._modules = modules
        there = {module for _, module, section in self._sections if section == ".text"}
        if missing := sorted(modules - there):
            raise LabError(f"the guest did not list sections of {', '.join(missing)}")

    def blocks(self, executed: Iterable[tuple[int, int]]) -> Iterable[Block]:
        """Yield module and offset of executed blocks in the modules' ``.text``; skip others."""
        for address, _ in executed:
            at = bisect_right(self._starts, address) - 1
            if at < 0:
                continue
            start, module, section = self._sections[at]
            if section == ".text" and module in self._modules:
                yield module, address - start


@dataclasses.dataclass(frozen=True, slots=True)
class _Booted:
    """A guest that is ready for turns, with its executed blocks and sections."""

    guest: Guest
    turns: Turns
    blocks: BlockMap | ProgramTurns
    sections: Sections

    def close(self) -> None:
        """Stop the guest."""
        self.guest.stop()
        self.blocks.close()


def _feedback(booted: _Booted, said: str, counts: _Counts, why: str = "") -> Feedback:
    """Return the feedback of a turn: blocks, fired rules, matched events and findings, worst first.

    Messages of the driver and timeouts are no findings; the panic after an oops is left out.
    Without a finding ``why`` is the title.
    """
    bugs = [one for one in findings(said) if one.kind not in _NO_BUG]
    if any(one.kind is Kind.OOPS for one in bugs):
        bugs = [one for one in bugs if one.kind is not Kind.PANIC]
    titles = tuple(one.title for one in _worst_first(bugs))
    if why and not titles:
        titles = (why,)
    blocks = frozenset(booted.sections.blocks(booted.blocks.executed()))
    fired = frozenset(name for name, (_, times) in counts.items() if times)
    met = {name: events for name, (events, _) in counts.items()}
    return Feedback(blocks, fired, titles, said[-_MAX_LOG_CHARS:] if titles else "", met)


def _lasts(one: Input, feedback: Feedback) -> bool:
    """Return whether a fired rule changed the device beyond the plan."""
    return any(rule["action"] in LASTING and rule["name"] in feedback.fired for rule in one.rules)


def _counts(control: Client) -> _Counts:
    """Return by rule the events that matched and the firings, over all functions."""
    return {
        str(rule["name"]): (
            sum(int(one["met"]) for one in rule["counts"]),
            sum(int(one["fired"]) for one in rule["counts"]),
        )
        for rule in control.rules()
    }


def _of_turn(console: str) -> str:
    """Return a console's text since the last turn began."""
    return console.rpartition(MARK)[2]


def _worst_first(bugs: Sequence[Finding]) -> list[Finding]:
    order = list(Kind)
    return sorted(bugs, key=lambda one: order.index(one.kind))
