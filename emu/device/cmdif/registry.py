"""The decorator that registers a firmware command, and the table of commands.

``@command`` registers a firmware command, with the structures in its signature. ``firmware_cmds``
imports the modules and passes the finished table to the device: a new command is a layout, a
decorated function and a test.
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
from layouts.enums.cmd import Op, op_name
from layouts.prm import Prm

InT = TypeVar("InT", bound=Prm)
OutT = TypeVar("OutT", bound=Prm)

Handler = Callable[[Hca, InT, OutT], Portions[None] | None]
"""``handler(hca, cmd, out)``: views of the input and of the zeroed output, which mypy knows from
the layouts: ``cmd: layout.create_cq_in``.

``hca`` is the function that the command addresses (``emu.device.cmdif.scope``), usually the sender.
A handler that needs only tables takes ``tables: ObjectTables``.

A handler first checks everything and then changes state; it refuses by raising
:class:`emu.device.errors.CmdError`. Handlers never access mailboxes, tokens or events. A handler
that may take more than a few milliseconds yields between steps of its work. Other commands run
meanwhile and may destroy objects that the handler has looked up, unless it holds them
(:func:`emu.device.objects.object.holding`).
"""


@dataclass(frozen=True, slots=True)
class OpenField:
    """A field without a fixed layout, because other fields determine which structure it contains.

    The handler knows the structure itself; an OpenField describes it to observers such as the
    trace.
    """

    field: str
    """Name of the field, in the input's layout, the output's or both."""
    layout: Callable[[Any], type[Prm] | None]
    """Returns the structure in the field, from a view of the input; None if no structure is known.
    """
    current: Callable[[Hca, Any], bytes | None] | None = None
    """For a field that replaces a value: returns that value, from the device and a view of the
    input.
    """


@dataclass(frozen=True, slots=True)
class Command:
    """A firmware command: its opcode, the structures of its input and output, and its handler."""

    op: Op
    layout_in: type[Prm]
    layout_out: type[Prm]
    handler: Handler[Any, Any]
    needs: HcaState
    """Earliest state in which the command is allowed; before, it gets BAD_SYS_STATE_ERR."""
    opened: OpenField | None = None
    newer: str = ""
    """First input field that older drivers leave out, with all fields behind it;
    ``structure.field`` for one inside a structure.
    """
    privileged: bool = False
    """Whether the command is refused with the uid of a user context."""
    of_others: bool = False
    """Whether the manager of an adapter may send the command about another function.

    Never set for commands that create objects: objects belong to the sender.
    """
    of_vports: bool = False
    """Whether the command is about a vPort of the sender's switch, or about a sub-function record;
    its handler does the lookup.
    """
    min_in: int = field(init=False)
    """Bytes of the shortest accepted input; bytes missing from the layout count as zero.

    Drivers omit bytes without information: reserved bytes after the last named field (iPXE's
    golan.c in RST2INIT_QP), and the rest of an open field (golan.c sends 256 of the 4096 bytes of
    SET_HCA_CAP). A shorter input gets BAD_INP_LEN_ERR.
    """
    max_in: int = field(init=False)
    """Bytes of the longest accepted input: the layout and one mailbox block more.

    A longer input gets BAD_INP_LEN_ERR, unless the layout ends with a list, whose length the
    handler checks. No public source documents which lengths real firmware refuses, and lengths of
    programs differ (DEVX forwards a process's length; OpenBSD's if_mcx.c counts the page list of
    CREATE_SQ twice). The limit therefore admits structures of newer drivers and inexact lengths;
    additional bytes are ignored.
    """
    size_in: int = field(init=False)
    """Bytes of the input's fixed part."""
    size_out: int = field(init=False)
    """Bytes of the output's fixed part."""
    min_out: int = field(init=False)
    """Bytes of the shortest accepted output: the inline bytes of the command queue entry.

    The output is truncated to fit, because older drivers have no space for newer fields: Snabb's
    (apps/mellanox/connectx.lua) has 16 bytes for QUERY_SPECIAL_CONTEXTS, which has grown to 28. A
    shorter output gets BAD_OUTP_LEN_ERR.
    """

    scope: tuple[Resolver, ...] = field(init=False)
    """Resolvers that find the function that the command addresses."""

    def __post_init__(self) -> None:
        not_functions = ("other_vport", "embedded_cpu_function") if self.of_vports else ()
        object.__setattr__(self, "scope", resolvers(self.layout_in, not_functions))
        opened = self.opened.field if self.opened is not None else ""
        object.__setattr__(self, "size_in", self.layout_in.size)
        inline = min(INLINE_BYTES, self.size_in)
        min_in = max(self.layout_in.named_size(self.newer or opened), inline)
        object.__setattr__(self, "min_in", min_in)
        without_list = max(self.size_in, INLINE_BYTES) + MAILBOX_DATA_BYTES
        max_in = MAX_COMMAND_BYTES if self.layout_in.has_tail() else without_list
        object.__setattr__(self, "max_in", max_in)
        object.__setattr__(self, "size_out", self.layout_out.size)
        object.__setattr__(self, "min_out", min(INLINE_BYTES, self.size_out))

    @property
    def name(self) -> str:
        """Name of the command in the PRM."""
        return op_name(self.op)


COMMANDS: Final[dict[int, Command]] = {}


def add(command: Command) -> None:
    """Put a command into COMMANDS; raise ValueError for an opcode that has a handler already."""
    if command.op in COMMANDS:
        present = COMMANDS[command.op].handler
        raise ValueError(f"{command.op.name} already has the handler {present}")
    COMMANDS[command.op] = command


def _structure(handler: Any, parameter: str) -> type[Prm]:
    """Return the structure that annotates a parameter of a handler, by the text of the annotation.

    The module of the handler imports the structure at run time, unlike the Hca.
    """
    structure: type[Prm] = eval(handler.__annotations__[parameter], handler.__globals__)
    return structure


def command(
    op: Op,
    *,
    needs: HcaState = HcaState.INITIALIZED,
    opened: OpenField | None = None,
    newer: str = "",
    privileged: bool = False,
    of_others: bool = False,
    of_vports: bool = False,
) -> Callable[[Handler[InT, OutT]], Handler[InT, OutT]]:
    """Return a decorator that adds a handler and returns it unchanged; raises as :func:`add`.

    The annotations of the handler's ``cmd`` and ``out`` are the structures. ``privileged`` is for
    commands that no driver forwards for a process. The lists of mlx5_ib lack them (devx.c:
    devx_is_obj_create_cmd and its neighbours, devx_is_general_cmd), and mlx5_ib itself never sends
    them with a uid.
    """

    def register(handler: Handler[InT, OutT]) -> Handler[InT, OutT]:
        """Add the handler, and return it."""
        layout_in, layout_out = _structure(handler, "cmd"), _structure(handler, "out")
        options = needs, opened, newer, privileged, of_others, of_vports
        add(Command(op, layout_in, layout_out, handler, *options))
        return handler

    return register
