"""Dispatch of a delivered command to its handler: the checks before it, and the steps of a long
one.

Dispatch checks the state of the HCA, the sender and the lengths; the handler checks everything
else.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from emu.device.cmdif.entry import CommandRequest
from emu.device.cmdif.registry import Command
from emu.device.cmdif.scope import addressed
from emu.device.errors import CmdError
from emu.device.objects.object import DRIVER_UID, SHARED_UID
from emu.device.rounds.portions import Portions
from layouts.enums import Op, Status, op_name

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.parts.unhandled import Unhandled

log = logging.getLogger(__name__)


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
    out = command.layout_out.view(whole)
    given = command.layout_in.view(request.data)
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
        raise CmdError(
            Status.BAD_PARAM_ERR, "only the driver may send this command", f"uid {uid:#x}"
        )


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
