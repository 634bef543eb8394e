"""``mlx5emu explain``: from a syndrome in the guest's log to the check that refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

import emu
import firmware_cmds
from emu.device.cmdif.reasons import Reason, collect
from emu.host.user_error import UserError
from layouts.enums import Status, op_name

_DRIVERS_OWN = 0xBADD00DE
"""MLX5_DRIVER_SYND (core/cmd.c: mlx5_internal_err_ret_value): no adapter has seen the command."""

_SYNDROME = re.compile(r"syndrome \((?:0x)?([0-9a-fA-F]{1,8})\)")
_OPCODE = re.compile(r"\(0x([0-9a-fA-F]{1,4})\) op_mod\(")
_STATUS = re.compile(r"status [a-zA-Z /]+\(0x([0-9a-fA-F]{1,2})\)")


@dataclass(frozen=True)
class Refusal:
    """What a log says of a refused command; a syndrome alone says neither command nor status."""

    syndrome: int
    opcode: int | None = None
    status: int | None = None

    @property
    def command(self) -> str:
        """The command's name, or empty."""
        return "" if self.opcode is None else op_name(self.opcode)

    @property
    def status_name(self) -> str:
        """The status's name, or empty."""
        known = {int(status): status.name for status in Status}
        return "" if self.status is None else known.get(self.status, f"{self.status:#x}")


def _refusal(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> Refusal:
    """A syndrome as the driver prints it (hexadecimal, with or without 0x), or its whole line."""
    line = " ".join(words)
    in_line = _SYNDROME.search(line)
    text = in_line[1] if in_line else line.strip("(), ")
    try:
        syndrome = int(text, 16)
    except ValueError:
        syndrome = -1
    if not (0 if in_line else 1) <= syndrome < 1 << 32:
        raise click.BadParameter(f"{line!r} is no syndrome, such as 0x1b2c3d, and has none")
    opcode, status = _OPCODE.search(line), _STATUS.search(line)
    return Refusal(syndrome, opcode and int(opcode[1], 16), status and int(status[1], 16))


@click.command()
@click.argument("refusal", metavar="SYNDROME|LINE", nargs=-1, required=True, callback=_refusal)
def explain(refusal: Refusal) -> None:
    """Say why a command was refused, from the SYNDROME in the guest's log, or the whole LINE.

    The driver prints it as: CREATE_CQ(0x400) op_mod(0x0) failed, status bad resource(0x5),
    syndrome (0x1b2c3d). In a shell, a line wants quotation marks.
    """
    reasons = [
        reason for reason in collect(emu, firmware_cmds) if reason.syndrome == refusal.syndrome
    ]
    if not reasons:
        raise UserError(_unknown(refusal))
    reasons = _said_by(refusal, reasons)
    for text, status in dict.fromkeys((reason.text, reason.status) for reason in reasons):
        click.echo(f"{refusal.syndrome:#08x} {status or 'any status'}: {text}")
        for reason in reasons:
            if (reason.text, reason.status) == (text, status):
                click.echo(f"  {_place(reason, refusal)}")


def _unknown(refusal: Refusal) -> str:
    if refusal.syndrome == _DRIVERS_OWN:
        return (
            f"{_DRIVERS_OWN:#x} is the driver's own: the device was in error or gone, so the driver"
            " did not send the command"
        )
    if not refusal.syndrome:
        return "syndrome 0 is none: no check of the adapter has refused this command"
    return (
        f"{refusal.syndrome:#08x} is no syndrome of this version: the log comes from another"
        " version, or from a real adapter, or a fault plan says `syndrome`"
    )


def _said_by(refusal: Refusal, reasons: list[Reason]) -> list[Reason]:
    """Those with the status that is told; of these those of the command, if it has any."""
    statuses = ("", refusal.status_name)
    fits = [one for one in reasons if refusal.status is None or one.status in statuses]
    if not fits:
        raise UserError(
            f"{refusal.syndrome:#08x} does not come with {refusal.status_name} in this version:"
            " the log comes from another version, or from a real adapter"
        )
    return [one for one in fits if refusal.command in commands_of(one)] or fits


def _place(reason: Reason, refusal: Refusal) -> str:
    path = reason.module.replace(".", "/")
    names = commands_of(reason)
    if refusal.command and (refusal.command in names or not names):
        whose = refusal.command
    else:
        whose = ", ".join(names) if names else "any command that gets there"
    return f"{path}.py:{reason.line} {reason.function}: {whose}"


def commands_of(reason: Reason) -> list[str]:
    """The commands that the reason's function answers, or else those of its file."""
    here = [
        command
        for command in firmware_cmds.TABLE.values()
        if command.handler.__module__ == reason.module
    ]
    own = [command.name for command in here if command.handler.__name__ == reason.function]
    return own or [command.name for command in here]
