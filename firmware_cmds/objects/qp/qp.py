"""Queue pairs: create, query, destroy."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from emu.device.cmdif.registry import command
from emu.device.engine.eth import ipoib
from emu.device.engine.eth.steering import changes as steering
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.ud import datagram
from emu.device.errors import CmdError
from emu.device.objects.memory.pages import PageList, no_pages, queue_buffer
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import holding
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import RecvRing
from emu.device.objects.queues.send_queue import DoorbellRing, NoSendRing, SendRing
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.counter import counter_set
from firmware_cmds.objects.qp.multicast import leave_all_groups
from firmware_cmds.objects.qp.supported import check_streams, check_tag_matching, check_type
from firmware_cmds.objects.umem import buffer_in, record_in
from firmware_cmds.objects.wq import real_time, response_scatter, user_index
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpState, QpType, RqType, UlpStatelessOffloadMode
from layouts.objects import qp as layout
from layouts.rings.cqe import CQE_BYTES, SCATTER_32_BYTES, SCATTER_64_BYTES
from layouts.rings.wqe import WQEBB

if TYPE_CHECKING:
    from emu.device.objects.domains import Pd
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.queues.srq import Srq
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_EXTENSION_WORDS = Struct(f">{layout.qpc_ext.size // 8}Q")
RQ_STRIDE_SHIFT = 4
_SCATTERING = (QpType.RC, QpType.UC)
"""Services whose receive completions may contain the message's data.

``_SCATTERED`` lists those whose send completions may contain an answer (hw/qp.c: create_user_qp).
"""
_SCATTERED = (QpType.RC, QpType.DCI)
_REQUEST_SCATTER = {0x11: SCATTER_32_BYTES, 0x22: SCATTER_64_BYTES}
"""Bytes of scattered data by cs_req (MLX5_REQ_SCAT_DATA32_CQE and 64)."""


@command(Op.CREATE_QP)
def create_qp(hca: Hca, cmd: layout.create_qp_in, out: layout.create_qp_out) -> Portions[None]:
    """Create a queue pair in state RST; its buffer begins with the receive queue.

    Refuse with BAD_PARAM_ERR a service, rq_type or option without its capability, and a buffer or
    record outside guest memory. Refuse with LIM_ERR sizes beyond the capabilities. A special QP
    replaces the earlier one of its number.
    """
    ctx = cmd.qpc.copy()
    check_type(hca, ctx)
    check_streams(hca.caps, ctx)
    if ctx.ulp_stateless_offload_mode == UlpStatelessOffloadMode.ENHANCED:
        out.qpn = _add_underlay(hca, ctx)
        return
    has_real_time = real_time(ctx.ts_format, hca.caps.roce.qp_ts_format)
    if not ctx.no_sq:
        hca.need_uar(ctx.uar_page)
    pd = hca.pds.need(ctx.pd) if ctx.st != QpType.REG_UMR else None
    scq, rcq, srq = _queues(hca, ctx)
    check_tag_matching(ctx, srq)
    xrcd = hca.xrcds.need(ctx.xrcd) if ctx.st == QpType.XRC else None
    counter = counter_set(hca.counters, ctx.counter_set_id)
    hca.qps.check_space()
    with holding(pd, scq, rcq, srq, xrcd, counter):
        buffer, sq, rq, umems = yield from _rings(hca, cmd, ctx, pd)
    qp = Qp(
        ctx, buffer, sq, rq,
        pd=pd, scq=scq, rcq=rcq, srq=srq, xrcd=xrcd, counter=counter, umems=umems,
    )  # fmt: skip
    qp.uidx = user_index(hca.caps, ctx.user_index)
    qp.is_ipoib = ctx.ulp_stateless_offload_mode == UlpStatelessOffloadMode.BASIC
    qp.cs_res = response_scatter(hca.caps, ctx.cs_res) if qp.st in _SCATTERING else 0
    qp.cs_req = _request_scatter(hca.caps, qp)
    qp.has_real_time = has_real_time
    out.qpn = hca.qps.add(qp)
    qp.serial = hca.qps.added
    if qp.st in datagram.WELL_KNOWN:
        hca.special_qps[datagram.WELL_KNOWN[qp.st]] = qp


def _add_underlay(hca: Hca, ctx: layout.qpc) -> int:
    """Create a queue pair without rings, the underlay of Ethernet queues; return its number.

    The context has no other fields than counter_set_id (core/ipoib/ipoib.c:
    mlx5i_create_underlay_qp). Raises LIM_ERR for a full table, BAD_RES_ERR for an unknown counter
    set.
    """
    hca.qps.check_space()
    counter = counter_set(hca.counters, ctx.counter_set_id)
    qp = Qp(ctx, no_pages(hca.memory), counter=counter)
    qp.steer = ipoib.receive
    number = hca.qps.add(qp)
    qp.serial = hca.qps.added
    return number


def _request_scatter(caps: Caps, qp: Qp) -> int:
    """Return the maximum bytes of a response that a send CQE may contain.

    Return 0 without a send CQ or the capability, and for services other than RC and DCI. Return 0
    also for 64 bytes if CQEs have 64 bytes.
    """
    general = caps.general
    if qp.scq is None or not general.sctr_data_cqe or qp.st not in _SCATTERED:
        return 0
    if qp.st == QpType.DCI and not general.dc_req_scat_data_cqe:
        return 0
    limit = _REQUEST_SCATTER.get(qp.ctx.cs_req, 0)
    return limit if limit <= SCATTER_32_BYTES or qp.scq.stride > CQE_BYTES else 0


def _queues(tables: ObjectTables, ctx: layout.qpc) -> tuple[Cq | None, Cq | None, Srq | None]:
    """Return the send CQ, the receive CQ and the SRQ; None for each one that is not used.

    A DC initiator receives nothing: without a shared queue of the user's, its context names one of
    the driver's own (hw/qp.c: create_dci). Raises BAD_RES_ERR for an unknown number.
    """
    receives = ctx.st != QpType.DCI
    has_rq, has_sq = receives and ctx.rq_type != RqType.ZERO_LEN_RQ, not ctx.no_sq
    return (
        tables.cqs.need(ctx.cqn_snd) if has_sq else None,
        tables.cqs.need(ctx.cqn_rcv) if has_rq else None,
        tables.srqs.need(ctx.srqn_rmpn_xrqn) if has_rq and ctx.rq_type == RqType.SRQ else None,
    )


class _Rings(NamedTuple):
    buffer: PageList
    sq: SendRing | None
    rq: RecvRing | None
    umems: tuple[Umem, ...]


def _rings(hca: Hca, cmd: layout.create_qp_in, ctx: layout.qpc, pd: Pd | None) -> Portions[_Rings]:
    """Return the queue pair's buffer and the rings in it, receive ring first.

    A ring is None where the context has none. Raises LIM_ERR above log_max_qp_sz or max_wqe_sz_rq.
    Raises BAD_PARAM_ERR for a buffer or record outside guest memory, BAD_RES_ERR for an unknown
    umem.
    """
    if max(ctx.log_sq_size, ctx.log_rq_size) > hca.caps.general.log_max_qp_sz:
        raise CmdError(Status.LIM_ERR, "queue size above log_max_qp_sz")
    log_stride = ctx.log_rq_stride + RQ_STRIDE_SHIFT
    if 1 << log_stride > hca.caps.general.max_wqe_sz_rq:
        raise CmdError(Status.LIM_ERR, "receive WQE above max_wqe_sz_rq", f"{1 << log_stride}")
    rq_bytes = 1 << ctx.log_rq_size + log_stride if ctx.rq_type == RqType.RQ else 0
    sq_bytes = 0 if ctx.no_sq else WQEBB << ctx.log_sq_size
    dbr_addr, umems = record_in(hca.umems, hca.memory, ctx) if rq_bytes or sq_bytes else (0, ())
    if cmd.wq_umem_valid and rq_bytes + sq_bytes:
        size = rq_bytes + sq_bytes
        buffer, umem = buffer_in(hca.umems, cmd.wq_umem_id, cmd.wq_umem_offset, size)
        umems = (*umems, umem)
    else:
        with holding(*umems):
            buffer = yield from queue_buffer(
                hca.memory, cmd.pas, ctx.log_page_size, ctx.page_offset, rq_bytes + sq_bytes
            )
    sq: SendRing | None = None
    rq = None
    if ctx.no_sq and ctx.offload_type:
        sq = NoSendRing(
            hca.memory, hca.view_cache.ring_pages, buffer, 0, 0, 0
        )  # for what the adapter sends by itself
    if sq_bytes:
        kind = DoorbellRing if ctx.send_dbr_mode else SendRing
        sq = kind(
            hca.memory, hca.view_cache.ring_pages, buffer, rq_bytes, ctx.log_sq_size, dbr_addr
        )
    if rq_bytes and pd is not None:
        geometry = RqGeometry(ctx.log_rq_size, log_stride, ctx.log_page_size, 0, dbr_addr)
        rq = RecvRing(hca.memory, hca.view_cache.ring_pages, buffer, pd, geometry)
    return _Rings(buffer, sq, rq, umems)


@command(Op.DESTROY_QP)
def destroy_qp(hca: Hca, cmd: layout.destroy_qp_in, out: layout.destroy_qp_out) -> Portions[None]:
    """Destroy the queue pair; the adapter no longer accesses its memory after the answer.

    Leave its multicast groups, in steps. Detach an underlay from its flow table and cancel its page
    faults. Posted WQEs are not flushed; requests of a shared queue go back to it.
    """
    qp = hca.qps.removable(cmd.qpn)
    with holding(qp):
        yield from leave_all_groups(hca, qp)
    hca.qps.remove(cmd.qpn)
    if qp.steer is not None:
        steering.set_underlay(hca.flow_domains[FlowTableType.NIC_RX], qp.handle, None)
    number = datagram.WELL_KNOWN.get(qp.st)
    if number is not None and hca.special_qps.get(number) is qp:
        del hca.special_qps[number]
    qp.state = QpState.RST
    qp.stop_waiting()
    qp_life.stop_paging(hca, qp)
    qp.unlink()


@command(Op.QUERY_QP)
def query_qp(tables: ObjectTables, cmd: layout.query_qp_in, out: layout.query_qp_out) -> None:
    """Return the current context and the page list, up to the output's space.

    With qpc_ext the extension precedes the list; it reports the error syndrome (mlx5_ib:
    mlx5_ib_qp_err_syndrome).
    """
    qp = tables.qps.need(cmd.qpn)
    out.qpc = qp.encode()
    words = [*_extension(tables.caps, qp), *qp.buffer.pages] if cmd.qpc_ext else qp.buffer.pages
    out.pas.put_words(words[: len(out.pas)])


def _extension(caps: Caps, qp: Qp) -> tuple[int, ...]:
    """Return the words of a queue pair's qpc_ext; fields that do not apply are 0."""
    ext = layout.qpc_ext.new(mmo=qp.has_mmo)
    if qp.pace is not None:
        ext.qos_queue_group_id_requester = qp.pace.group.handle
    if qp.response_pace is not None:
        ext.qos_queue_group_id_responder = qp.response_pace.group.handle
    if caps.general.qp_error_syndrome and qp.error_syndrome is not None:
        ext.error_syndrome = qp.error_syndrome
    return _EXTENSION_WORDS.unpack(bytes(ext.buf))
