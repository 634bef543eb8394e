"""Queue pairs: create, transitions, query, destroy, multicast (PRM "Queue pairs"; hw/qp.c)."""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from emu.device.cmdif.registry import Command, OpenField, add, command
from emu.device.engine.eth import ipoib
from emu.device.engine.eth.steering import changes as steering
from emu.device.engine.qp import attributes, migration, pacing
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp import transitions as qp_state
from emu.device.engine.ud import datagram
from emu.device.errors import CmdError
from emu.device.objects.memory.pages import PageList, no_pages, queue_buffer
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import DRIVER_UID, holding
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import RecvRing
from emu.device.objects.queues.send_queue import DoorbellRing, NoSendRing, SendRing
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import GROUPS_PER_PORTION
from emu.device.state.hca import HcaState
from emu.device.state.tables import MULTICAST
from firmware_cmds.objects.counter import counter_set
from firmware_cmds.objects.scheduling import queue_group
from firmware_cmds.objects.umem import buffer_in, record_in
from firmware_cmds.objects.wq import check_end_padding, real_time, response_scatter, user_index
from firmware_cmds.options import first_set
from layouts.enums import Op, QpState, QpType, RqType, Status, UlpStatelessOffloadMode
from layouts.eth_enums import FlowTableType
from layouts.objects import qp as layout
from layouts.objects.xrq import OFFLOAD_RNDV
from layouts.prm import Prm
from layouts.rings.cqe import CQE_BYTES, SCATTER_32_BYTES, SCATTER_64_BYTES
from layouts.rings.wqe import WQEBB

if TYPE_CHECKING:
    from emu.device.objects.domains import Pd
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.queues.pace import Pace
    from emu.device.objects.queues.srq import Srq
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

    Modify = layout.ToNextStateIn | layout.SameStateIn | layout.BackToRtsIn

_EXTENSION_WORDS = Struct(f">{layout.qpc_ext.size // 8}Q")
RQ_STRIDE_SHIFT = 4
MEMBERSHIP_BYTES = 512
"""Host memory in bytes for one membership of a multicast group."""
_GATES = {QpType.RC: "rc", QpType.UC: "uc", QpType.UD: "ud", QpType.XRC: "xrc", QpType.DCI: "dct"}
_ALWAYS = (QpType.QP0, QpType.QP1, QpType.REG_UMR)
_NOT_BUILT = (
    *("cd_master", "cd_slave_send", "cd_slave_receive", "req_e2e_credit_mode", "isolate_vl_tc"),
)
"""Fields of qpc whose features have capability bits, none of which is set."""
_SCATTERING = (QpType.RC, QpType.UC)
"""Services whose receive completions may contain the message's data.

``_SCATTERED`` lists those whose send completions may contain an answer (hw/qp.c: create_user_qp).
"""
_SCATTERED = (QpType.RC, QpType.DCI)
_REQUEST_SCATTER = {0x11: SCATTER_32_BYTES, 0x22: SCATTER_64_BYTES}
"""Bytes of scattered data by cs_req (MLX5_REQ_SCAT_DATA32_CQE and 64)."""
_NO_DBR_EXT = 1
"""Value of send_dbr_mode: doorbells carry the producer index themselves."""
_RQ_TYPES = (RqType.RQ, RqType.SRQ, RqType.ZERO_LEN_RQ)


@command(Op.CREATE_QP)
def create_qp(hca: Hca, cmd: layout.create_qp_in, out: layout.create_qp_out) -> Portions[None]:
    """Create a queue pair in state RST; its buffer begins with the receive queue.

    Refuse with BAD_PARAM_ERR a service, rq_type or option without its capability, and a buffer or
    record outside guest memory. Refuse with LIM_ERR sizes beyond the capabilities or a full table.
    Unknown objects get BAD_RES_ERR. A special QP replaces the earlier one of its number.
    """
    ctx = cmd.qpc.copy()
    _check_type(hca, ctx)
    _check_streams(hca.caps, ctx)
    if ctx.ulp_stateless_offload_mode == UlpStatelessOffloadMode.ENHANCED:
        out.qpn = _add_underlay(hca, ctx)
        return
    has_real_time = real_time(ctx.ts_format, hca.caps.roce.qp_ts_format)
    if not ctx.no_sq:
        hca.need_uar(ctx.uar_page)
    pd = hca.pds.need(ctx.pd) if ctx.st != QpType.REG_UMR else None
    scq, rcq, srq = _queues(hca, ctx)
    _check_tag_matching(ctx, srq)
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


def _check_type(tables: ObjectTables, ctx: layout.qpc) -> None:
    """Refuse with BAD_PARAM_ERR a service, rq_type or option that is not supported.

    Refuse with it also a process that wants QP0, QP1, REG_UMR, ``rlky`` or ``fre``.
    """
    try:
        kind = QpType(ctx.st)
    except ValueError:
        kind = None
    if kind not in _ALWAYS and not (kind in _GATES and getattr(tables.caps.general, _GATES[kind])):
        raise CmdError(Status.BAD_PARAM_ERR, "transport service not supported", f"st {ctx.st:#x}")
    if ctx.rq_type not in _RQ_TYPES:
        raise CmdError(Status.BAD_PARAM_ERR, "rq_type not supported", f"{ctx.rq_type}")
    if name := first_set(ctx, _NOT_BUILT):
        raise CmdError(Status.BAD_PARAM_ERR, "queue pair option not supported", name)
    check_end_padding(ctx.end_padding_mode)
    _check_stateless_offloads(tables.caps, ctx)
    if ctx.send_dbr_mode and not (
        ctx.send_dbr_mode == _NO_DBR_EXT and tables.caps.general_2.send_dbr_mode_no_dbr_ext
    ):
        raise CmdError(Status.BAD_PARAM_ERR, "send_dbr_mode not supported", f"{ctx.send_dbr_mode}")
    if tables.caller.uid != DRIVER_UID and (kind in _ALWAYS or ctx.rlky or ctx.fre):
        # A queue pair of these types reaches physical addresses, keys of all domains, or subnet
        # management.
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "only the driver may create a queue pair of this type",
            f"st {ctx.st:#x}",
        )


def _check_streams(caps: Caps, ctx: layout.qpc) -> None:
    """Refuse with LIM_ERR a DC initiator with more streams than the capabilities allow.

    mlx5_ib forwards a process's numbers unchecked (hw/qp.c: create_dci).
    """
    channels, errored = ctx.log_num_dci_stream_channels, ctx.log_num_dci_errored_streams
    general = caps.general
    if ctx.st == QpType.DCI and (
        channels > general.log_max_dci_stream_channels
        or errored > general.log_max_dci_errored_streams
    ):
        raise CmdError(
            Status.LIM_ERR, "more streams than the capabilities allow", f"{channels}, {errored}"
        )


def _check_stateless_offloads(caps: Caps, ctx: layout.qpc) -> None:
    """Refuse an unsupported ulp_stateless_offload_mode with BAD_PARAM_ERR.

    A mode other than 0 needs its ipoib capability and the service UD.
    """
    mode = ctx.ulp_stateless_offload_mode
    if not mode:
        return
    offered = {
        int(UlpStatelessOffloadMode.BASIC): caps.general.ipoib_basic_offloads,
        int(UlpStatelessOffloadMode.ENHANCED): caps.general.ipoib_enhanced_offloads,
    }
    if not offered.get(mode) or ctx.st != QpType.UD:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "ulp_stateless_offload_mode not supported",
            f"{mode}, st {ctx.st:#x}",
        )


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


def _check_tag_matching(ctx: layout.qpc, srq: Srq | None) -> None:
    """Refuse with BAD_PARAM_ERR a wrong use of an XRQ, which matches tags.

    Only RC receives from such a queue, and only with such a queue is rendezvous possible.
    """
    matches = srq is not None and srq.tags is not None
    if matches and ctx.st != QpType.RC:
        raise CmdError(Status.BAD_PARAM_ERR, "tag matching is for RC", f"st {ctx.st:#x}")
    if ctx.offload_type and not (matches and ctx.offload_type == OFFLOAD_RNDV):
        raise CmdError(Status.BAD_PARAM_ERR, "offload_type not supported", f"{ctx.offload_type}")


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
    faults. Posted WQEs are not flushed; requests of a shared queue go back to it. Refuse an unknown
    number, or a QP in use, with BAD_RES_STATE_ERR.
    """
    qp = hca.qps.removable(cmd.qpn)
    with holding(qp):
        yield from _leave_all(hca, qp)
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


def _leave_all(tables: ObjectTables, qp: Qp) -> Portions[None]:
    """Remove a queue pair from all its multicast groups, of which it may have a million."""
    while qp.mcgs:
        for _ in range(min(len(qp.mcgs), GROUPS_PER_PORTION)):
            _leave(tables, qp, qp.mcgs.popitem()[0])
        if qp.mcgs:
            yield


@command(Op.QUERY_QP)
def query_qp(tables: ObjectTables, cmd: layout.query_qp_in, out: layout.query_qp_out) -> None:
    """Return the current context and the page list, up to the output's space.

    With qpc_ext the extension precedes the list; it reports the error syndrome (mlx5_ib:
    mlx5_ib_qp_err_syndrome). Refuse an unknown number with BAD_RES_ERR.
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


def _transition(
    op: Op, layout_in: type[Prm], layout_out: type[Prm], opened: OpenField | None = None
) -> None:
    """Register the command of one row of the transition table.

    The handler refuses a wrong source state with BAD_QP_STATE_ERR, and unsupported or invalid
    fields with BAD_PARAM_ERR. An unknown QP, or a stream that has not failed, gets
    BAD_RES_STATE_ERR; an unknown counter set or queue group BAD_RES_ERR. A refusal changes nothing.
    ``opened`` describes the extension to the trace.
    """
    row = qp_state.TRANSITIONS[op]
    modifies = "opt_param_mask" in {field.name for field in layout_in.fields}

    def handler(hca: Hca, cmd: Any, out: Any) -> None:
        qp = hca.qps.subject(cmd.qpn)
        if qp.state not in row.sources:
            raise CmdError(
                Status.BAD_QP_STATE_ERR,
                "transition is not allowed from this state",
                f"{qp!r} {qp.state.name}",
            )
        source = qp.state
        what = _checked(hca, op, qp, cmd) if modifies else None
        migrates = what is not None and migration.selects_migration(qp, cmd.qpc, what)
        paces = _requested_paces(hca, qp, cmd) if modifies else None
        qp.encode()
        if what is not None:
            _apply_extension(qp, cmd)
            qp_state.apply(qp.ctx, cmd.qpc, what)
            qp.has_alternate |= what.has_alternate
            if migrates:
                migration.take_alternate(qp)
            qp.count_into(counter_set(hca.counters, qp.ctx.counter_set_id))
        if paces is not None:
            hca.qps.change(qp, partial(qp.keep_to, *paces))
            hca.scheduler.schedule(qp)
        qp.state = row.target
        qp_life.apply_transition(hca, qp, source)

    handler.__name__ = layout_in.__name__.removesuffix("_in")
    handler.__doc__ = f"From {row}."
    add(Command(op, layout_in, layout_out, handler, HcaState.INITIALIZED, opened))


def _checked(hca: Hca, op: Op, qp: Qp, cmd: Modify) -> qp_state.Selection:
    """Return the fields that the command takes from its qpc, after all checks.

    Raises BAD_PARAM_ERR for an unsupported mask bit or an invalid value, BAD_RES_ERR for an unknown
    counter set. Raises BAD_RES_STATE_ERR for a stream that has not failed.
    """
    high_mask = cmd.opt_param_mask_95_32 if isinstance(cmd, layout.SameStateIn) else 0
    what = qp_state.selection(op, cmd.opt_param_mask, high_mask)
    attributes.check(hca.link, hca.caps, op, qp, cmd.qpc, what)
    if "counter_set_id" in what.fields and cmd.qpc.counter_set_id:
        hca.counters.need(cmd.qpc.counter_set_id)
    if isinstance(cmd, layout.rts2rts_qp_in) and high_mask & qp_state.DCI_STREAM_CHANNEL_ID:
        _check_stream(qp, cmd)
    if high_mask & qp_state.MMO and not hca.caps.general.dma_mmo_qp:
        raise CmdError(Status.BAD_PARAM_ERR, "memory-to-memory operations are not supported")
    return what


def _apply_extension(qp: Qp, cmd: Modify) -> None:
    """Resume a stream and set ``has_mmo``, as opt_param_mask_95_32 says; both are checked.

    Do nothing for a command without that mask.
    """
    if not isinstance(cmd, layout.SameStateIn):
        return
    ext = _given_extension(cmd)
    if cmd.opt_param_mask_95_32 & qp_state.DCI_STREAM_CHANNEL_ID and qp.streams is not None:
        qp.streams.failed.discard(ext.dci_stream_channel_id)
    if cmd.opt_param_mask_95_32 & qp_state.MMO:
        qp.has_mmo = bool(ext.mmo)


def _requested_paces(
    tables: ObjectTables, qp: Qp, cmd: Modify
) -> tuple[Pace | None, Pace | None] | None:
    """Return the rates of the queue groups that the queue pair joins; None for no change.

    The pair is requester and responder; None in it means no group. Only the responder of RC may
    have one (mlx5dv_modify_qp_sched_elem(3)). Raises BAD_PARAM_ERR where no group is possible,
    BAD_RES_ERR for an unknown group.
    """
    if (
        not isinstance(cmd, layout.SameStateIn)
        or not cmd.opt_param_mask_95_32 & qp_state.QOS_QUEUE_GROUP_ID
    ):
        return None
    if not tables.caps.qos.nic_qp_scheduling or qp.st not in _PACED:
        raise CmdError(Status.BAD_PARAM_ERR, "queue pair cannot be in a queue group", f"{qp!r}")
    ext = _given_extension(cmd)
    ids = ext.qos_queue_group_id_requester, ext.qos_queue_group_id_responder
    if ids[1] and qp.st is not QpType.RC:
        raise CmdError(
            Status.BAD_PARAM_ERR, "only the responder of RC can be rate limited", f"{qp!r}"
        )
    requester, responder = (queue_group(tables.scheduling_elements, number) for number in ids)
    return pacing.pace_by(requester), pacing.pace_by(responder)


_PACED = (QpType.RC, QpType.UC, QpType.UD)


def _given_extension(cmd: layout.SameStateIn) -> layout.qpc_ext:
    """Return the command's extension of the context; one of zeros without ``qpc_ext``."""
    return layout.qpc_ext.view(cmd.qpc_data_ext) if cmd.qpc_ext else layout.qpc_ext.new()


def _check_stream(qp: Qp, cmd: layout.rts2rts_qp_in) -> None:
    """Refuse with BAD_RES_STATE_ERR to resume a stream that has not failed."""
    number = layout.qpc_ext.view(bytearray(cmd.qpc_data_ext)).dci_stream_channel_id
    if not cmd.qpc_ext or qp.streams is None or number not in qp.streams.failed:
        raise CmdError(Status.BAD_RES_STATE_ERR, "stream has not failed", f"{number}")


_transition(Op.RST2INIT_QP, layout.rst2init_qp_in, layout.rst2init_qp_out)
_EXTENSION = OpenField("qpc_data_ext", lambda cmd: layout.qpc_ext if cmd.qpc_ext else None)
_transition(Op.INIT2INIT_QP, layout.init2init_qp_in, layout.init2init_qp_out, _EXTENSION)
_transition(Op.INIT2RTR_QP, layout.init2rtr_qp_in, layout.init2rtr_qp_out)
_transition(Op.RTR2RTS_QP, layout.rtr2rts_qp_in, layout.rtr2rts_qp_out)
_transition(Op.RTS2RTS_QP, layout.rts2rts_qp_in, layout.rts2rts_qp_out, _EXTENSION)
_transition(Op.SQERR2RTS_QP, layout.sqerr2rts_qp_in, layout.sqerr2rts_qp_out)
_transition(Op.SQD_RTS_QP, layout.sqd2rts_qp_in, layout.sqd2rts_qp_out)
_transition(Op._2ERR_QP, layout.qp_2err_in, layout.qp_2err_out)
_transition(Op._2RST_QP, layout.qp_2rst_in, layout.qp_2rst_out)


@command(Op.ATTACH_TO_MCG)
def attach_to_mcg(
    tables: ObjectTables, cmd: layout.attach_to_mcg_in, out: layout.attach_to_mcg_out
) -> None:
    """Join a datagram queue pair to the multicast group.

    Refuse with BAD_PARAM_ERR another service, with BAD_RES_STATE_ERR a second membership. Refuse
    with LIM_ERR above log_max_mcg groups or max_qp_mcg members, or without host memory. An unknown
    QP gets BAD_RES_ERR.
    """
    qp = tables.qps.need(cmd.qpn)
    if qp.ctx.st != QpType.UD:
        raise CmdError(
            Status.BAD_PARAM_ERR, "only a UD queue pair can join a multicast group", f"{qp!r}"
        )
    gid, caps = cmd.multicast_gid, tables.caps.general
    if gid in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "queue pair is already in the multicast group")
    if gid not in tables.mcgs and len(tables.mcgs) >= 1 << caps.log_max_mcg:
        raise CmdError(Status.LIM_ERR, "out of multicast groups", f"{len(tables.mcgs)} live")
    if len(tables.mcgs.get(gid, ())) >= caps.max_qp_mcg:
        raise CmdError(Status.LIM_ERR, "multicast group is full", f"{caps.max_qp_mcg} QPs")
    tables.ledger.take(MULTICAST, MEMBERSHIP_BYTES)
    tables.mcgs.setdefault(gid, []).append(qp)
    qp.mcgs[gid] = None


@command(Op.DETACH_FROM_MCG)
def detach_from_mcg(
    tables: ObjectTables, cmd: layout.detach_from_mcg_in, out: layout.detach_from_mcg_out
) -> None:
    """Remove a queue pair from the multicast group.

    Refuse with BAD_RES_STATE_ERR one that is not a member, with BAD_RES_ERR an unknown number.
    """
    qp = tables.qps.need(cmd.qpn)
    if cmd.multicast_gid not in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "queue pair is not in the multicast group")
    del qp.mcgs[cmd.multicast_gid]
    _leave(tables, qp, cmd.multicast_gid)


def _leave(tables: ObjectTables, qp: Qp, gid: bytes) -> None:
    """Remove a member from the group; the group ends with its last.

    Credit the ledger with one membership. The caller removes the group from the queue pair.
    """
    tables.mcgs[gid].remove(qp)
    tables.ledger.give_back(MULTICAST, MEMBERSHIP_BYTES)
    if not tables.mcgs[gid]:
        del tables.mcgs[gid]
