"""``mlx5emu explain``: the meaning of an error in a guest's log.

The syndrome of a firmware command leads to the check that refused the command. Vendor and hardware
syndromes of an error CQE or a queue pair are explained by ``emu.cli.shared.error_codes``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

import emu
import firmware_cmds
from emu.cli.shared.control import console
from emu.cli.shared.error_codes import ErrorCodes, codes_in, meanings
from emu.cli.shared.tables import Hanging
from emu.device.cmdif.reasons import Reason, collect
from emu.host.user_error import UserError
from layouts.enums.cmd import Status, op_name

_DRIVERS_OWN = 0xBADD00DE
"""MLX5_DRIVER_SYND (core/cmd.c: mlx5_internal_err_ret_value): the command was not sent."""

_MAX_VENDOR = 0xFF
_SYNDROME = re.compile(r"syndrome \((?:0x)?([0-9a-fA-F]{1,8})\)")
_OPCODE = re.compile(r"\(0x([0-9a-fA-F]{1,4})\) op_mod\(")
_STATUS = re.compile(r"status [a-zA-Z /]+\(0x([0-9a-fA-F]{1,2})\)")


@dataclass(frozen=True)
class Refusal:
    """A refused command in a log; opcode and status are None if only the syndrome is known."""

    syndrome: int
    opcode: int | None = None
    status: int | None = None

    @property
    def command(self) -> str:
        """Name of the command, or empty."""
        return "" if self.opcode is None else op_name(self.opcode)

    @property
    def status_name(self) -> str:
        """Name of the status, or empty."""
        known = {int(status): status.name for status in Status}
        return "" if self.status is None else known.get(self.status, f"{self.status:#x}")


def _failure(
    _ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]
) -> Refusal | ErrorCodes:
    """Return the codes of a syndrome or of a whole line of a log. Raises BadParameter without any.

    A syndrome is hexadecimal, with or without 0x. One byte is a vendor syndrome, because syndromes
    of commands have three bytes.
    """
    line = " ".join(words)
    in_line = _SYNDROME.search(line)
    if not in_line and (codes := codes_in(line)):
        return codes
    text = in_line[1] if in_line else line.strip("(), ")
    try:
        syndrome = int(text, 16)
    except ValueError:
        syndrome = -1
    if not (0 if in_line else 1) <= syndrome < 1 << 32:
        raise click.BadParameter(f"{line!r} has no syndrome, such as 0x1b2c3d")
    if not in_line and syndrome <= _MAX_VENDOR:
        return ErrorCodes(syndrome)
    opcode, status = _OPCODE.search(line), _STATUS.search(line)
    return Refusal(syndrome, opcode and int(opcode[1], 16), status and int(status[1], 16))


@click.command(short_help="Explain a syndrome or error in the kernel log.")
@click.argument("failure", metavar="SYNDROME|LINE", nargs=-1, required=True, callback=_failure)
def explain(failure: Refusal | ErrorCodes) -> None:
    """Explain an error in the guest's log by its SYNDROME, or by the whole LINE.

    For a refused command, prints the check that refused it: CREATE_CQ(0x400) op_mod(0x0) failed,
    status bad resource(0x5), syndrome (0x1b2c3d).

    For an error CQE or a queue pair, prints the meaning of its vendor and hardware syndromes: QP
    137 error: unrecognized status (0x22 0x0 0x95), synd 0x4 vend 0x52 hw_synd 0/146, vendor
    syndrome 0x68. A number of one byte is a vendor syndrome.

    Quote a LINE for the shell.

    Example: mlx5emu explain "synd 0x4 vend 0x52 hw_synd 0/146"
    """
    if isinstance(failure, ErrorCodes):
        _explain_error(failure)
    else:
        _explain_refusal(failure)


def _explain_error(codes: ErrorCodes) -> None:
    """Print the meanings of the codes of an error CQE or queue pair; UserError for unknown ones."""
    found = meanings(codes)
    if not found:
        raise UserError(
            f"{codes}: mlx5emu does not use these codes, and knows no public log with them"
        )
    for line in found:
        _say(line)


def _explain_refusal(refusal: Refusal) -> None:
    """Print each check that can set the syndrome, with status, source line and commands.

    Raises UserError for an unknown syndrome, or one that never has the log's status.
    """
    reasons = [
        reason for reason in collect(emu, firmware_cmds) if reason.syndrome == refusal.syndrome
    ]
    if not reasons:
        raise UserError(_unknown(refusal))
    reasons = _said_by(refusal, reasons)
    for text, status in dict.fromkeys((reason.text, reason.status) for reason in reasons):
        _say(f"{refusal.syndrome:#08x} {status or 'any status'}: {text}")
        for reason in reasons:
            if (reason.text, reason.status) == (text, status):
                _say(f"  {_location(reason, refusal)}")


def _say(line: str) -> None:
    console().print(Hanging(line))


def _unknown(refusal: Refusal) -> str:
    """Return why no check has the syndrome: set by the driver, zero, or from another version."""
    if refusal.syndrome == _DRIVERS_OWN:
        return (
            f"{_DRIVERS_OWN:#x} is set by the driver, which did not send the command: the device"
            " was in error or removed"
        )
    if not refusal.syndrome:
        return "syndrome 0 means no syndrome: no check of the adapter refused this command"
    return (
        f"{refusal.syndrome:#08x} is unknown to this version: the log is from another version or"
        " a real adapter, or a fault plan sets `syndrome`"
    )


def _said_by(refusal: Refusal, reasons: list[Reason]) -> list[Reason]:
    """Return the reasons with the log's status, only those of its command if there are any.

    Without a status in the log all fit. Raises UserError if no reason has that status.
    """
    statuses = ("", refusal.status_name)
    fits = [one for one in reasons if refusal.status is None or one.status in statuses]
    if not fits:
        raise UserError(
            f"{refusal.syndrome:#08x} never has status {refusal.status_name} in this version: the"
            " log is from another version or a real adapter"
        )
    return [one for one in fits if refusal.command in commands_of(one)] or fits


def _location(reason: Reason, refusal: Refusal) -> str:
    """Return source file, line and function of a check, and the commands that it can refuse."""
    path = reason.module.replace(".", "/")
    names = commands_of(reason)
    if refusal.command and (refusal.command in names or not names):
        whose = refusal.command
    else:
        whose = ", ".join(names) if names else "any command that calls it"
    return f"{path}.py:{reason.line} {reason.function}: {whose}"


def commands_of(reason: Reason) -> list[str]:
    """Return the names of the commands that the reason's function handles, else its module's.

    The list is empty for a check that no command's module contains.
    """
    here = [
        command
        for command in firmware_cmds.TABLE.values()
        if command.handler.__module__ == reason.module
    ]
    own = [command.name for command in here if command.handler.__name__ == reason.function]
    return own or [command.name for command in here]
