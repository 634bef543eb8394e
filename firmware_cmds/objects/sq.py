"""Ethernet send queues: create, modify, query, destroy (PRM "Send queue"; core/transobj.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth import pacing, queues
from emu.device.errors import BadParamError
from emu.device.objects.eth.hairpin import HairpinSq
from emu.device.objects.eth.pacing import SchedulingElement
from emu.device.objects.eth.sq import AnySq, Sq
from emu.device.objects.eth.tis import Tis
from emu.device.objects.object import holding
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.send_queue import SendRing
from emu.device.rounds.portions import Portions
from firmware_cmds.objects import hairpin
from firmware_cmds.objects.scheduling import queue_group
from firmware_cmds.objects.wq import (
    check_transition,
    real_time,
    refuse_set,
    refuse_to_processes,
    user_index,
    work_queue,
)
from layouts.enums.cmd import Op
from layouts.enums.vport import InlineMode
from layouts.enums.wq import SqState, WqType
from layouts.objects import sq as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.parts.rates import Rates
    from emu.device.state.tables import ObjectTables

LOG_WQEBB = 6
_NOT_BUILT = ("cd_master", "non_wire")
"""Fields of sqc whose features have capability bits that are not set."""

_REACHES_ALL = ("rlky", "fre")
"""Fields of sqc that open all of memory to a queue, allowed only to the driver's own."""


@command(Op.CREATE_SQ)
def create_sq(hca: Hca, cmd: layout.create_sq_in, out: layout.create_sq_out) -> Portions[None]:
    """Create a send queue in state RST; its number is unique among queue pairs too.

    A hairpin queue has no CQ. Refuse with BAD_PARAM_ERR another state, type or stride, and options
    without their capability. Sizes above the capabilities get LIM_ERR.
    """
    ctx = cmd.ctx.copy()
    wq = cmd.ctx.wq
    refuse_set(ctx, _NOT_BUILT)
    refuse_to_processes(hca.caller, ctx, _REACHES_ALL)
    if ctx.state != SqState.RST:
        raise BadParamError("queue must be created in state RST", f"{ctx.state}")
    if ctx.hairpin:
        sender = hairpin.send_queue(hca, ctx, _tis(hca.tises, ctx))
        sender.group = _queue_group(hca.scheduling_elements, hca.rates, ctx)
        _add(hca, sender, out)
        return
    if wq.wq_type != WqType.CYCLIC or wq.log_wq_stride != LOG_WQEBB:
        raise BadParamError(
            "wq_type or log_wq_stride is not that of a send queue",
            f"wq_type {wq.wq_type}, log_wq_stride {wq.log_wq_stride}",
        )  # fmt: skip
    has_real_time = real_time(ctx.ts_format, hca.caps.general.sq_ts_format)
    if ctx.reg_umr and not hca.caps.ethernet.reg_umr_sq:
        raise BadParamError("queue option not supported", "reg_umr")
    if ctx.allow_multi_pkt_send_wqe and not hca.caps.ethernet.enhanced_multi_pkt_send_wqe:
        raise BadParamError("queue option not supported", "allow_multi_pkt_send_wqe")
    if ctx.allow_swp and not hca.caps.ethernet.swp:
        raise BadParamError("queue option not supported", "allow_swp")
    if ctx.min_wqe_inline_mode > max(InlineMode):
        raise BadParamError("no such inline mode", f"{ctx.min_wqe_inline_mode}")
    group = _queue_group(hca.scheduling_elements, hca.rates, ctx)
    hca.need_uar(wq.uar_page)
    cq, pd, tis = hca.cqs.need(ctx.cqn), hca.pds.need(wq.pd), _tis(hca.tises, ctx)
    ts_cq = _ts_cq(hca, ctx)
    hca.sqs.check_space()
    with holding(cq, pd, tis, ts_cq, group):
        queue = yield from work_queue(hca, wq, is_sq=True)
    ring = SendRing(
        hca.memory,
        hca.view_cache.ring_pages,
        queue.buffer,
        0,
        wq.log_wq_sz,
        queue.geometry.dbr_addr,
    )
    sq = Sq(ctx, cq, pd, ring, queue.buffer, tis, queue.umems, ts_cq)
    sq.has_real_time = has_real_time
    sq.uidx = user_index(hca.caps, ctx.user_index)
    sq.group = group
    _add(hca, sq, out)


def _queue_group(
    elements: Table[SchedulingElement], rates: Rates, ctx: layout.sqc
) -> SchedulingElement | None:
    """Return the queue group of the queue, if it has one; else None.

    Raises BAD_RES_ERR for an unknown group, BAD_PARAM_ERR for an empty entry of the pacing table.
    """
    group = queue_group(elements, ctx.qos_queue_group_id)
    _check_rate(rates, ctx)
    return group


def _add(hca: Hca, sq: AnySq, out: layout.create_sq_out) -> None:
    """Add the queue to the table, write its number into ``out`` and set its pacing."""
    out.sqn = hca.sqs.add(sq)
    pacing.apply(hca, sq)


def _ts_cq(tables: ObjectTables, ctx: layout.sqc) -> Cq | None:
    """Return the CQ for the time stamps of sent packets; None if the driver wants none.

    Raises BAD_PARAM_ERR without the capability ts_cqe_to_dest_cqn, BAD_RES_ERR for an unknown CQ.
    """
    if not ctx.ts_cqe_to_dest_cqn:
        return None
    if not tables.caps.general.ts_cqe_to_dest_cqn:
        raise BadParamError("queue option not supported", "ts_cqe_to_dest_cqn")
    return tables.cqs.need(ctx.ts_cqe_to_dest_cqn)


def _tis(tises: Table[Tis], ctx: layout.sqc) -> Tis | None:
    """Return the TIS of the queue; None for a queue of the driver's own WQEs (an ICOSQ).

    Raises BAD_PARAM_ERR for more than one TIS, BAD_RES_ERR for an unknown one.
    """
    if ctx.tis_lst_sz > 1:
        raise BadParamError("more than one TIS", f"{ctx.tis_lst_sz}")
    return tises.need(ctx.tis_num_0) if ctx.tis_lst_sz else None


@command(Op.MODIFY_SQ)
def modify_sq(hca: Hca, cmd: layout.modify_sq_in, out: layout.modify_sq_out) -> None:
    """Change the state and the selected fields: rate limit, queue group.

    ``sq_state`` is the state in which the driver expects the queue. Refuse another one with
    BAD_RES_STATE_ERR, an impossible transition or an unknown bit with BAD_PARAM_ERR. A hairpin
    queue is paired from RST to RDY.
    """
    sq = hca.sqs.subject(cmd.sqn)
    state = check_transition(queues.SQ_TRANSITIONS, sq.state, cmd.sq_state, cmd.ctx.state)
    mask = cmd.modify_bitmask
    if unknown := mask & ~(_RATE_LIMIT | _QUEUE_GROUP):
        raise BadParamError("SQ field cannot be modified", f"{unknown:#x}")
    if mask & _RATE_LIMIT:
        _check_rate(hca.rates, cmd.ctx)
    peer = hairpin.receiver_peer(hca, sq, state, cmd.ctx) if isinstance(sq, HairpinSq) else None
    group = (
        queue_group(hca.scheduling_elements, cmd.ctx.qos_queue_group_id)
        if mask & _QUEUE_GROUP
        else None
    )
    if mask & _RATE_LIMIT:
        sq.ctx.packet_pacing_rate_limit_index = cmd.ctx.packet_pacing_rate_limit_index
    if mask & _QUEUE_GROUP:
        sq.ctx.qos_queue_group_id = cmd.ctx.qos_queue_group_id
        sq.join(group)
    if mask:
        pacing.apply(hca, sq)
    queues.enter_sq(hca.scheduler, sq, state)
    if isinstance(sq, HairpinSq):
        hairpin.pair_sender(hca.scheduler, sq, peer)


_RATE_LIMIT, _QUEUE_GROUP = 1 << 0, 1 << 2
"""Bits of modify_bitmask (core/en_main.c: mlx5e_modify_sq)."""


def _check_rate(rates: Rates, ctx: layout.sqc) -> None:
    """Refuse with BAD_PARAM_ERR an index whose entry of the pacing table is empty; 0 is valid."""
    index = ctx.packet_pacing_rate_limit_index
    if index and index not in rates.limits:
        raise BadParamError("entry of the pacing table is empty", f"{index}")


@command(Op.QUERY_SQ)
def query_sq(tables: ObjectTables, cmd: layout.query_sq_in, out: layout.query_sq_out) -> None:
    """Return the current context."""
    out.sq_context = tables.sqs.need(cmd.sqn).encode()


@command(Op.DESTROY_SQ)
def destroy_sq(tables: ObjectTables, cmd: layout.destroy_sq_in, out: layout.destroy_sq_out) -> None:
    """Destroy the queue; the adapter no longer accesses its memory after the answer.

    Posted WQEs are not flushed.
    """
    sq = tables.sqs.remove(cmd.sqn)
    sq.state = SqState.RST
    queues.stop_pacing(sq)
