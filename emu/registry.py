"""The two decorators that make a function part of the device, and the tables they fill.

``@command`` registers a firmware command. Its module is found by ``firmware_cmds``, which hands the
finished table to the device: adding a command is a layout, a decorated function and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from layouts.enums import Op, op_name
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.hca import Hca

Handler = Callable[["Hca", Any, Any], None]
"""``handler(hca, cmd, out)``: views of the input and of the zeroed output.

A handler checks everything first and changes state last; it refuses by raising
:class:`emu.errors.CmdError`. It never sees mailboxes, tokens or events.
"""


class HcaState(IntEnum):
    """How far the driver has brought the function up; each state allows more commands."""

    DISABLED = 0
    ENABLED = 1
    INITIALIZED = 2


@dataclass(frozen=True, slots=True)
class OpenField:
    """A field that the layout leaves open, because others decide which structure lies in it.

    The handler knows by itself; this tells those who only look on, as the trace does.
    """

    field: str
    """The field's name, in the input's layout, the output's or both."""
    layout: Callable[[Any], Prm | None]
    """The structure in it, from a view of the input; None where the field says nothing."""
    current: Callable[[Hca, Any], bytes | None] | None = None
    """For a field that replaces a value: that value, from the device and a view of the input."""


@dataclass(frozen=True, slots=True)
class Command:
    """A firmware command: its opcode, the structures on either side, and who answers."""

    op: Op
    layout_in: Prm
    layout_out: Prm
    handler: Handler
    needs: HcaState
    """The least state in which the command is taken; earlier it gets BAD_SYS_STATE_ERR."""
    opened: OpenField | None = None
    cuts_output: bool = False
    """Whether an output that is too short for the layout gets its front; else it is refused."""

    @property
    def name(self) -> str:
        """The PRM's name of the command."""
        return op_name(self.op)


COMMANDS: dict[int, Command] = {}


def command(
    op: Op,
    layout_in: Prm,
    layout_out: Prm,
    *,
    needs: HcaState = HcaState.INITIALIZED,
    opened: OpenField | None = None,
    cuts_output: bool = False,
) -> Callable[[Handler], Handler]:
    """Register the handler of a command. Raises ValueError for an opcode that has one."""

    def register(handler: Handler) -> Handler:
        if op in COMMANDS:
            raise ValueError(f"{op.name} is already answered by {COMMANDS[op].handler}")
        COMMANDS[op] = Command(op, layout_in, layout_out, handler, needs, opened, cuts_output)
        return handler

    return register
