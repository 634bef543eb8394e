"""Completion queues (PRM "Completion queues"; core/cq.c, hw/cq.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.engine.pages import check_record, queue_buffer
from emu.errors import CmdError
from emu.objects import Cq
from emu.registry import command
from layouts import cq as layout
from layouts.enums import Op, Status

if TYPE_CHECKING:
    from emu.hca import Hca

CQE_BYTES = (64, 128)
"""By cqe_sz; 2 asks for 128-byte strides with 64-byte entries and is not advertised."""


@command(Op.CREATE_CQ, layout.create_cq_in, layout.create_cq_out)
def create_cq(hca: Hca, cmd: Any, out: Any) -> None:
    """A ring for completions that reports to an existing EQ."""
    ctx = layout.cqc.view(bytearray(bytes(cmd.cq_context)))
    if ctx.log_cq_size > hca.caps.general.log_max_cq_sz:
        raise CmdError(Status.LIM_ERR, "log_cq_size above log_max_cq_sz", f"{ctx.log_cq_size}")
    if ctx.cqe_sz >= len(CQE_BYTES):
        raise CmdError(Status.BAD_PARAM_ERR, "cqe_sz not supported", f"{ctx.cqe_sz}")
    eq = hca.eqs.need(ctx.c_eqn_or_apu_element)
    hca.uars.need(ctx.uar_page)
    hca.cqs.check_room()
    check_record(hca.memory, ctx.dbr_addr)
    stride = CQE_BYTES[ctx.cqe_sz]
    size = stride << ctx.log_cq_size
    buffer = queue_buffer(hca.memory, cmd.pas, ctx.log_page_size, ctx.page_offset, size)
    out.cqn = hca.cqs.add(Cq(ctx, eq, buffer, stride))


@command(Op.DESTROY_CQ, layout.destroy_cq_in, layout.destroy_cq_out)
def destroy_cq(hca: Hca, cmd: Any, out: Any) -> None:
    """Refused with RES_BUSY while a QP or SRQ reports here."""
    hca.cqs.remove(cmd.cqn)


@command(Op.QUERY_CQ, layout.query_cq_in, layout.query_cq_out)
def query_cq(hca: Hca, cmd: Any, out: Any) -> None:
    """The context and as much of the page list as the output has room for."""
    cq = hca.cqs.need(cmd.cqn)
    out.cq_context = bytes(cq.ctx)
    for index, page in enumerate(cq.buffer.pages[: len(out.pas)]):
        out.pas[index] = page
