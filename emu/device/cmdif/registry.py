"""The two decorators that make a function part of the device, and the tables they fill.

``@command`` registers a firmware command. Its module is found by ``firmware_cmds``, which hands the
finished table to the device: adding a command is a layout, a decorated function and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from emu.device.cmdif.mailbox import MAX_COMMAND_BYTES
from emu.device.cmdif.scope import Resolver, resolvers
from emu.device.rounds.portions import Portions
from emu.device.state.hca import Hca, HcaState
from layouts.cmd import INLINE_BYTES, MAILBOX_DATA_BYTES
from layouts.codec import View
from layouts.enums import Op, op_name
from layouts.prm import Prm

_LIST_BYTES: Final = 8
"""The lists behind a layout (pages, destinations, pairs of numbers) are in units of so many."""

InT = TypeVar("InT", bound=View)
OutT = TypeVar("OutT", bound=View)

Handler = Callable[[Hca, InT, OutT], Portions[None] | None]
"""``handler(hca, cmd, out)``: views of the input and of the zeroed output, which mypy knows from
the layouts: ``cmd: layout.CreateCqIn``.

``hca`` is the function that the command means (``emu.device.cmdif.scope``), mostly the sender.
A handler first checks everything and then changes state; it refuses by raising
:class:`emu.device.errors.CmdError`. It never sees mailboxes, tokens or events. If it may take more
than a few milliseconds, it yields between portions of its work. Other commands run meanwhile:
objects that it has looked up may be gone, unless it holds them
(:func:`emu.device.objects.object.holding`).
"""


@dataclass(frozen=True, slots=True)
class OpenField:
    """A field that the layout leaves open, because other fields decide which structure it contains.

    The handler knows the structure itself; this tells observers such as the trace.
    """

    field: str
    """The field's name, in the input's layout, the output's or both."""
    layout: Callable[[Any], Prm | None]
    """The structure in it, from a view of the input; None if the field has no known structure."""
    current: Callable[[Hca, Any], bytes | None] | None = None
    """For a field that replaces a value: that value, from the device and a view of the input."""


@dataclass(frozen=True, slots=True)
class Command:
    """A firmware command: its opcode, the structures of its input and output, and its handler."""

    op: Op
    layout_in: Prm
    layout_out: Prm
    handler: Handler[Any, Any]
    needs: HcaState
    """The earliest state in which the command is allowed; before, it gets BAD_SYS_STATE_ERR."""
    opened: OpenField | None = None
    newer: str = ""
    """An input field that drivers leave out, with what is behind it, if they are older than it;
    ``structure.field`` for one inside a field."""
    privileged: bool = False
    """Only the driver itself may send it; with the uid of a user context it is refused."""
    of_others: bool = False
    """The manager of an adapter may send it about another function.

    Never where objects are made: those are the sender's.
    """
    of_vports: bool = False
    """It is about what the sender's switch has for a vPort, or what it knows of a sub-function: its
    handler looks that up."""
    least_in: int = field(init=False)
    """Bytes of the shortest input that is accepted; bytes missing from the layout count as zero.

    Drivers omit what carries no information: reserved bytes after the last named field (iPXE's
    golan.c in RST2INIT_QP), and the rest of an open field (of the 4096 bytes of SET_HCA_CAP it
    sends 256). A shorter input gets BAD_INP_LEN_ERR.
    """
    most_in: int = field(init=False)
    """Bytes of the longest input that is accepted: a mailbox block more than the layout has.

    A longer input gets BAD_INP_LEN_ERR, unless the layout ends with a list, whose length the
    handler knows. No public source tells which lengths real firmware refuses, and programs have
    lengths of their own (DEVX hands on a process's; OpenBSD's if_mcx.c counts the page list of
    CREATE_SQ twice). So the bound is one that structures of newer drivers and sloppy lengths keep,
    and what is within it is ignored.
    """
    least_out: int = field(init=False)
    """Bytes of the shortest output that is accepted: what stands in the command queue entry itself.

    The answer is cut to fit, as drivers that are older than a field have no room for it: Snabb's
    (apps/mellanox/connectx.lua) has 16 bytes for QUERY_SPECIAL_CONTEXTS, which has grown to 28. A
    shorter output gets BAD_OUTP_LEN_ERR.
    """

    scope: tuple[Resolver, ...] = field(init=False)
    """How the function that the command means is found."""

    def __post_init__(self) -> None:
        not_functions = ("other_vport", "embedded_cpu_function") if self.of_vports else ()
        object.__setattr__(self, "scope", resolvers(self.layout_in, not_functions))
        opened = self.opened.field if self.opened is not None else ""
        inline = min(INLINE_BYTES, self.layout_in.size)
        least_in = max(self.layout_in.named_size(self.newer or opened), inline)
        object.__setattr__(self, "least_in", least_in)
        without_list = max(self.layout_in.size, INLINE_BYTES) + MAILBOX_DATA_BYTES
        most_in = MAX_COMMAND_BYTES if self.layout_in.has_tail else without_list
        object.__setattr__(self, "most_in", most_in)
        object.__setattr__(self, "least_out", min(INLINE_BYTES, self.layout_out.size))

    def complete(self, data: bytearray) -> None:
        """Pad an accepted input with zeros: to its layout, and to a whole last entry of its list.

        Snabb's driver (apps/mellanox/connectx.lua) leaves out the reserved half of the last
        destination of a flow table entry.
        """
        if self.least_in <= len(data):
            missing = self.layout_in.size - len(data)
            data.extend(bytes(missing if missing > 0 else -len(data) % _LIST_BYTES))

    @property
    def name(self) -> str:
        """The PRM's name of the command."""
        return op_name(self.op)


COMMANDS: Final[dict[int, Command]] = {}


def command(
    op: Op,
    layout_in: Prm[InT],
    layout_out: Prm[OutT],
    *,
    needs: HcaState = HcaState.INITIALIZED,
    opened: OpenField | None = None,
    newer: str = "",
    privileged: bool = False,
    of_others: bool = False,
    of_vports: bool = False,
) -> Callable[[Handler[InT, OutT]], Handler[InT, OutT]]:
    """Register the handler of a command. Raises ValueError for an opcode that has one.

    ``privileged`` is for commands that no driver forwards for a process: those that are not in the
    lists of mlx5_ib (devx.c: devx_is_obj_create_cmd and its neighbours, devx_is_general_cmd) and
    that it does not itself send with a uid.
    """

    def register(handler: Handler[InT, OutT]) -> Handler[InT, OutT]:
        if op in COMMANDS:
            raise ValueError(f"{op.name} is already answered by {COMMANDS[op].handler}")
        COMMANDS[op] = Command(
            op, layout_in, layout_out, handler, needs, opened, newer, privileged, of_others,
            of_vports,
        )  # fmt: skip
        return handler

    return register
