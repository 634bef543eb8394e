"""One command of a slot: fetched from its entry and mailboxes, checked, run, and written back.

The last byte of the 64-byte queue entry holds the ownership bit and is written last. Entry and
mailboxes have signatures when the driver has enabled them (PRM "Command interface").

Dispatch checks the state of the HCA, the sender and the lengths; the handler checks everything
else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.cmdif import mailbox
from emu.device.cmdif.mailbox import DeliveryError
from emu.device.cmdif.registry import Command
from emu.device.cmdif.scope import addressed
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.object import DRIVER_UID, SHARED_UID
from emu.device.rounds.portions import Portions
from layouts.cmd import CMD_TYPE_PCIE, INLINE_BYTES, cmd_layout
from layouts.enums.cmd import DeliveryStat, Op, Status, op_name

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.parts.unhandled import Unhandled

log = logging.getLogger(__name__)

STATUS_OWN_OFFSET: Final = 0x3F
"""Offset of the delivery status and the ownership bit."""
_HEADER_BYTES: Final = 8
_IN_OFFSET: Final = 0x10
_OUT_OFFSET: Final = 0x20
_OUT_END: Final = _OUT_OFFSET + INLINE_BYTES
_SIG_OFFSET: Final = 0x3D
_FIELDS: Final = cmd_layout.packer("type", "inlen", "in_ptr", "out_ptr", "outlen", "token")
_LIST_BYTES: Final = 8
"""Unit of the lists behind a layout (pages, destinations, pairs of numbers), in bytes."""
_OPCODE: Final = Struct(">H")
_IN_LENGTH: Final = DeliveryStat.IN_LENGTH_ERR
_OUT_LENGTH: Final = DeliveryStat.OUT_LENGTH_ERR


class CommandRequest:
    """One delivered command in a slot: its input, and the buffers of its output.

    Source: PRM "Command queue entry".
    """

    __slots__ = ("address", "data", "entry", "in_blocks", "out", "out_blocks", "slot")

    def __init__(
        self,
        slot: int,
        address: int,
        entry: bytearray,
        data: bytearray,
        out: bytearray,
        in_blocks: list[int],
        out_blocks: list[int],
    ) -> None:
        """Store the fields; ``entry`` is a copy of the slot's entry, which is at ``address``."""
        self.slot = slot
        self.address = address
        self.entry = entry
        self.data = data
        self.out = out
        self.in_blocks = in_blocks
        self.out_blocks = out_blocks

    @property
    def opcode(self) -> int:
        """Opcode of the command, known or not."""
        return int.from_bytes(self.data[:2], "big")

    @property
    def op_mod(self) -> int:
        """The opcode modifier."""
        return int.from_bytes(self.data[6:8], "big")


def fetch(
    hca: Hca, commands: Mapping[int, Command], slot: int, address: int, entry: bytearray
) -> Portions[CommandRequest]:
    """Return the command in a queue entry, after checks of the entry and both mailbox chains.

    The output is only allocated, as zeros; a short input of a known opcode is padded. Raises
    DeliveryError: CMD_DESCR_ERR for a type other than PCIe, IN_LENGTH_ERR or OUT_LENGTH_ERR below 8
    bytes, and the errors of :func:`mailbox.walk`. With ``cmdif_checksum``, a wrong signature is
    SIGNAT_ERR. Raises DmaError for blocks that are unmapped meanwhile.
    """
    kind, inlen, in_ptr, out_ptr, outlen, token = _FIELDS.unpack(entry)
    if kind != CMD_TYPE_PCIE:
        raise DeliveryError(DeliveryStat.CMD_DESCR_ERR, f"command type {kind:#x}")
    if inlen < _HEADER_BYTES:
        raise DeliveryError(_IN_LENGTH, f"input of {inlen} bytes")
    if outlen < _HEADER_BYTES:
        raise DeliveryError(_OUT_LENGTH, f"output of {outlen} bytes")
    memory = hca.memory
    in_blocks: list[int] = []
    out_blocks: list[int] = []
    if inlen > INLINE_BYTES:
        in_blocks = yield from mailbox.walk(memory, in_ptr, inlen, token, _IN_LENGTH)
    if outlen > INLINE_BYTES:
        out_blocks = yield from mailbox.walk(memory, out_ptr, outlen, token, _OUT_LENGTH)
    if hca.caps.has_cmd_signatures:
        if mailbox.xor8(entry) != 0xFF:
            raise DeliveryError(DeliveryStat.SIGNAT_ERR, "queue entry")
        yield from mailbox.check_signatures(memory, in_blocks)
    if in_blocks:
        inline = bytes(entry[_IN_OFFSET:_OUT_OFFSET])
        data = yield from mailbox.gather(memory, inline, in_blocks, inlen)
    else:
        data = entry[_IN_OFFSET : _IN_OFFSET + min(inlen, INLINE_BYTES)]
    command = commands.get(_OPCODE.unpack_from(data)[0])
    if command is not None and len(data) != command.size_in:
        _pad(command, data)
    return CommandRequest(slot, address, entry, data, bytearray(outlen), in_blocks, out_blocks)


def _pad(command: Command, data: bytearray) -> None:
    """Pad an accepted input in place: to its layout, and to a whole last entry of its list.

    An input shorter than ``min_in`` stays, because it is refused later. Snabb's driver
    (apps/mellanox/connectx.lua) leaves out the reserved half of the last destination of a flow
    table entry.
    """
    if command.min_in <= len(data):
        missing = command.size_in - len(data)
        data.extend(bytes(missing if missing > 0 else -len(data) % _LIST_BYTES))


def dispatch(
    hca: Hca, request: CommandRequest, uid: int, command: Command | None
) -> Portions[None]:
    """Check a command of ``uid`` and run its handler, in steps; the handler writes ``request.out``.

    Raises CmdError: BAD_OP_ERR if ``command`` is None, as no handler exists. The checks of state,
    sender, lengths and addressed function refuse too, and the handler itself. An output shorter
    than the layout gets the start of the structure.
    """
    if command is None:
        raise _unknown(hca.counts.unhandled, request.opcode)
    if hca.state < command.needs or uid != DRIVER_UID:
        _check_standing(hca, uid, command)
    size = len(request.out)
    if not command.min_in <= len(request.data) <= command.max_in or size < command.min_out:
        raise _wrong_length(request, command)
    is_cut = size < command.size_out
    whole = bytearray(command.size_out) if is_cut else request.out
    # ``view`` without a call, and without another check of the lengths.
    out, given = (
        command.layout_out.__new__(command.layout_out), command.layout_in.__new__(command.layout_in)
    )  # fmt: skip
    out.buf, given.buf = whole, request.data
    out.base = given.base = 0
    target = hca
    if command.scope:
        target = addressed(hca, given, command.scope, of_others=command.of_others)
    work = command.handler(target, given, out)
    if work is not None:
        yield from _in_portions(hca, uid, command, work)
    if is_cut:
        request.out[:] = whole[: len(request.out)]


def _check_standing(hca: Hca, uid: int, command: Command) -> None:
    """Raise CmdError unless the HCA's state and the sender allow this command.

    BAD_SYS_STATE_ERR in a state before ``command.needs``; BAD_RES_ERR for a ``uid`` that no user
    context has; BAD_PARAM_ERR for a privileged command with a user context's ``uid``.
    """
    if hca.state < command.needs:
        raise CmdError(
            Status.BAD_SYS_STATE_ERR,
            "command is not allowed in this state of the HCA",
            f"HCA {hca.state.name}",
        )
    if uid in (DRIVER_UID, SHARED_UID):
        return
    if hca.uctxs.get(uid) is None:
        raise CmdError(Status.BAD_RES_ERR, "no such user context", f"uid {uid:#x}")
    if command.privileged:
        raise BadParamError("only the driver may send this command", f"uid {uid:#x}")


def _in_portions(hca: Hca, uid: int, command: Command, work: Portions[None]) -> Portions[None]:
    """Run a handler's steps, one per round, with the sender's uid as caller in each step only.

    Raises the handler's CmdError, and BAD_SYS_STATE_ERR when the HCA is torn down between two
    steps. Before each further step, state and sender are checked again. The handler's generator is
    closed at any end.
    """
    teardowns = hca.counts.teardowns
    try:
        for _ in work:
            hca.caller.uid = DRIVER_UID
            yield
            if hca.counts.teardowns != teardowns:
                raise CmdError(Status.BAD_SYS_STATE_ERR, "HCA was torn down meanwhile")
            _check_standing(hca, uid, command)
            hca.caller.uid = uid
    finally:
        work.close()


def _unknown(unhandled: Unhandled, opcode: int) -> CmdError:
    """Count an opcode without a handler in ``unhandled``, and return a BAD_OP_ERR refusal.

    Only the first use of an opcode logs a warning.
    """
    name = op_name(opcode)
    asked = unhandled.commands
    if not asked[opcode]:
        where = name.lower() if opcode in Op._value2member_map_ else "a new layout"
        log.warning(
            "%s (%#x) is not answered: BAD_OP_ERR; to add it, declare %s_in/_out in layouts/"
            " and a @command(Op.%s, ...) function in firmware_cmds/",
            name, opcode, where, name,
        )  # fmt: skip
    asked[opcode] += 1
    return CmdError(Status.BAD_OP_ERR, "command not supported", f"{name} {opcode:#x}")


def _wrong_length(request: CommandRequest, command: Command) -> CmdError:
    """Return the refusal of an unsupported length of the input, or else of the output.

    BAD_INP_LEN_ERR for an input shorter than ``min_in`` or longer than ``max_in``; BAD_OUTP_LEN_ERR
    for an output shorter than ``min_out``. A longer output is accepted.
    """
    if len(request.data) < command.min_in:
        return CmdError(
            Status.BAD_INP_LEN_ERR,
            "input too short",
            f"{len(request.data)} of {command.min_in} bytes",
        )
    if len(request.data) > command.max_in:
        return CmdError(
            Status.BAD_INP_LEN_ERR,
            "input too long",
            f"{len(request.data)} bytes, at most {command.max_in}",
        )
    return CmdError(
        Status.BAD_OUTP_LEN_ERR,
        "output too short",
        f"{len(request.out)} of {command.min_out} bytes",
    )


def complete(hca: Hca, request: CommandRequest, delivery: int = DeliveryStat.OK) -> Portions[None]:
    """Write the command's output to guest memory and return its slot to the driver.

    The mailboxes are written first, signed if ``cmdif_checksum`` is set, then the entry with
    ``delivery`` as its status. Raises DmaError; the entry then stays owned by the device.
    """
    if request.out_blocks:
        yield from mailbox.scatter(hca.memory, request.out_blocks, request.out)
        if hca.caps.has_cmd_signatures:
            yield from mailbox.sign(hca.memory, request.out_blocks)
    request.entry[_OUT_OFFSET:_OUT_END] = request.out[:INLINE_BYTES].ljust(INLINE_BYTES, b"\0")
    write_back(hca, request.address, request.entry, delivery)


def write_back(hca: Hca, at: int, entry: bytearray, delivery: int) -> None:
    """Write an entry's output and signature, then ``delivery`` and the cleared ownership bit.

    The last byte returns the slot to the driver. Signs only with ``cmdif_checksum``. Raises
    DmaError.
    """
    entry[STATUS_OWN_OFFSET] = delivery << 1
    if hca.caps.has_cmd_signatures:
        entry[_SIG_OFFSET] = 0
        entry[_SIG_OFFSET] = ~mailbox.xor8(entry) & 0xFF
    memory = hca.memory
    memory.write(at + _OUT_OFFSET, entry[_OUT_OFFSET:STATUS_OWN_OFFSET])
    memory.write(at + STATUS_OWN_OFFSET, entry[STATUS_OWN_OFFSET:])
