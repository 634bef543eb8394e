"""The two decorators that make a function part of the device, and the tables they fill.

``@command`` registers a firmware command. Its module is found by ``firmware_cmds``, which hands the
finished table to the device: adding a command is a layout, a decorated function and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from emu.device.hca import Hca, HcaState
from emu.turns import Turns
from layouts.cmd import INLINE_BYTES
from layouts.enums import Op, op_name
from layouts.prm import Prm

Handler = Callable[[Hca, Any, Any], Turns[None] | None]
"""``handler(hca, cmd, out)``: views of the input and of the zeroed output.

A handler checks everything first and changes state last; it refuses by raising
:class:`emu.errors.CmdError`. It never sees mailboxes, tokens or events. One that may have more to
do than a few milliseconds' work yields between its shares. Other commands run meanwhile: what it
has looked up may be gone, unless it holds it (:func:`emu.objects.table.holding`).
"""


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
    privileged: bool = False
    """Only the driver itself may send it; with the uid of a user context it is refused."""
    least_in: int = field(init=False)
    """Bytes of the shortest input that is taken; what is missing of a longer one counts as zero.

    Drivers leave out what says nothing: reserved bytes behind the last named field (iPXE's golan.c
    in RST2INIT_QP), and the rest of a field that is left open (of the 4096 bytes of SET_HCA_CAP it
    sends 256). A shorter input gets BAD_INP_LEN_ERR.
    """
    least_out: int = field(init=False)
    """Bytes of the shortest output that is taken, by the same rule; it gets the answer's front.

    A shorter one gets BAD_OUTP_LEN_ERR.
    """

    def __post_init__(self) -> None:
        besides = self.opened.field if self.opened is not None else ""
        for name, layout in (("least_in", self.layout_in), ("least_out", self.layout_out)):
            least = max(layout.named_size(besides), min(INLINE_BYTES, layout.size))
            object.__setattr__(self, name, least)

    def complete(self, data: bytearray) -> None:
        """Put zeros behind an input that is long enough to be taken and shorter than its layout."""
        if self.least_in <= len(data) < self.layout_in.size:
            data.extend(bytes(self.layout_in.size - len(data)))

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
    privileged: bool = False,
) -> Callable[[Handler], Handler]:
    """Register the handler of a command. Raises ValueError for an opcode that has one.

    ``privileged`` is for what no driver passes on for a process: what is not in the lists of
    mlx5_ib (devx.c: devx_is_obj_create_cmd and its neighbours, devx_is_general_cmd) and what it
    does not itself send with a uid.
    """

    def register(handler: Handler) -> Handler:
        if op in COMMANDS:
            raise ValueError(f"{op.name} is already answered by {COMMANDS[op].handler}")
        COMMANDS[op] = Command(op, layout_in, layout_out, handler, needs, opened, privileged)
        return handler

    return register
