"""The command interface: doorbell, queue entries, dispatch, completion (PRM "Command interface").

A doorbell names slots; each slot's 64-byte entry is read, its mailboxes are gathered, the command
runs and the entry's ownership goes back to the driver as the very last byte written. When the
driver has an EQ for CMD events, one EQE then names all slots that this round has finished.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emu import mailbox
from emu.errors import CmdError
from emu.mailbox import DeliveryError
from emu.ports import DmaError
from emu.registry import Command
from emu.resources import DRIVER_UID, SHARED_UID
from layouts.cmd import CMD_TYPE_PCIE, INLINE_BYTES, cmd_layout
from layouts.enums import Delivery, EventType, Op, Status, op_name
from layouts.eqe import eqe_cmd

if TYPE_CHECKING:
    from emu.hca import Hca

log = logging.getLogger(__name__)

LOG_SLOTS = 5
LOG_STRIDE = 6
COMMANDS_PER_ROUND = 8

_HEADER_BYTES = 8
_OUT_OFFSET = 0x20
_STATUS_OWN_OFFSET = 0x3F


@dataclass(slots=True)
class Request:
    """One command in a slot, as delivered: what the driver gave and where the answer goes."""

    slot: int
    entry: Any
    data: bytearray
    out: bytearray
    in_blocks: list[int]
    out_blocks: list[int]

    @property
    def opcode(self) -> int:
        """The command's opcode, known or not."""
        return int.from_bytes(self.data[:2], "big")

    @property
    def uid(self) -> int:
        """The user context that the driver sends the command for."""
        return int.from_bytes(self.data[2:4], "big")

    @property
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")


class CommandInterface:
    """The 32 command slots of one function."""

    def __init__(self, hca: Hca, commands: Mapping[int, Command]) -> None:
        self._hca = hca
        self._commands = commands
        self._address = 0
        self._waiting = 0
        self._finished = 0
        self._is_left = False
        """The driver has disabled the interface."""
        self.executed = 0
        """Commands that were run or refused since power-on."""

    def set_address(self, address: int) -> None:
        """Where the command queue lies (a page); the driver says so before its first doorbell."""
        self._address = address
        self._is_left = False

    def forget(self) -> None:
        """The driver has gone: no slot is served until the next one says where its queue lies."""
        self._address = self._waiting = self._finished = 0
        self._is_left = True

    def doorbell(self, vector: int) -> None:
        """Note the slots that the driver has filled."""
        if not self._address:
            # Work that the driver has not stopped (6.1: its cache of keys) may ring once more.
            level = logging.DEBUG if self._is_left else logging.WARNING
            log.log(level, "command doorbell %#x, and the queue has no address", vector)
            return
        self._waiting |= vector

    @property
    def busy(self) -> bool:
        """True while slots wait to be served."""
        return self._waiting != 0

    def run(self) -> None:
        """Serve up to COMMANDS_PER_ROUND waiting slots and report those that are done."""
        for _ in range(COMMANDS_PER_ROUND):
            if not self._waiting:
                break
            slot = (self._waiting & -self._waiting).bit_length() - 1
            self._waiting &= self._waiting - 1
            self._serve(slot)
        self.report()

    def _serve(self, slot: int) -> None:
        by_event = self._hca.event_eq(EventType.CMD)
        address = self._address + (slot << LOG_STRIDE)
        try:
            entry = cmd_layout.view(bytearray(self._hca.memory.read(address, cmd_layout.size)))
            if not entry.status_own & 1:
                log.warning("command slot %d: doorbell, but the entry is the driver's", slot)
                return
            try:
                request = self._take(slot, entry)
            except DeliveryError as error:
                log.warning("command slot %d: %s: %s", slot, error.status.name, error)
                if self._hca.tracer:
                    self._hca.tracer.undelivered(slot, entry, error)
                self._hand_back(slot, entry, error.status)
            else:
                if self._hca.faults is None:
                    self.execute(request)
                    self.deliver(request)
                elif not self._hca.faults.commands.serve(self, request):
                    return
        except DmaError as error:
            log.warning("command slot %d: %s", slot, error)
            return
        # The command that makes the CMD EQ, and the one that destroys it, are polled.
        if by_event is not None and by_event is self._hca.event_eq(EventType.CMD):
            self._finished |= 1 << slot

    def _take(self, slot: int, entry: Any) -> Request:
        """Check the entry and both mailbox chains. Raises DeliveryError."""
        if entry.type != CMD_TYPE_PCIE:
            raise DeliveryError(Delivery.CMD_DESCR_ERR, f"command type {entry.type:#x}")
        if entry.inlen < _HEADER_BYTES:
            raise DeliveryError(Delivery.IN_LENGTH_ERR, f"input of {entry.inlen} bytes")
        if entry.outlen < _HEADER_BYTES:
            raise DeliveryError(Delivery.OUT_LENGTH_ERR, f"output of {entry.outlen} bytes")
        memory, token = self._hca.memory, entry.token
        in_blocks = mailbox.walk(memory, entry.in_ptr, entry.inlen, token, Delivery.IN_LENGTH_ERR)
        out_blocks = mailbox.walk(
            memory, entry.out_ptr, entry.outlen, token, Delivery.OUT_LENGTH_ERR
        )
        if self._signed:
            if mailbox.xor8(entry.buf) != 0xFF:
                raise DeliveryError(Delivery.SIGNAT_ERR, "queue entry")
            mailbox.check_signatures(memory, in_blocks)
        data = mailbox.gather(memory, getattr(entry, "in"), in_blocks, entry.inlen)
        request = Request(slot, entry, data, bytearray(entry.outlen), in_blocks, out_blocks)
        command = self._commands.get(request.opcode)
        if command is not None:
            command.complete(data)
        return request

    @property
    def _signed(self) -> bool:
        return bool(self._hca.caps.general.cmdif_checksum)

    def deliver(self, request: Request, delivery: int = Delivery.OK) -> None:
        """Give the command's output and its slot back to the driver. Raises DmaError."""
        mailbox.scatter(self._hca.memory, request.out_blocks, request.out)
        if self._signed:
            mailbox.sign(self._hca.memory, request.out_blocks)
        request.entry.out = request.out[:INLINE_BYTES].ljust(INLINE_BYTES, b"\0")
        self._hand_back(request.slot, request.entry, delivery)

    def finish(self, slot: int) -> None:
        """Have the next report name a slot, if the driver wants events now."""
        if self._hca.event_eq(EventType.CMD) is not None:
            self._finished |= 1 << slot

    def execute(self, request: Request, refusal: CmdError | None = None) -> None:
        """Run one delivered command; its output, status and syndrome are in ``request.out``.

        With a ``refusal`` it does not run and gets that.
        """
        hca = self._hca
        self.executed += 1
        command = self._commands.get(request.opcode)
        traced = hca.tracer.command(hca, request, command) if hca.tracer else None
        error: CmdError | None = None
        hca.caller.uid = request.uid
        try:
            if refusal is not None:
                raise refusal
            self._dispatch(request, command)
        except CmdError as refused:
            error = refused
            if command is not None:  # an unknown one has had its line, and is counted
                name = op_name(request.opcode)
                log.warning("%s refused: %s: %s", name, refused.status.name, refused)
        except Exception:
            log.exception("%s: internal error", op_name(request.opcode))
            hca.internal_errors += 1
            error = CmdError(Status.INT_ERR, "internal error of the emulator")
        if error:
            request.out[:] = bytes(len(request.out))
            request.out[0] = error.status
            request.out[4:8] = error.syndrome.to_bytes(4, "big")
        hca.caller.uid = DRIVER_UID
        if traced:
            traced(error)

    def _dispatch(self, request: Request, command: Command | None) -> None:
        if command is None:
            raise self._unknown(request.opcode)
        if self._hca.state < command.needs:
            raise CmdError(
                Status.BAD_SYS_STATE_ERR, "command comes too early", f"HCA {self._hca.state.name}"
            )
        _check_lengths(request, command)
        uid = request.uid
        if uid not in (DRIVER_UID, SHARED_UID) and self._hca.uctxs.get(uid) is None:
            raise CmdError(Status.BAD_RES_ERR, "no such user context", f"uid {uid:#x}")
        is_cut = len(request.out) < command.layout_out.size
        whole = bytearray(command.layout_out.size) if is_cut else request.out
        out = command.layout_out.view(whole)
        command.handler(self._hca, command.layout_in.view(request.data), out)
        if is_cut:
            request.out[:] = whole[: len(request.out)]

    def _unknown(self, opcode: int) -> CmdError:
        name = op_name(opcode)
        asked = self._hca.missing.commands
        if not asked[opcode]:
            where = name.lower() if opcode in Op._value2member_map_ else "a new layout"
            log.warning(
                "%s (%#x) is not answered: BAD_OP_ERR; to add it, declare %s_in/_out in layouts/"
                " and a @command(Op.%s, ...) function in firmware_cmds/",
                name, opcode, where, name,
            )  # fmt: skip
        asked[opcode] += 1
        return CmdError(Status.BAD_OP_ERR, "command not supported", f"{name} {opcode:#x}")

    def _hand_back(self, slot: int, entry: Any, delivery: int) -> None:
        """Write output and signature and, last of all, the ownership byte."""
        entry.status_own = delivery << 1
        if self._signed:
            entry.sig = 0
            entry.sig = ~mailbox.xor8(entry.buf) & 0xFF
        at = self._address + (slot << LOG_STRIDE)
        memory = self._hca.memory
        memory.write(at + _OUT_OFFSET, entry.buf[_OUT_OFFSET:_STATUS_OWN_OFFSET])
        memory.write(at + _STATUS_OWN_OFFSET, entry.buf[_STATUS_OWN_OFFSET:])

    def report(self) -> None:
        """One CMD event for all slots finished since the last one, if the driver wants events."""
        finished, self._finished = self._finished, 0
        if finished:
            self._hca.raise_event(EventType.CMD, bytes(eqe_cmd.new(vector=finished)))


def _check_lengths(request: Request, command: Command) -> None:
    """Input and output are long enough. Raises BAD_INP_LEN_ERR or BAD_OUTP_LEN_ERR."""
    if len(request.data) < command.least_in:
        raise CmdError(
            Status.BAD_INP_LEN_ERR,
            "input too short",
            f"{len(request.data)} of {command.least_in} bytes",
        )
    if len(request.out) < command.least_out:
        raise CmdError(
            Status.BAD_OUTP_LEN_ERR,
            "output too short",
            f"{len(request.out)} of {command.least_out} bytes",
        )
