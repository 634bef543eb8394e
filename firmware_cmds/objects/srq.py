"""Shared receive queues: RMP and XRC SRQ with ISSI 1, the older SRQ with ISSI 0 (hw/srq_cmd.c).

With XRQs (``xrq.py``) they are four forms. All are lists of linked WQEs; an RMP may also be a ring.
The forms share one number space here, because a qpc names any of them in the same field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.domains import Pd
from emu.device.objects.memory.pages import PageList, check_record, queue_buffer
from emu.device.objects.object import holding
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.objects.queues.receive_queue import SharedRecvList, SharedRecvQueue, SharedRecvRing
from emu.device.objects.queues.srq import Srq, SrqForm
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.umem import buffer_in, record_in
from firmware_cmds.objects.wq import user_index
from layouts.enums.cmd import Op, Status
from layouts.objects import srq as layout

if TYPE_CHECKING:
    from emu.device.objects.memory.umem import Umem
    from emu.device.objects.queues.cq import Cq
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.fields import ArrayView

LOG_DS = 4
"""log2 of a segment's 16 bytes. An XRC SRQ and an SRQ give their stride in segments, an RMP in
bytes.
"""

_ARM_XRQ = 2
"""Value of op_mod of ARM_RQ (MLX5_ARM_RQ_IN_OP_MOD_XRQ)."""
_WQ_TYPES = {0: SharedRecvList, 1: SharedRecvRing}
"""Queue classes by wq_type (MLX5_WQ_TYPE_*). The striding types have capability bits, none of which
is set.
"""


def shared_queue(
    hca: Hca,
    geometry: RqGeometry,
    pd: Pd,
    pas: ArrayView[int],
    buffer: PageList | None = None,
    kind: type[SharedRecvQueue] = SharedRecvList,
) -> Portions[SharedRecvQueue]:
    """Check the fields that all forms have and lay the queue over its pages, or a buffer.

    Raises LIM_ERR for sizes above the capabilities or a full table. Raises BAD_PARAM_ERR for a
    stride below one segment, a short page list, or pages or a record outside guest memory. The
    queue is not yet in the table.
    """
    caps = hca.caps.general
    if geometry.log_size > caps.log_max_srq_sz:
        raise CmdError(Status.LIM_ERR, "SRQ size above log_max_srq_sz", f"{geometry.log_size}")
    if 1 << geometry.log_stride > caps.max_wqe_sz_rq:
        raise CmdError(Status.LIM_ERR, "SRQ stride above max_wqe_sz_rq", f"{geometry.log_stride}")
    if geometry.log_stride < LOG_DS:
        raise BadParamError("SRQ stride shorter than one segment", f"{geometry.log_stride}")
    hca.srqs.check_space()
    check_record(hca.memory, geometry.dbr_addr)
    size = 1 << geometry.log_size + geometry.log_stride
    if buffer is None:
        log_page_size, page_offset = geometry.log_page_size, geometry.page_offset
        buffer = yield from queue_buffer(hca.memory, pas, log_page_size, page_offset, size)
    return kind(hca.memory, buffer, pd, geometry)


def srq_of(srqs: Table[Srq], form: SrqForm, number: int) -> Srq:
    """Return the queue with this number, which must be of this form.

    Raises BAD_RES_ERR for an unknown number, or a queue of another form.
    """
    srq = srqs.need(number)
    if srq.form is not form:
        raise CmdError(
            Status.BAD_RES_ERR, "SRQ number belongs to an SRQ of another type", f"{srq!r}"
        )
    return srq


def srq_to_change(srqs: Table[Srq], form: SrqForm, number: int) -> Srq:
    """Return the queue of this form that a command changes or destroys.

    Raises BAD_RES_STATE_ERR for an unknown number, or a queue of another form.
    """
    srq = srqs.subject(number)
    if srq.form is not form:
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "no SRQ of this type to change or destroy", f"{srq!r}"
        )
    return srq


def destroy(srqs: Table[Srq], form: SrqForm, number: int) -> None:
    """Destroy the queue; refused while a queue pair refers to it.

    XRC messages in progress do not count. Their WQEs are detached and never complete. The refusal
    is BAD_RES_STATE_ERR, as for a queue of another form.
    """
    srqs.remove(srq_to_change(srqs, form, number).handle).detach_in_flight()


def queue_of(
    hca: Hca, wq: layout.wq, pas: ArrayView[int], pd: Pd, cq: Cq | None = None
) -> Portions[tuple[SharedRecvQueue, tuple[Umem, ...]]]:
    """Return the queue that an RMP's or XRQ's work queue describes, and its umems.

    ``pas`` are its pages, ``cq`` is the CQ of its reports. Raises BAD_PARAM_ERR for an unsupported
    wq_type, and for memory outside the umem or the guest. Raises BAD_RES_ERR for an unknown umem,
    LIM_ERR for sizes above the capabilities.
    """
    kind = _WQ_TYPES.get(wq.wq_type)
    if kind is None:
        raise BadParamError("work queue type not supported", f"wq_type {wq.wq_type}")
    dbr_addr, umems = record_in(hca.umems, hca.memory, wq)
    buffer: PageList | None = None
    if wq.wq_umem_valid:
        size = 1 << wq.log_wq_sz + wq.log_wq_stride
        buffer, umem = buffer_in(hca.umems, wq.wq_umem_id, wq.wq_umem_offset, size)
        umems = (*umems, umem)
    geometry = RqGeometry(wq.log_wq_sz, wq.log_wq_stride, wq.log_wq_pg_sz, wq.page_offset, dbr_addr)
    with holding(pd, cq, *umems):
        queue = yield from shared_queue(hca, geometry, pd, pas, buffer, kind)
    return queue, umems


def _srq_geometry(ctx: layout.srqc | layout.xrc_srqc, log_size: int, dbr_addr: int) -> RqGeometry:
    log_stride = ctx.log_rq_stride + LOG_DS
    return RqGeometry(log_size, log_stride, ctx.log_page_size, ctx.page_offset, dbr_addr)


@command(Op.CREATE_RMP)
def create_rmp(hca: Hca, cmd: layout.create_rmp_in, out: layout.create_rmp_out) -> Portions[None]:
    """Create a receive memory pool: a plain SRQ of the driver, or the receive ring of UCX.

    WQEs of a cyclic work queue without a next segment need ``basic_cyclic_rcv_wqe``. The capability
    is not set, so that they get BAD_PARAM_ERR. Sizes above the capabilities get LIM_ERR.
    """
    ctx = cmd.ctx.copy()
    if ctx.basic_cyclic_rcv_wqe:
        raise BadParamError("work queue without a next segment not supported")
    pd = hca.pds.need(ctx.wq.pd)
    queue, umems = yield from queue_of(hca, ctx.wq, cmd.ctx.wq.pas, pd)
    out.rmpn = hca.srqs.add(Srq(SrqForm.RMP, ctx, queue, pd, umems=umems))


@command(Op.MODIFY_RMP)
def modify_rmp(tables: ObjectTables, cmd: layout.modify_rmp_in, out: layout.modify_rmp_out) -> None:
    """Arm the limit; the driver sets no other field.

    When fewer WQEs than ``lwm`` are posted, SRQ_RQ_LIMIT is raised once; 0 disarms. Without the bit
    lwm nothing changes.
    """
    rmp = srq_to_change(tables.srqs, SrqForm.RMP, cmd.rmpn)
    if cmd.bitmask.lwm:
        rmp.lwm = cmd.ctx.wq.lwm


@command(Op.QUERY_RMP)
def query_rmp(tables: ObjectTables, cmd: layout.query_rmp_in, out: layout.query_rmp_out) -> None:
    """Return the context of creation with the current limit."""
    out.rmp_context = srq_of(tables.srqs, SrqForm.RMP, cmd.rmpn).encode()


@command(Op.DESTROY_RMP)
def destroy_rmp(
    tables: ObjectTables, cmd: layout.destroy_rmp_in, out: layout.destroy_rmp_out
) -> None:
    """Destroy the queue; refused while a QP receives from it."""
    destroy(tables.srqs, SrqForm.RMP, cmd.rmpn)


@command(Op.CREATE_XRC_SRQ)
def create_xrc_srq(
    hca: Hca, cmd: layout.create_xrc_srq_in, out: layout.create_xrc_srq_out
) -> Portions[None]:
    """Create a shared receive queue that remote XRC senders name by its number.

    Refuse a cyclic queue or one over a umem with BAD_PARAM_ERR. Sizes above the capabilities get
    LIM_ERR.
    """
    ctx = cmd.xrc_srq_context_entry.copy()
    if ctx.basic_cyclic_rcv_wqe:
        raise BadParamError("wq_type of an XRC SRQ must be a linked list")
    if ctx.dbr_umem_valid or cmd.xrc_srq_umem_valid:
        raise BadParamError("an XRC SRQ over a umem is not supported")
    pd, xrcd, cq = hca.pds.need(ctx.pd), hca.xrcds.need(ctx.xrcd), hca.cqs.need(ctx.cqn)
    dbr_addr = ctx.db_record_addr_h << 32 | ctx.db_record_addr_l << 2
    geometry = _srq_geometry(ctx, ctx.log_xrc_srq_size, dbr_addr)
    with holding(pd, xrcd, cq):
        queue = yield from shared_queue(hca, geometry, pd, cmd.pas)
    srq = Srq(SrqForm.XRC_SRQ, ctx, queue, pd, xrcd, cq)
    if not ctx.user_index_equal_xrc_srqn:
        srq.uidx = user_index(hca.caps, ctx.user_index)
    out.xrc_srqn = hca.srqs.add(srq)


@command(Op.ARM_XRC_SRQ)
def arm_xrc_srq(
    tables: ObjectTables, cmd: layout.arm_xrc_srq_in, out: layout.arm_xrc_srq_out
) -> None:
    """Arm the limit.

    When fewer WQEs than ``lwm`` are posted, SRQ_RQ_LIMIT is raised once; 0 disarms.
    """
    srq_to_change(tables.srqs, SrqForm.XRC_SRQ, cmd.xrc_srqn).lwm = cmd.lwm


@command(Op.QUERY_XRC_SRQ)
def query_xrc_srq(
    tables: ObjectTables, cmd: layout.query_xrc_srq_in, out: layout.query_xrc_srq_out
) -> None:
    """Return the context of creation with the current limit."""
    srq = srq_of(tables.srqs, SrqForm.XRC_SRQ, cmd.xrc_srqn)
    out.xrc_srq_context_entry = srq.encode()


@command(Op.DESTROY_XRC_SRQ)
def destroy_xrc_srq(
    tables: ObjectTables, cmd: layout.destroy_xrc_srq_in, out: layout.destroy_xrc_srq_out
) -> None:
    """Destroy the queue; refused while a QP receives from it."""
    destroy(tables.srqs, SrqForm.XRC_SRQ, cmd.xrc_srqn)


@command(Op.CREATE_SRQ)
def create_srq(hca: Hca, cmd: layout.create_srq_in, out: layout.create_srq_out) -> Portions[None]:
    """Create a shared receive queue of ISSI 0; with an XRC domain it is an XRC SRQ.

    A CQ is optional (0). Sizes above the capabilities get LIM_ERR, pages outside guest memory
    BAD_PARAM_ERR.
    """
    ctx = cmd.srq_context_entry.copy()
    pd = hca.pds.need(ctx.pd)
    xrcd = hca.xrcds.need(ctx.xrcd) if ctx.xrcd else None
    cq = hca.cqs.need(ctx.cqn) if ctx.cqn else None
    with holding(pd, xrcd, cq):
        queue = yield from shared_queue(
            hca, _srq_geometry(ctx, ctx.log_srq_size, ctx.dbr_addr), pd, cmd.pas
        )
    out.srqn = hca.srqs.add(Srq(SrqForm.SRQ, ctx, queue, pd, xrcd, cq))


@command(Op.ARM_RQ)
def arm_rq(tables: ObjectTables, cmd: layout.arm_rq_in, out: layout.arm_rq_out) -> None:
    """Arm the limit; mlx5_ib sends it for an XRQ as well (hw/srq_cmd.c: arm_xrq_cmd).

    When fewer WQEs than ``lwm`` are posted, SRQ_RQ_LIMIT is raised once; 0 disarms. op_mod 2 means
    an XRQ, any other an SRQ of ISSI 0.
    """
    form = SrqForm.XRQ if cmd.op_mod == _ARM_XRQ else SrqForm.SRQ
    srq_to_change(tables.srqs, form, cmd.srq_number).lwm = cmd.lwm


@command(Op.QUERY_SRQ)
def query_srq(tables: ObjectTables, cmd: layout.query_srq_in, out: layout.query_srq_out) -> None:
    """Return the context of creation with the current limit."""
    out.srq_context_entry = srq_of(tables.srqs, SrqForm.SRQ, cmd.srqn).encode()


@command(Op.DESTROY_SRQ)
def destroy_srq(
    tables: ObjectTables, cmd: layout.destroy_srq_in, out: layout.destroy_srq_out
) -> None:
    """Destroy the queue; refused while a QP receives from it."""
    destroy(tables.srqs, SrqForm.SRQ, cmd.srqn)
