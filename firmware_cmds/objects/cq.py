"""Completion queues (PRM "Completion queues"; core/cq.c, hw/cq.c)."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.events import cq as cq_engine
from emu.device.engine.events.held import write_held
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.pages import PageList, queue_buffer
from emu.device.objects.object import holding
from emu.device.objects.queues.cq import Compression, Cq, Moderation
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.umem import buffer_in, record_in
from firmware_cmds.options import first_set
from layouts.enums.cmd import Op, Status
from layouts.enums.cq import CompressionLayout, CqPeriodMode
from layouts.enums.cqe import MiniCqeFormat
from layouts.objects import cq as layout

if TYPE_CHECKING:
    from emu.device.ports import GuestMemory
    from emu.device.state.caps import Caps
    from emu.device.state.events import Events
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.function.caps import cmd_hca_cap

CQE_BYTES = (64, 128, 128)
"""Bytes of a CQE by cqe_sz. The second half of a 128-byte entry has the layout of a 64-byte one."""

NS_PER_US = 1000
_OP_MOD_MODIFY, _OP_MOD_RESIZE = 0, 1

_NOT_BUILT = ("apu_cq", "scqe_break_moderation_en")
"""Fields of cqc whose features have capability bits, none of which is set."""


class ModifyCq(IntFlag):
    """Fields that MODIFY_CQ changes (MLX5_CQ_MODIFY_*)."""

    PERIOD = 1 << 0
    COUNT = 1 << 1
    OVERRUN = 1 << 2
    PERIOD_MODE = 1 << 4


class ResizeCq(IntFlag):
    """Fields of a resize: the driver sends all of them (MLX5_MODIFY_CQ_MASK_*)."""

    LOG_SIZE = 1 << 0
    PG_OFFSET = 1 << 1
    PG_SIZE = 1 << 2


@command(Op.CREATE_CQ)
def create_cq(hca: Hca, cmd: layout.create_cq_in, out: layout.create_cq_out) -> Portions[None]:
    """Create a completion ring that reports to an existing EQ.

    Refuse with BAD_PARAM_ERR an unsupported cqe_sz, period mode, compression layout or moderation,
    and a ring or doorbell record that is not writable guest memory. Refuse with LIM_ERR a size
    above log_max_cq_sz.
    """
    ctx = cmd.cq_context.copy()
    if name := first_set(ctx, _NOT_BUILT):
        raise BadParamError("CQ option not supported", name)
    if ctx.cqe_sz >= len(CQE_BYTES):
        raise BadParamError("cqe_sz not supported", f"{ctx.cqe_sz}")
    _check_period_mode(hca.caps, ctx.cq_period_mode)
    compression = _compression(hca.caps, ctx)
    eq = hca.eqs.need(ctx.c_eqn_or_apu_element)
    hca.need_uar(ctx.uar_page)
    hca.cqs.check_space()
    stride = CQE_BYTES[ctx.cqe_sz]
    dbr_addr, umems = record_in(hca.umems, hca.memory, ctx)
    if cmd.cq_umem_valid:
        size = _size(hca.caps, ctx, stride)
        place = cmd.cq_umem_id, cmd.cq_umem_offset, size
        buffer, umem = buffer_in(hca.umems, *place, is_written=True)
        umems = (*umems, umem)
    else:
        with holding(eq, *umems):
            buffer = yield from _buffer(hca.caps, hca.memory, cmd, ctx, stride)
    cq = Cq(ctx, eq, buffer, stride, dbr_addr, umems, compression)
    cq.moderation = _moderation(hca.caps, ctx)
    out.cqn = hca.cqs.add(cq)


def _compression(caps: Caps, ctx: layout.cqc) -> Compression | None:
    """Return the form of compressed completions; None if completions are not compressed.

    cqe_comp_en permits compression and does not require it. DPDK sets it without the capability
    (mlx5_devx.c: mlx5_rxq_create_devx_cq_resources), and the adapter then does not compress. CQs
    whose CQEs each replace the one before are not compressed either. Raises BAD_PARAM_ERR for a
    cqe_compression_layout without its capability.
    """
    general = caps.general
    layouts = CompressionLayout if general.enhanced_cqe_compression else (CompressionLayout.BASIC,)
    if ctx.cqe_compression_layout not in tuple(layouts):
        raise BadParamError("cqe_compression_layout not supported", f"{ctx.cqe_compression_layout}")
    is_able = general.cqe_compression_128 if ctx.cqe_sz else general.cqe_compression
    form = _form(general, ctx)
    if not ctx.cqe_comp_en or ctx.cc or not is_able or form is None:
        return None
    is_enhanced = ctx.cqe_compression_layout == CompressionLayout.ENHANCED
    return Compression(form, is_enhanced, general.cqe_compression_max_num)


def _form(general: cmd_hca_cap, ctx: layout.cqc) -> MiniCqeFormat | None:
    """Return the form of the mini CQEs; None for one without its capability.

    The caller then leaves completions uncompressed; no error is raised.
    """
    if ctx.mini_cqe_res_format_ext:
        is_l34h = ctx.mini_cqe_res_format_ext == 1 and general.mini_cqe_resp_l3_l4_tag
        return MiniCqeFormat.L34H_STRIDX if is_l34h else None
    form = MiniCqeFormat(ctx.mini_cqe_res_format)
    known = {
        MiniCqeFormat.FTAG_STRIDX: general.mini_cqe_resp_flow_tag,
        MiniCqeFormat.CSUM_STRIDX: general.mini_cqe_resp_stride_index,
    }
    return form if known.get(form, 1) else None


def _size(caps: Caps, ctx: layout.cqc, stride: int) -> int:
    """Return the size of the ring in bytes; raise LIM_ERR above the device's limit."""
    if ctx.log_cq_size > caps.general.log_max_cq_sz:
        raise CmdError(Status.LIM_ERR, "log_cq_size above log_max_cq_sz", f"{ctx.log_cq_size}")
    return stride << int(ctx.log_cq_size)


def _buffer(
    caps: Caps,
    memory: GuestMemory,
    cmd: layout.create_cq_in | layout.modify_cq_in,
    ctx: layout.cqc,
    stride: int,
) -> Portions[PageList]:
    """Return the ring that a context and the page list behind it describe.

    Raises LIM_ERR for a ring above log_max_cq_sz. Raises BAD_PARAM_ERR for a list that is too short
    or has a page outside guest memory.
    """
    size = _size(caps, ctx, stride)
    return queue_buffer(memory, cmd.pas, ctx.log_page_size, ctx.page_offset, size)


def _moderation(caps: Caps, ctx: layout.cqc) -> Moderation | None:
    """Return the moderation of the context; None where cq_period or cq_max_count is 0.

    Raises BAD_PARAM_ERR if both are set and the capability cq_moderation is not.
    """
    if not ctx.cq_period or not ctx.cq_max_count:
        return None
    if not caps.general.cq_moderation:
        raise BadParamError("CQ moderation is not supported")
    starts_from_cqe = ctx.cq_period_mode == CqPeriodMode.START_FROM_CQE
    return Moderation(ctx.cq_max_count, ctx.cq_period * NS_PER_US, starts_from_cqe)


@command(Op.MODIFY_CQ)
def modify_cq(hca: Hca, cmd: layout.modify_cq_in, out: layout.modify_cq_out) -> Portions[None]:
    """Change moderation or the overrun bit, or move the CQ to another ring.

    op_mod 0 modifies, 1 resizes; another one gets BAD_PARAM_ERR.
    """
    cq = hca.cqs.subject(cmd.cqn)
    if cmd.op_mod == _OP_MOD_RESIZE:
        yield from _resize(hca, cq, cmd)
    elif cmd.op_mod == _OP_MOD_MODIFY:
        _modify(hca.caps, hca.events, cq, cmd)
    else:
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")


def _modify(caps: Caps, events: Events, cq: Cq, cmd: layout.modify_cq_in) -> None:
    """Change the fields of the CQ that the command selects: moderation, overrun bit.

    A change of moderation raises a delayed event at once. Refuse with BAD_PARAM_ERR an unknown
    field, and moderation or a period mode without its capability; nothing is then changed.
    """
    select, given = cmd.modify_field_select_resize_field_select, cmd.cq_context
    if select & ModifyCq.PERIOD_MODE:
        if not caps.general.cq_period_mode_modify:
            raise BadParamError("CQ field cannot be modified", "cq_period_mode")
        _check_period_mode(caps, given.cq_period_mode)
    if unknown := select & ~sum(ModifyCq):
        raise BadParamError("CQ field cannot be modified", f"{unknown:#x}")
    changed = cq.ctx.copy()
    for flag, name in (
        (ModifyCq.PERIOD, "cq_period"),
        (ModifyCq.COUNT, "cq_max_count"),
        (ModifyCq.OVERRUN, "oi"),
        (ModifyCq.PERIOD_MODE, "cq_period_mode"),
    ):
        if select & flag:
            setattr(changed, name, getattr(given, name))
    moderation = _moderation(caps, changed)
    cq.ctx = changed
    cq.ignores_overrun = bool(changed.oi)
    if select & (ModifyCq.PERIOD | ModifyCq.COUNT | ModifyCq.PERIOD_MODE):
        cq_engine.moderate(events, cq, moderation)


def _check_period_mode(caps: Caps, mode: int) -> None:
    """Refuse an unsupported start of the moderation period with BAD_PARAM_ERR.

    START_FROM_EQE, from the first entry after an event, is always supported. START_FROM_CQE, from
    each entry, needs the capability cq_period_start_from_cqe.
    """
    modes = (CqPeriodMode.START_FROM_EQE, CqPeriodMode.START_FROM_CQE)
    if mode not in modes[: 1 + caps.general.cq_period_start_from_cqe]:
        raise BadParamError("cq_period_mode not supported", f"{mode}")


def _resize(hca: Hca, cq: Cq, cmd: layout.modify_cq_in) -> Portions[None]:
    """Move the CQ to a ring of another size, after a RESIZE_CQ entry in the old ring.

    Refuse with BAD_PARAM_ERR a CQ over a umem, another cqe_sz, and a selection other than all three
    fields of a resize. Unread CQEs that do not fit get BAD_SIZE_OUTS_CQES_ERR, a CQ in error
    BAD_RES_STATE_ERR, and a ring that is too large LIM_ERR.
    """
    if not hca.caps.general.cq_resize:
        raise BadParamError("CQ resize is not supported")
    select, given = cmd.modify_field_select_resize_field_select, cmd.cq_context
    if select != sum(ResizeCq):
        raise BadParamError("resize must select size, page offset and page size", f"{select:#x}")
    if cmd.cq_umem_valid or cq.umems:
        raise BadParamError("resizing a CQ over a umem is not supported", f"{cq!r}")
    if given.cqe_sz != cq.ctx.cqe_sz:
        raise BadParamError("resize must keep cqe_sz", f"{given.cqe_sz}")
    with holding(cq):
        buffer = yield from _buffer(hca.caps, hca.memory, cmd, given, cq.stride)
    hca.ledger.check(cq.kind, buffer.host_bytes - cq.buffer.host_bytes)
    write_held(hca.cqes, cq)
    cq_engine.resize(hca.cqes, cq, buffer, given.log_cq_size)
    hca.cqs.recharge(cq)
    for name in ("log_cq_size", "page_offset", "log_page_size"):
        setattr(cq.ctx, name, getattr(given, name))


@command(Op.DESTROY_CQ)
def destroy_cq(tables: ObjectTables, cmd: layout.destroy_cq_in, out: layout.destroy_cq_out) -> None:
    """Destroy the CQ; refused while a queue reports to it.

    Drop held packets without a CQE, and cancel a delayed event.
    """
    cq = tables.cqs.remove(cmd.cqn)
    cq.waiting.clear()
    cq.stop_waiting()


@command(Op.QUERY_CQ)
def query_cq(hca: Hca, cmd: layout.query_cq_in, out: layout.query_cq_out) -> None:
    """Return the current context and the page list, up to the output's space.

    Write held CQEs into the ring first, and raise the event that is then due.
    """
    cq = hca.cqs.need(cmd.cqn)
    write_held(hca.cqes, cq)
    out.cq_context = cq.encode()
    out.pas.put_words(cq.buffer.pages[: len(out.pas)])
