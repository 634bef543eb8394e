"""``mlx5emu explain``: from a syndrome in the guest's log to the check that refused."""

from __future__ import annotations

import click

import emu
import firmware_cmds
from emu.cmdif.reasons import Reason, collect
from emu.host.user_error import UserError


def _number(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """A syndrome as the driver prints it: hexadecimal, with or without 0x."""
    try:
        number = int(value.strip("(),"), 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 32:
        raise click.BadParameter(f"{value!r} is no syndrome, such as 0x1b2c3d")
    return number


@click.command()
@click.argument("syndrome", callback=_number)
def explain(syndrome: int) -> None:
    """Say why a command was refused, from the SYNDROME in the guest's log.

    The driver prints it as: CREATE_CQ(0x400) op_mod(0x0) failed, status bad resource(0x5),
    syndrome (0x1b2c3d).
    """
    found = [reason for reason in collect(emu, firmware_cmds) if reason.syndrome == syndrome]
    if not found:
        raise UserError(
            f"{syndrome:#08x} is no syndrome of this version:"
            " the log comes from another version, or from a real adapter"
        )
    for text, status in dict.fromkeys((reason.text, reason.status) for reason in found):
        click.echo(f"{syndrome:#08x} {status}: {text}")
        for reason in found:
            if (reason.text, reason.status) == (text, status):
                click.echo(f"  {_place(reason)}")


def _place(reason: Reason) -> str:
    path = reason.module.replace(".", "/")
    names = commands_of(reason)
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
