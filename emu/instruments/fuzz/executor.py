"""Carries inputs out in a guest whose blocks are counted, one after the other.

The driver is bound to the functions under a plan, works, and is unbound; the functions are then
reset. A guest that panics, or whose driver does not come back, is replaced by a fresh one.
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
"""How many times longer than without faults the driver may take, beyond :data:`_MIN_SECONDS`."""
_MIN_SECONDS = 10.0
_MIN_LIVE_SECONDS = 5.0
"""The same without probe and removal, in which the driver waits for commands, too."""
_BOOT_SECONDS = 600.0
"""A run of hours should not end because the machine is busy for a while."""
_INSTALL_SECONDS = 300.0
_LOG_SECONDS = 60.0
_UML_LOG_SECONDS = 4.0
"""For the log of a guest that is stuck: with its only processor in a loop it does not answer."""
_HANG_SECONDS = 90.0
_LONGEST_LOG = 200_000
_SECTION = re.compile(r"(\w{1,64}) (\S{1,64}) 0x([0-9a-f]{1,16})")
_KERNEL_ARGUMENTS = ("rcupdate.rcu_expedited=1",)
"""Unbinding waits for RCU many times: half of the time of one input."""
_BEYOND_REPAIR = frozenset(
    {Kind.OOPS, Kind.KASAN, Kind.UBSAN, Kind.LOCKDEP, Kind.HANG, Kind.REFCOUNT}
)
"""After these a kernel that is there again in seconds is not asked to unbind the driver."""
_NO_BUG = frozenset({Kind.DRIVER, Kind.TIMEOUT})
"""What is no mistake of the driver: that it says what the device has done, and that it waits."""


class GuestExecutor:
    """Implements :class:`emu.instruments.fuzz.loop.InputExecutor`; :meth:`close` stops the guest.

    Raises LabError when no guest can be booted, or none without faults comes up.
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
        """Seconds that each workload takes without faults."""
        self.boots = 0
        self.stuck = 0
        """How often the driver did not come back in time."""
        self.emulator_errors: list[str] = []
        """Lines of the device servers' logs about exceptions in the emulator itself."""

    @property
    def kernel(self) -> str:
        """The guest's release; boots the guest if need be."""
        return self._ready().guest.kernel_release

    def close(self) -> None:
        """Stop the guest, and log what its device server has logged of exceptions."""
        if self._booted is None:
            return
        server_log = self._booted.guest.log_files.get("server")
        self._booted.close()
        self._booted = None
        if errors := internal_errors(server_log):
            self.emulator_errors += errors
            log.warning("the emulator has failed: %s: %s", errors[0], server_log)

    def run(self, one: Input) -> Feedback:
        """Carry an input out. The guest is fresh, or as the last reset has left it."""
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
                feedback = self._ended(booted, control, self._waiting(guest))
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
        """How many seconds the driver may take: as long as it likes without faults."""
        if not one.has_faults or one.workload not in self._usual:
            return _MAX_SECONDS
        least = _MIN_LIVE_SECONDS if WORKLOADS[one.workload].is_live else _MIN_SECONDS
        return min(_MAX_SECONDS, least + _PATIENCE * self._usual[one.workload])

    def _prepared(self, workload: str) -> _Booted:
        """A guest whose functions are where a turn begins."""
        for _ in range(2):
            booted = self._ready()
            try:
                if booted.turns.begin(workload):
                    return booted
            except GuestError as error:
                log.info("the guest is replaced: %s", error)
            self.close()
        raise LabError("the functions cannot be reset, not even in a fresh guest")

    def _ready(self) -> _Booted:
        if self._booted is not None and not self._booted.guest.is_running:
            self.close()
        if self._booted is None:
            self._booted = self._boot()
        return self._booted

    def _boot(self) -> _Booted:
        return self._boot_uml() if self._is_uml else self._boot_emulated()

    def _boot_emulated(self) -> _Booted:
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
        self.boots += 1
        self._watcher.work("loading the driver")
        turns.install()
        listing = guest.run(SECTIONS, timeout=_INSTALL_SECONDS).check().stdout
        return _Booted(guest, turns, blocks, Sections(listing.splitlines(), self._modules))

    def _ended(self, booted: _Booted, control: Client, said: str, why: str = "") -> Feedback:
        """The guest is lost to us: what it has told, and a fresh one the next time."""
        try:
            counts = _counts(control)
        except ControlError:
            counts = {}
        feedback = _feedback(booted, said, counts, why)
        self.close()
        return dataclasses.replace(feedback, is_lost=True)

    def _waiting(self, guest: Guest) -> str:
        """The kernel's log of a guest whose driver does not come back, with who waits for what."""
        try:
            words = "echo w > /proc/sysrq-trigger; dmesg --read-clear"
            seconds = _UML_LOG_SECONDS if self._is_uml else _LOG_SECONDS
            return guest.run(words, timeout=seconds).stdout
        except GuestError:
            return _of_turn(guest.console)


class Sections:
    """Which module's code is at an address."""

    def __init__(self, lines: Iterable[str], modules: frozenset[str]) -> None:
        """``lines`` are ``MODULE SECTION ADDRESS``. Raises LabError when a module is not there."""
        sections = []
        for line in lines:
            if said := _SECTION.fullmatch(line.strip()):
                sections.append((int(said[3], 16), said[1], said[2]))
        self._sections = sorted(sections)
        self._starts = [start for start, _, _ in self._sections]
        self._modules = modules
        there = {module for _, module, section in self._sections if section == ".text"}
        if missing := sorted(modules - there):
            raise LabError(f"the guest does not tell where {', '.join(missing)} is")

    def blocks(self, executed: Iterable[tuple[int, int]]) -> Iterable[Block]:
        """Those of the modules' ``.text``, of addresses and lengths."""
        for address, _ in executed:
            at = bisect_right(self._starts, address) - 1
            if at < 0:
                continue
            start, module, section = self._sections[at]
            if section == ".text" and module in self._modules:
                yield module, address - start


@dataclasses.dataclass(frozen=True, slots=True)
class _Booted:
    """A guest that is ready for turns: which blocks it has executed, and what lies where."""

    guest: Guest
    turns: Turns
    blocks: BlockMap | ProgramTurns
    sections: Sections

    def close(self) -> None:
        """Stop it."""
        self.guest.stop()
        self.blocks.close()


def _feedback(booted: _Booted, said: str, counts: _Counts, why: str = "") -> Feedback:
    bugs = [one for one in findings(said) if one.kind not in _NO_BUG]
    if any(one.kind is Kind.OOPS for one in bugs):
        bugs = [one for one in bugs if one.kind is not Kind.PANIC]
    titles = tuple(one.title for one in _worst_first(bugs))
    if why and not titles:
        titles = (why,)
    blocks = frozenset(booted.sections.blocks(booted.blocks.executed()))
    fired = frozenset(name for name, (_, times) in counts.items() if times)
    met = {name: events for name, (events, _) in counts.items()}
    return Feedback(blocks, fired, titles, said[-_LONGEST_LOG:] if titles else "", met)


def _lasts(one: Input, feedback: Feedback) -> bool:
    """Whether a rule has done to the device what stays when the plan is cleared."""
    return any(rule["action"] in LASTING and rule["name"] in feedback.fired for rule in one.rules)


def _counts(control: Client) -> _Counts:
    """By rule: events that it was about, and times that it fired, at all functions together."""
    return {
        str(rule["name"]): (
            sum(int(one["met"]) for one in rule["counts"]),
            sum(int(one["fired"]) for one in rule["counts"]),
        )
        for rule in control.rules()
    }


def _of_turn(console: str) -> str:
    """What a console has shown since the last turn began."""
    return console.rpartition(MARK)[2]


def _worst_first(bugs: Sequence[Finding]) -> list[Finding]:
    order = list(Kind)
    return sorted(bugs, key=lambda one: order.index(one.kind))
