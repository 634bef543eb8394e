"""Queue pairs: create, transitions, query, destroy, multicast (PRM "Queue pairs"; hw/qp.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.engine import qp_state
from emu.engine.pages import PageList, check_record, queue_buffer
from emu.errors import CmdError
from emu.objects import Qp
from emu.registry import Handler, command
from emu.resources import Object
from layouts import qp as layout
from layouts.enums import Op, QpState, QpType, RqType, Status
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.hca import Hca

WQEBB = 64
"""Bytes of a send WQE basic block."""

RQ_STRIDE_SHIFT = 4
_GATES = {QpType.RC: "rc", QpType.UC: "uc", QpType.UD: "ud", QpType.XRC: "xrc"}
_ALWAYS = (QpType.QP0, QpType.QP1, QpType.REG_UMR)


@command(Op.CREATE_QP, layout.create_qp_in, layout.create_qp_out)
def create_qp(hca: Hca, cmd: Any, out: Any) -> None:
    """A queue pair in state RST. In its buffer the receive queue comes before the send queue."""
    ctx = layout.qpc.view(bytearray(bytes(cmd.qpc)))
    _check_type(hca, ctx)
    held = _held(hca, ctx)
    hca.qps.check_room()
    buffer = _buffer(hca, cmd, ctx)
    ctx.state = QpState.RST
    out.qpn = hca.qps.add(Qp(ctx, held, buffer))


def _check_type(hca: Hca, ctx: Any) -> None:
    try:
        kind = QpType(ctx.st)
    except ValueError:
        kind = None
    if kind in _ALWAYS or (kind in _GATES and getattr(hca.caps.general, _GATES[kind])):
        return
    raise CmdError(Status.BAD_PARAM_ERR, "transport service not supported", f"st {ctx.st:#x}")


def _held(hca: Hca, ctx: Any) -> tuple[Object, ...]:
    """What the queue pair refers to. Raises BAD_RES_ERR for a number that names nothing."""
    held: list[Object] = []
    if ctx.st != QpType.REG_UMR:
        held.append(hca.pds.need(ctx.pd))
    if not ctx.no_sq:
        held += (hca.cqs.need(ctx.cqn_snd), hca.uars.need(ctx.uar_page))
    if ctx.rq_type == RqType.SRQ:
        held.append(hca.srqs.need(ctx.srqn_rmpn_xrqn))
    if ctx.rq_type != RqType.ZERO_LEN_RQ:
        held.append(hca.cqs.need(ctx.cqn_rcv))
    if ctx.st == QpType.XRC:
        held.append(hca.xrcds.need(ctx.xrcd))
    if ctx.counter_set_id:
        held.append(hca.counters.need(ctx.counter_set_id))
    return tuple(held)


def _buffer(hca: Hca, cmd: Any, ctx: Any) -> PageList:
    """The rings of the queue pair, receive queue first."""
    caps = hca.caps.general
    if max(ctx.log_sq_size, ctx.log_rq_size) > caps.log_max_qp_sz:
        raise CmdError(Status.LIM_ERR, "queue size above log_max_qp_sz")
    size = 0
    if ctx.rq_type == RqType.RQ:
        size += 1 << ctx.log_rq_size + ctx.log_rq_stride + RQ_STRIDE_SHIFT
    if not ctx.no_sq:
        size += WQEBB << ctx.log_sq_size
    if size:
        check_record(hca.memory, ctx.dbr_addr)
    return queue_buffer(hca.memory, cmd.pas, ctx.log_page_size, ctx.page_offset, size)


@command(Op.DESTROY_QP, layout.destroy_qp_in, layout.destroy_qp_out)
def destroy_qp(hca: Hca, cmd: Any, out: Any) -> None:
    """The queue pair is gone when this is answered: nothing of it touches memory any more."""
    hca.qps.remove(cmd.qpn)


@command(Op.QUERY_QP, layout.query_qp_in, layout.query_qp_out)
def query_qp(hca: Hca, cmd: Any, out: Any) -> None:
    """The context of now, and as much of the page list as the output has room for."""
    qp = hca.qps.need(cmd.qpn)
    out.qpc = bytes(qp.ctx)
    for index, page in enumerate(qp.buffer.pages[: len(out.pas)]):
        out.pas[index] = page


def _transition(op: Op, layout_in: Prm, layout_out: Prm) -> None:
    """Register the command of one row of the transition table."""
    row = qp_state.TRANSITIONS[op]
    modifies = "opt_param_mask" in {field.name for field in layout_in.fields}

    def handler(hca: Hca, cmd: Any, out: Any) -> None:
        qp = hca.qps.need(cmd.qpn)
        if qp.ctx.state not in row.sources:
            raise CmdError(
                Status.BAD_QP_STATE_ERR, "transition not from this state", f"{qp!r} {qp.ctx.state}"
            )
        if not modifies:
            qp.ctx.state = row.target
            return
        unknown = cmd.opt_param_mask & ~qp_state.KNOWN_OPTIONS
        if unknown:
            raise CmdError(Status.BAD_PARAM_ERR, "option not supported", f"{unknown:#x}")
        _check_modified(hca, cmd)
        qp_state.apply(row, qp.ctx, cmd.qpc, cmd.opt_param_mask)

    handler.__name__ = layout_in.prm_name.removesuffix("_in")
    register: Handler = handler
    command(op, layout_in, layout_out)(register)


def _check_modified(hca: Hca, cmd: Any) -> None:
    if cmd.qpc.counter_set_id:
        hca.counters.need(cmd.qpc.counter_set_id)


_transition(Op.RST2INIT_QP, layout.rst2init_qp_in, layout.rst2init_qp_out)
_transition(Op.INIT2INIT_QP, layout.init2init_qp_in, layout.init2init_qp_out)
_transition(Op.INIT2RTR_QP, layout.init2rtr_qp_in, layout.init2rtr_qp_out)
_transition(Op.RTR2RTS_QP, layout.rtr2rts_qp_in, layout.rtr2rts_qp_out)
_transition(Op.RTS2RTS_QP, layout.rts2rts_qp_in, layout.rts2rts_qp_out)
_transition(Op.SQERR2RTS_QP, layout.sqerr2rts_qp_in, layout.sqerr2rts_qp_out)
_transition(Op.SQD_RTS_QP, layout.sqd2rts_qp_in, layout.sqd2rts_qp_out)
_transition(Op._2ERR_QP, layout.qp_2err_in, layout.qp_2err_out)
_transition(Op._2RST_QP, layout.qp_2rst_in, layout.qp_2rst_out)


@command(Op.ATTACH_TO_MCG, layout.attach_to_mcg_in, layout.attach_to_mcg_out)
def attach_to_mcg(hca: Hca, cmd: Any, out: Any) -> None:
    """The datagram queue pair receives what is sent to the group."""
    qp = hca.qps.need(cmd.qpn)
    if qp.ctx.st != QpType.UD:
        raise CmdError(Status.BAD_PARAM_ERR, "multicast is for UD", f"{qp!r}")
    if cmd.multicast_gid in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "already attached")
    qp.mcgs.add(cmd.multicast_gid)


@command(Op.DETACH_FROM_MCG, layout.detach_from_mcg_in, layout.detach_from_mcg_out)
def detach_from_mcg(hca: Hca, cmd: Any, out: Any) -> None:
    """The queue pair leaves the group."""
    qp = hca.qps.need(cmd.qpn)
    if cmd.multicast_gid not in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "not attached")
    qp.mcgs.discard(cmd.multicast_gid)
