"""Ethernet receive queues: create, modify, query, destroy (PRM "Receive queue")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth import queues
from emu.device.engine.events.held import write_held
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.domains import Pd, QCounter
from emu.device.objects.eth.reservations import Reservations
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.strides import Strides
from emu.device.objects.object import holding
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.receive_queue import (
    PacketRing,
    RecvQueue,
    SharedRecvList,
    SharedRecvQueue,
    SharedRecvRing,
)
from emu.device.objects.queues.srq import SrqForm
from emu.device.rounds.portions import Portions
from firmware_cmds.objects import hairpin
from firmware_cmds.objects.counter import counter_set
from firmware_cmds.objects.srq import srq_of
from firmware_cmds.objects.wq import (
    check_transition,
    real_time,
    refuse_set,
    refuse_to_processes,
    user_index,
    work_queue,
)
from layouts.enums.cmd import Op, Status
from layouts.enums.wq import MemRqType, ModifyRq, RqState, ShampoAlignment, ShampoMatch, WqType
from layouts.objects import rq as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.objects.srq import wq

LOG_DS = 4

_NOT_BUILT = ("delay_drop_en",)
"""Fields of rqc whose features have capability bits that are not set."""

_WQ_TYPES: dict[int, type[RecvQueue]] = {
    WqType.LINKED_LIST: SharedRecvList,
    WqType.CYCLIC: PacketRing,
    WqType.LINKED_LIST_STRIDING_RQ: SharedRecvList,
    WqType.CYCLIC_STRIDING_RQ: SharedRecvRing,
}
"""Geometry by type.

WQEs of a cyclic queue have no next segment, but those of a striding one reserve space for it.
"""
_STRIDING = (WqType.LINKED_LIST_STRIDING_RQ, WqType.CYCLIC_STRIDING_RQ)
_LOG_STRIDING_WQE = 5
"""log2 of the size of a next segment and a data segment."""

_LOG_COUNT_BASE, _LOG_COUNT_LEAST, _LOG_SIZE_BASE = 9, 3, 6
"""Bases and limits of device.h: MLX5_MPWQE_LOG_NUM_STRIDES_BASE, _EXT_MIN_...,
MLX5_MPWQE_LOG_STRIDE_SZ_BASE.
"""
_LOG_RESERVATION_BASE, _LOG_HEADER_BASE = 12, 6
"""Bases of core/en.h: MLX5E_SHAMPO_WQ_BASE_RESRV_SIZE, MLX5E_SHAMPO_WQ_BASE_HEAD_ENTRY_SIZE."""
_PAGE_BYTES = 4096


@command(Op.CREATE_RQ)
def create_rq(hca: Hca, cmd: layout.create_rq_in, out: layout.create_rq_out) -> Portions[None]:
    """Create a receive queue in state RST, with its own WQEs or those of an RMP.

    Without a protection domain the queue can only drop packets (core/en_main.c:
    mlx5e_alloc_drop_rq). A hairpin queue has no CQ. Refuse with BAD_PARAM_ERR another state or an
    option that is not built, with LIM_ERR sizes beyond the capabilities.
    """
    ctx = cmd.ctx.copy()
    refuse_set(ctx, _NOT_BUILT)
    refuse_to_processes(hca.caller, ctx, ("rlky",))
    _check_fcs(hca.caps, ctx)
    if ctx.state != RqState.RST:
        raise BadParamError("queue must be created in state RST", f"{ctx.state}")
    has_real_time = real_time(ctx.ts_format, hca.caps.general.rq_ts_format)
    counter = counter_set(hca.counters, ctx.counter_set_id)
    if ctx.hairpin:
        out.rqn = hca.rqs.add(hairpin.receive_queue(hca, ctx, counter))
        return
    cq = hca.cqs.need(ctx.cqn)
    hca.rqs.check_space()
    if ctx.mem_rq_type == MemRqType.RMP:
        rmp = srq_of(hca.srqs, SrqForm.RMP, ctx.rmpn)
        rq = Rq(ctx, rmp.queue, cq, counter, rmp=rmp)
        rq.uidx = user_index(hca.caps, ctx.user_index)
        rq.has_real_time = has_real_time
        out.rqn = hca.rqs.add(rq)
    elif ctx.mem_rq_type == MemRqType.INLINE:
        rq = yield from _with_own_memory(hca, cmd.ctx.wq, ctx, cq, counter)
        rq.has_real_time = has_real_time
        out.rqn = hca.rqs.add(rq)
    else:
        raise BadParamError("mem_rq_type not supported", f"{ctx.mem_rq_type}")


def _check_fcs(caps: Caps, ctx: layout.rqc) -> None:
    if ctx.scatter_fcs and not caps.ethernet.scatter_fcs:
        raise BadParamError("queue option not supported", "scatter_fcs")


def _with_own_memory(
    hca: Hca, wq: wq, ctx: layout.rqc, cq: Cq, counter: QCounter | None
) -> Portions[Rq]:
    """Return a receive queue over a ring of its own; the caller adds it to the table.

    Raises BAD_PARAM_ERR for an unsupported wq_type, stride or option, LIM_ERR for sizes above the
    capabilities, BAD_RES_ERR for an unknown PD or umem. Without a PD the queue has none.
    """
    kind = _WQ_TYPES.get(wq.wq_type)
    if kind is None:
        raise BadParamError("work queue type not supported", f"wq_type {wq.wq_type}")
    if wq.log_wq_stride < LOG_DS:
        raise BadParamError("stride shorter than one segment", f"{wq.log_wq_stride}")
    if 1 << wq.log_wq_stride > hca.caps.general.max_wqe_sz_rq:
        raise CmdError(Status.LIM_ERR, "stride above max_wqe_sz_rq", f"{wq.log_wq_stride}")
    strides = _strides(hca.caps, wq) if wq.wq_type in _STRIDING else None
    reservations = _reservations(hca, ctx, wq, strides) if wq.shampo_enable else None
    pd: Pd | None = hca.pds.need(wq.pd) if wq.pd else None
    with holding(cq, counter, pd):
        wq_memory = yield from work_queue(hca, wq)
    queue = kind(hca.memory, wq_memory.buffer, pd, wq_memory.geometry)
    lists = queue.host_bytes if isinstance(queue, SharedRecvQueue) else wq_memory.buffer.host_bytes
    rq = Rq(
        ctx, queue, cq, counter,
        pd=pd, umems=wq_memory.umems, host_bytes=lists, strides=strides,
        reservations=reservations,
    )  # fmt: skip
    rq.uidx = user_index(hca.caps, ctx.user_index)
    return rq


def _strides(caps: Caps, wq: wq) -> Strides:
    """Return the strides of a striding queue's WQEs (core/en/params.c: mlx5e_build_rq_param).

    log_wqe_num_of_strides is signed, and counted from 9. Values below 9 have their own capability.
    Raises BAD_PARAM_ERR for values outside the range, and without the capability striding_rq.
    """
    if not caps.general.striding_rq:
        raise BadParamError("work queue type not supported", f"wq_type {wq.wq_type}")
    if wq.log_wq_stride < _LOG_STRIDING_WQE:
        raise BadParamError(
            "stride shorter than next segment and data segment", f"{wq.log_wq_stride}"
        )
    log_count = _LOG_COUNT_BASE + ((wq.log_wqe_num_of_strides ^ 8) - 8)
    least = _LOG_COUNT_LEAST if caps.general.ext_stride_num_range else _LOG_COUNT_BASE
    if log_count < least:
        raise BadParamError("log_wqe_num_of_strides not supported", f"{log_count}, minimum {least}")
    log_size = _LOG_SIZE_BASE + wq.log_wqe_stride_size
    return Strides(log_size, log_count, is_shifted=bool(wq.two_byte_shift_en))


def _reservations(
    tables: ObjectTables, ctx: layout.rqc, wq: wq, strides: Strides | None
) -> Reservations:
    """Return the settings of header split (SHAMPO): where headers and data are written.

    Source: core/en/params.c: mlx5e_build_rq_param. Raises BAD_PARAM_ERR without the capability,
    without strides, and for an unsupported size, alignment or match. Raises BAD_RES_ERR for an
    unknown headers_mkey.
    """
    if not tables.caps.general.shampo:
        raise BadParamError("queue option not supported", "shampo_enable")
    if strides is None:
        raise BadParamError("header split needs a striding queue")
    size = 1 << _LOG_RESERVATION_BASE + wq.log_reservation_size
    if not 1 << strides.log_size <= size <= strides.count << strides.log_size:
        raise BadParamError("reservation size outside one stride to one WQE", f"{size} bytes")
    alignments: dict[int, int] = {
        ShampoAlignment.BYTE: 1,
        ShampoAlignment.STRIDE: 1 << strides.log_size,
        ShampoAlignment.PAGE: _PAGE_BYTES,
    }
    align = alignments.get(ctx.shampo_no_match_alignment_granularity)
    if align is None or ctx.shampo_match_criteria_type > ShampoMatch.FIVE_TUPLE:
        raise BadParamError(
            "shampo alignment or match not supported",
            f"{ctx.shampo_no_match_alignment_granularity}, {ctx.shampo_match_criteria_type}",
        )
    if tables.mkeys.get(wq.headers_mkey >> 8) is None:
        raise CmdError(Status.BAD_RES_ERR, "headers_mkey does not exist", f"{wq.headers_mkey:#x}")
    return Reservations(
        strides, size=size, limit=1 << wq.log_max_num_of_packets_per_reservation, align=align,
        headers_key=wq.headers_mkey, entry_bytes=1 << _LOG_HEADER_BASE + wq.log_headers_entry_size,
        entries=1 << wq.log_headers_buffer_entry_num,
        merges=ctx.shampo_match_criteria_type != ShampoMatch.NO_MATCH,
        timeout_ns=ctx.reservation_timeout * 1000,
    )  # fmt: skip


@command(Op.MODIFY_RQ)
def modify_rq(hca: Hca, cmd: layout.modify_rq_in, out: layout.modify_rq_out) -> None:
    """Change the state and the selected fields: VLAN stripping, FCS, counter set.

    ``rq_state`` is the state in which the driver expects the queue. Refuse another one with
    BAD_RES_STATE_ERR, an impossible transition or an unknown bit with BAD_PARAM_ERR. A hairpin
    queue is paired from RST to RDY.
    """
    rq = hca.rqs.subject(cmd.rqn)
    state = check_transition(queues.RQ_TRANSITIONS, rq.state, cmd.rq_state, cmd.ctx.state)
    mask = cmd.modify_bitmask
    if unknown := mask & ~sum(ModifyRq):
        raise BadParamError("RQ field cannot be modified", f"{unknown:#x}")
    if mask & ModifyRq.SCATTER_FCS:
        _check_fcs(hca.caps, cmd.ctx)
    peer = hairpin.sender_peer(hca, rq, state, cmd.ctx) if rq.hairpin is not None else None
    if mask & ModifyRq.RQ_COUNTER_SET_ID:
        rq.count_into(counter_set(hca.counters, cmd.ctx.counter_set_id))
        rq.ctx.counter_set_id = cmd.ctx.counter_set_id
    if mask & ModifyRq.VSD:
        rq.ctx.vsd = cmd.ctx.vsd
    if mask & ModifyRq.SCATTER_FCS:
        rq.ctx.scatter_fcs = cmd.ctx.scatter_fcs
    rq.decode()
    queues.enter_rq(hca, rq, state)
    if rq.hairpin is not None:
        hairpin.pair_receiver(rq, rq.hairpin, peer)


@command(Op.QUERY_RQ)
def query_rq(tables: ObjectTables, cmd: layout.query_rq_in, out: layout.query_rq_out) -> None:
    """Return the current context."""
    out.rq_context = tables.rqs.need(cmd.rqn).encode()


@command(Op.DESTROY_RQ)
def destroy_rq(hca: Hca, cmd: layout.destroy_rq_in, out: layout.destroy_rq_out) -> None:
    """Destroy the RQ; refused while a TIR or an RQT refers to it.

    Write held CQEs and drop merge sessions first; posted WQEs are not flushed.
    """
    rq = hca.rqs.remove(cmd.rqn)
    if rq.cq is not None:
        write_held(hca.cqes, rq.cq)
    hca.sessions.forget(rq)
    rq.state = RqState.RST
    rq.stop_waiting()
