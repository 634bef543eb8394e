"""The command interface: doorbell, slots, polling, completion (PRM "Command interface").

A doorbell names slots. The interface fetches each slot's command from its entry, runs it and writes
its output back (``request.py``). If the driver has an EQ for CMD events, one EQE then names all
slots that were finished in this round.

Queues that were rung before a command are polled once before it. Drivers ring for sends, and then
may change their CQ by a command.

A command may carry megabytes, and a handler may need many milliseconds. A long command runs in
steps, one per round, while short commands in other slots overtake it. Only the first of the long
commands is in progress; the input of the others has not been read yet.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from emu.device.cmdif.mailbox import MAX_COMMAND_BYTES, DeliveryError
from emu.device.cmdif.registry import Command
from emu.device.cmdif.request import (
    STATUS_OWN_OFFSET,
    CommandRequest,
    complete,
    dispatch,
    fetch,
    write_back,
)
from emu.device.engine import lifecycle
from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.objects.object import DRIVER_UID
from emu.device.ports import DmaError
from emu.device.rounds.budget import POLL_BUDGET, SEGMENT_BUDGET
from emu.device.rounds.costs import LOG_FREED_BYTES_PER_STEP, STEPS_PER_COMMAND
from emu.device.rounds.portions import Portions, goes_on
from emu.device.rounds.sizes import COMMANDS_PER_ROUND
from emu.device.state.points import FaultPoint, FaultPoints
from layouts.cmd import cmd_layout
from layouts.enums.cmd import DeliveryStat, Status, op_name
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_cmd

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

COMMAND_POINT: Final[FaultPoint[[CommandInterface, CommandRequest], Portions[bool]]] = FaultPoint(
    "cmd"
)
"""A delivered command; returns whether it is done and its completion may be reported."""

LOG_SLOTS: Final = 5
LOG_STRIDE: Final = 6
SHORT_BYTES = 16 << 10
"""Largest input plus output of a command that is served at once, in bytes; longer ones are queued.
"""


_CMD: Final = EventType.CMD
_ENTRY_BYTES: Final = cmd_layout.size
_LENGTHS: Final = cmd_layout.packer("inlen", "outlen")
_HEADER: Final = Struct(">HH")
"""Opcode, and the user context for which the driver sends the command."""


class CommandTracer(Protocol):
    """Receives the trace points of commands."""

    def on_command(
        self, hca: Hca, request: CommandRequest, command: Command | None
    ) -> Callable[[CmdError | None], None]:
        """Record the start of a command; ``command`` is None for an opcode without a handler.

        Returns a function that the caller calls when the command has run, with its refusal if any.
        """

    def undelivered(self, slot: int, entry: cmd_layout, error: DeliveryError) -> None:
        """Record a command that was not accepted; ``entry`` is a view of its queue entry
        (cmd_layout).
        """


class CommandInterface:
    """The 32 command slots of one function."""

    def __init__(
        self, hca: Hca, commands: Mapping[int, Command], tracer: CommandTracer | None = None
    ) -> None:
        self._hca = hca
        self._tracer = tracer
        self._commands = commands
        self._address = 0
        self._waiting = 0
        """Slots with a pending doorbell, one bit each."""
        self._working = 0
        """Slots with a command in progress, one bit each."""
        self.line: deque[Portions[None]] = deque()
        """Commands of several steps; only the first is in progress.

        All belong to the command queue of one driver: a new driver gets a new deque.
        """
        self._finished = 0
        self._follows_polls = False
        """Whether queues were ready before a pending slot, and have to be polled first."""
        self._is_delayed = False
        """Whether such polls have used up a round: the next one does not poll first."""
        self.busy = False
        """Whether slots are pending or long commands are queued."""
        self._is_left = False
        """Whether the driver has disabled the interface."""
        self.executed = 0
        """Number of commands that were run or refused since power-on."""
        self.refused = 0
        """Number of refused commands since power-on."""

    def set_address(self, address: int) -> None:
        """Set the address of the command queue (a page), and accept doorbells from now on.

        A changed address drops the commands of the old queue without a completion; the same address
        changes nothing in progress. With address 0, doorbells are ignored.
        """
        if address != self._address:
            self._drop()
        self._address = address
        self._is_left = False

    def forget(self) -> None:
        """Drop all commands without a completion, and ignore doorbells until ``set_address``."""
        self._drop()
        self._address = 0
        self._is_left = True

    def _drop(self) -> None:
        """Drop all pending commands and those in progress, without a completion or an event.

        The generators of long commands are closed, and the queue of long commands is replaced.
        """
        self._waiting = self._working = self._finished = 0
        self.busy = self._follows_polls = self._is_delayed = False
        for work in self.line:
            work.close()
        self.line.clear()
        self.line = deque()

    def doorbell(self, vector: int) -> None:
        """Record the slots that the driver has filled, one bit each, for the next ``run``.

        Slots with a command in progress are ignored. Without a queue address the doorbell is only
        logged.
        """
        if not self._address:
            # A driver's late work (6.1: its cache of keys) may ring the doorbell once more.
            level = logging.DEBUG if self._is_left else logging.WARNING
            log.log(level, "command doorbell %#x ignored: no command queue address is set", vector)
            return
        if not self._is_delayed and self._hca.scheduler.ready:
            self._follows_polls = True
        self._waiting |= vector & ~self._working
        self.busy = bool(self._waiting or self.line)

    def run(self) -> None:
        """Run one step of the first long command, start pending slots, and send one CMD event.

        First polls the queues once whose doorbells came before the commands'. If that uses up the
        budget, all commands wait for the next round, which does not poll first again. Starts at
        most COMMANDS_PER_ROUND slots, the lowest numbers first, and none once the budget is used
        up; the others wait for the next round. ``busy`` then says whether any are left. Memory that
        commands have freed is charged to the budget, as freeing a long list takes milliseconds.
        """
        budget, ledger = self._hca.budget, self._hca.ledger
        if self._follows_polls:
            self._follows_polls = False
            lifecycle.run(self._hca)
            if budget.steps > POLL_BUDGET:
                self._is_delayed = True
                return
        used = ledger.used
        if self.line:
            self._first_in_line()
        for _ in range(COMMANDS_PER_ROUND):
            if used > ledger.used:
                budget.charge(used - ledger.used >> LOG_FREED_BYTES_PER_STEP)
            used = ledger.used
            waiting = self._waiting
            if not waiting or budget.steps > POLL_BUDGET:
                break
            slot = (waiting & -waiting).bit_length() - 1
            self._waiting = waiting & waiting - 1
            self._working |= 1 << slot
            budget.charge(STEPS_PER_COMMAND)
            # ``begin`` without a call. A command that drops all replaces the line.
            line, work = self.line, self._serve(slot)
            if next(work, False) is None:
                line.append(work)
        self._is_delayed = False
        self.busy = bool(self._waiting or self.line)
        if self._finished:
            self.report()

    def _first_in_line(self) -> None:
        """Charge and run one step of the first long command; remove the command once it is done."""
        line = self.line
        self._hca.budget.charge(SEGMENT_BUDGET)
        work = line.popleft()
        if goes_on(work):
            line.appendleft(work)

    def begin(self, work: Portions[None]) -> None:
        """Run the first step of ``work`` at once; queue the rest with the long commands."""
        line = self.line
        if goes_on(work):
            line.append(work)
            self.busy = bool(self._waiting or self.line)

    def _serve(self, slot: int) -> Portions[None]:
        """Process a slot's command from its entry to its completion.

        The finished slot joins the next CMD event if the driver had the same CMD EQ before and
        after the command. Otherwise the driver polls. A command of more than SHORT_BYTES first
        queues behind the other long ones; the ledger counts its bytes, at most those of two
        accepted mailbox chains. An entry that the driver still owns, and a DmaError, are logged;
        the slot then stays as it is.
        """
        hca = self._hca
        by_event = hca.events.subscribers.get(_CMD)
        address = self._address + (slot << LOG_STRIDE)
        try:
            entry = bytearray(hca.memory.read(address, _ENTRY_BYTES))
            if not entry[STATUS_OWN_OFFSET] & 1:
                log.warning(
                    "command slot %d: doorbell ignored: the entry is still owned by the driver",
                    slot,
                )
                is_done = False
            elif (size := sum(_LENGTHS.unpack(entry))) <= SHORT_BYTES:
                is_done = yield from self._answer(slot, address, entry)
            else:
                yield  # queue behind the other long commands
                with hca.ledger.at_work(min(size, 2 * MAX_COMMAND_BYTES)):
                    is_done = yield from self._answer(slot, address, entry)
        except DmaError as error:
            log.warning("command slot %d: %s", slot, error)
            is_done = False
        self._working &= ~(1 << slot)
        # The command that creates the CMD EQ, and the one that destroys it, are polled.
        if is_done and by_event is not None and by_event is hca.events.subscribers.get(_CMD):
            self._finished |= 1 << slot

    def _answer(self, slot: int, address: int, entry: bytearray) -> Portions[bool]:
        """Serve an entry that the device owns; return whether its completion has been written.

        A DeliveryError is logged, traced and written as the entry's delivery status; the command
        does not run. Loaded fault rules see the command first, and may return False. Raises
        DmaError.
        """
        try:
            request = yield from fetch(self._hca, self._commands, slot, address, entry)
        except DeliveryError as error:
            log.warning("command slot %d: %s: %s", slot, error.status.name, error)
            if self._tracer:
                self._tracer.undelivered(slot, cmd_layout.view(entry), error)
            write_back(self._hca, address, entry, error.status)
            return True
        if self._hca.probes.faults is not None:
            return (yield from self._show_to_faults(self._hca.probes.faults, request))
        yield from self.execute(request)
        yield from complete(self._hca, request)
        return True

    def _show_to_faults(self, faults: FaultPoints, request: CommandRequest) -> Portions[bool]:
        """Show the command to the fault rules; return whether its completion may be reported.

        False where a rule defers or drops it. A function that is off the bus does not run the
        command.
        """
        return not faults.is_gone and (yield from faults.show(COMMAND_POINT, self, request))

    def deliver(self, request: CommandRequest, delivery: int = DeliveryStat.OK) -> Portions[None]:
        """Write the output back, see :func:`emu.device.cmdif.request.complete`. Raises DmaError."""
        return complete(self._hca, request, delivery)

    def finish(self, slot: int) -> None:
        """Name a slot in the next CMD event; do nothing if the driver has no CMD EQ now."""
        if self._hca.events.subscribers.get(_CMD) is not None:
            self._finished |= 1 << slot

    def execute(self, request: CommandRequest, refusal: CmdError | None = None) -> Portions[None]:
        """Run one delivered command; write output, status and syndrome into ``request.out`` only.

        A refusal (CmdError, or ``refusal`` instead of a run) zeroes the output, sets its status and
        syndrome, and counts in ``refused``. Any other exception is logged, counts in
        ``hca.health.internal_errors`` and becomes INT_ERR. The tracer sees start and end.
        """
        hca = self._hca
        self.executed += 1
        opcode: int
        uid: int
        opcode, uid = _HEADER.unpack_from(request.data)
        command = self._commands.get(opcode)
        traced = self._tracer.on_command(hca, request, command) if self._tracer else None
        error: CmdError | None = None
        hca.caller.uid = uid
        try:
            if refusal is not None:
                raise refusal
            yield from dispatch(hca, request, uid, command)
        except CmdError as refused:
            error = refused.with_traceback(None)  # its frames refer to it again
            if command is not None:  # an unknown opcode has been logged and counted
                name = op_name(opcode)
                log.warning("%s refused: %s: %s", name, refused.status.name, refused)
        except Exception:
            log.exception("%s: internal error", op_name(opcode))
            hca.health.internal_errors += 1
            error = CmdError(Status.INT_ERR, "internal error of the emulator")
        if error:
            self.refused += 1
            request.out[:] = bytes(len(request.out))
            request.out[0] = error.status
            request.out[4:8] = error.syndrome.to_bytes(4, "big")
        hca.caller.uid = DRIVER_UID
        if traced:
            traced(error)

    def report(self) -> None:
        """Send one CMD event for all slots finished since the last one; none without such slots.

        Without an EQ for CMD events the event is dropped.
        """
        finished, self._finished = self._finished, 0
        if finished:
            eq_engine.raise_event(self._hca.events, _CMD, bytes(eqe_cmd.new(vector=finished)))
