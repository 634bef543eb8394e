"""Event queues (PRM "Event queues"; core/eq.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine import lifecycle
from emu.device.engine.events import board
from emu.device.engine.events import eq as eq_engine
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.pages import queue_buffer
from emu.device.objects.queues.eq import Eq
from emu.device.rounds.portions import Portions, finish
from emu.device.state.hca import MSIX_VECTORS
from layouts.enums.cmd import Op, Status
from layouts.objects import eq as layout
from layouts.rings.eqe import EQE_BYTES

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.fields import ArrayView

WRITE_FAILURE = 0xA
"""eqc.status (MLX5_EQC_STATUS_EQ_WRITE_FAILURE)."""
_WRITE, _READ = 0, 1
"""op_mod of CONFIG_INT_MODERATION (MLX5_CONFIG_INT_MODERATION_IN_OP_MOD_*)."""
_NS_PER_US = 1000
STATE_FIRED = 0xA
STATE_ARMED = 0x9


@command(Op.CREATE_EQ, privileged=True)
def create_eq(hca: Hca, cmd: layout.create_eq_in, out: layout.create_eq_out) -> None:
    """Create an event ring; ``event_bitmask`` selects its asynchronous event types.

    Report the current cable and slot state to the new EQ where subscribed. Refuse with LIM_ERR a
    size above log_max_eq_sz. Refuse with BAD_PARAM_ERR an unknown vector or a ring outside guest
    memory.
    """
    ctx = layout.eqc.view(bytes(cmd.eq_context_entry))
    if ctx.log_eq_size > hca.caps.general.log_max_eq_sz:
        raise CmdError(Status.LIM_ERR, "log_eq_size above log_max_eq_sz", f"{ctx.log_eq_size}")
    if ctx.intr >= MSIX_VECTORS:
        raise BadParamError("no such interrupt vector", f"intr {ctx.intr}")
    hca.need_uar(ctx.uar_page)
    hca.eqs.check_space()
    size = EQE_BYTES << ctx.log_eq_size
    buffer = finish(queue_buffer(hca.memory, cmd.pas, ctx.log_page_size, ctx.page_offset, size))
    eq = Eq(ctx, _event_mask(cmd.event_bitmask), buffer)
    out.eq_number = hca.eqs.add(eq)
    hca.events.subscribe(eq)
    board.report_board_state(hca, eq)


def _event_mask(words: ArrayView[int]) -> int:
    """Return the event types as one mask.

    Event type ``n`` is bit ``n % 64`` of word ``n / 64`` (core/eq.c:create_map_eq). All words
    together have 256 bits.
    """
    return sum(word << 64 * index for index, word in enumerate(words))


@command(Op.DESTROY_EQ, privileged=True)
def destroy_eq(hca: Hca, cmd: layout.destroy_eq_in, out: layout.destroy_eq_out) -> Portions[None]:
    """Destroy the EQ; refused while a CQ reports to it.

    Fail pending page faults if no other EQ reports them.
    """
    eq = hca.eqs.remove(cmd.eq_number)
    yield from lifecycle.unsubscribe(hca.events, hca.page_faults, eq)


@command(Op.QUERY_EQ, privileged=True)
def query_eq(tables: ObjectTables, cmd: layout.query_eq_in, out: layout.query_eq_out) -> None:
    """Return the context with the current counters and arm state.

    st is ARMED or FIRED. status is EQ_WRITE_FAILURE after a failed write of an entry.
    """
    eq = tables.eqs.need(cmd.eq_number)
    ctx = out.eq_context_entry
    out.eq_context_entry = bytes(eq.ctx)
    ctx.status = WRITE_FAILURE if eq.has_write_failed else 0
    ctx.st = STATE_ARMED if eq.armed else STATE_FIRED
    ctx.consumer_counter = eq.ci & 0xFFFFFF
    ctx.producer_counter = eq.pi & 0xFFFFFF
    out.event_bitmask = eq.events & 0xFFFF_FFFF_FFFF_FFFF


@command(Op.CONFIG_INT_MODERATION, privileged=True)
def config_int_moderation(
    hca: Hca, cmd: layout.config_int_moderation_in, out: layout.config_int_moderation_out
) -> None:
    """Set or return the minimum time between two interrupts of a vector, in microseconds.

    op_mod 0 sets, 1 reads; both return the current value, 0 for no moderation. Setting raises a
    delayed interrupt at once. Refuse another op_mod or an unknown vector with BAD_PARAM_ERR.
    """
    vector = cmd.int_vector
    if vector >= MSIX_VECTORS:
        raise BadParamError("no such interrupt vector", f"int_vector {vector}")
    if cmd.op_mod == _WRITE:
        eq_engine.moderate(hca.events, vector, cmd.min_delay * _NS_PER_US)
    elif cmd.op_mod != _READ:
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")
    moderation = hca.events.vector_moderation.get(vector)
    out.int_vector = vector
    out.min_delay = moderation.delay_ns // _NS_PER_US if moderation is not None else 0
