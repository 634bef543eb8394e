"""README of this package: a table of all implemented commands, from the registry."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from emu.device.cmdif.registry import Command

_HEAD = """\
# Commands that are answered

Written by `scripts/gen-commands-table` from the registry; a test fails when it is stale.

`objects/` has the commands on objects that a driver creates, its `qp/` those on queue pairs.
`memory/` has those on keys and on the adapter's memory, `steering/` those on flow tables,
`function/` those on a function as a whole, `regs/` the access registers.

To add a command, declare its structures in the directory of the same name in `layouts/`, write one
decorated function here and its tests in `tests/device/`. *State* is the minimum state of the HCA in
which the command is accepted. *From* is its sender: only the driver, or also a process (DEVX)
through the driver.

A number that names no object of the sender gets BAD_RES_ERR; in a command that changes or destroys
the object, it gets BAD_RES_STATE_ERR. An object in use is not destroyed: BAD_RES_STATE_ERR. A full
table, or a function whose share of host memory is used up, gets LIM_ERR. An SRQ of another form
counts as no object. The handlers' docstrings add the other refusals.

| Opcode | Command | State | From | Structures | What it does | Where |
|---|---|---|---|---|---|---|
"""


def markdown(commands: Mapping[int, Command]) -> str:
    """Return the text of the package's README.md; no file is written.

    After a fixed head the table has one row for each command of ``commands``, by opcode.
    """
    return _HEAD + "".join(_rows(commands))


def _rows(commands: Mapping[int, Command]) -> Iterator[str]:
    """Yield one line of the table for each command, in order of the opcodes.

    The text is the first line of the handler's docstring; the link leads to the handler's module.
    """
    for opcode, command in sorted(commands.items()):
        place = command.handler.__module__.partition(".")[2].replace(".", "/")
        structures = f"`{command.layout_in.__name__}`, `{command.layout_out.__name__}`"
        yield (
            f"| {opcode:#05x} | {command.name} | {command.needs.name}"
            f" | {'driver' if command.privileged else 'all'} | {structures}"
            f" | {_summary(command)} | [{place}.py]({place}.py) |\n"
        )


def _summary(command: Command) -> str:
    """Return the first line of the handler's docstring, formatted for a table cell.

    Return an empty text for a handler without a docstring.
    """
    line = (inspect.getdoc(command.handler) or "").partition("\n")[0]
    return line.replace("``", "`").replace("|", r"\|")
