"""XRQs: shared receive queues that match tags (hw/srq_cmd.c: create_xrq_cmd; UCX: rc_mlx5_devx.c).

An XRQ shares the number space of the other shared receive queues, because a qpc names all of them
in the same field. XRQs without tags (NVMe over fabrics) are not modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.queues.srq import Srq, SrqForm
from emu.device.objects.queues.tag_list import TagList
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.srq import destroy, queue_of, srq_of, srq_to_change
from firmware_cmds.objects.wq import user_index
from firmware_cmds.options import first_set
from layouts.enums.cmd import Op, Status
from layouts.objects import xrq as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_NOT_BUILT = ("rlkey", "dc")
"""Fields of xrqc that are not built: the second has a capability bit, which is not set."""


def _check(caps: Caps, ctx: layout.xrqc) -> None:
    """Refuse a topology, offload or option that is not supported with BAD_PARAM_ERR.

    A tag list above log_tag_matching_list_sz gets LIM_ERR.
    """
    if ctx.topology != layout.TOPOLOGY_TAG_MATCHING or not caps.general.tag_matching:
        raise BadParamError("topology not supported", f"{ctx.topology}")
    if ctx.offload not in (0, layout.OFFLOAD_RNDV):
        raise BadParamError("offload not supported", f"{ctx.offload}")
    if name := first_set(ctx, _NOT_BUILT):
        raise BadParamError("XRQ option not supported", name)
    log_size = ctx.tag_matching_topology_context.log_matching_list_sz
    if log_size > caps.general.log_tag_matching_list_sz:
        raise CmdError(
            Status.LIM_ERR, "log_matching_list_sz above log_tag_matching_list_sz", f"{log_size}"
        )


@command(Op.CREATE_XRQ)
def create_xrq(hca: Hca, cmd: layout.create_xrq_in, out: layout.create_xrq_out) -> Portions[None]:
    """Create a queue with an empty tag list: a list of WQEs (mlx5_ib), or a ring (UCX).

    Refuse an unsupported topology, offload or option with BAD_PARAM_ERR, sizes above the
    capabilities with LIM_ERR.
    """
    ctx = cmd.xrq_context.copy()
    _check(hca.caps, ctx)
    pd, cq = hca.pds.need(ctx.wq.pd), hca.cqs.need(ctx.cqn)
    log_size = ctx.tag_matching_topology_context.log_matching_list_sz
    tags = TagList(log_size, has_rendezvous=ctx.offload == layout.OFFLOAD_RNDV)
    queue, umems = yield from queue_of(hca, ctx.wq, cmd.xrq_context.wq.pas, pd, cq)
    xrq = Srq(SrqForm.XRQ, ctx, queue, pd, cq=cq, umems=umems, tags=tags)
    xrq.uidx = user_index(hca.caps, ctx.user_index)
    out.xrqn = hca.srqs.add(xrq)


@command(Op.ARM_XRQ)
def arm_xrq(tables: ObjectTables, cmd: layout.arm_xrq_in, out: layout.arm_xrq_out) -> None:
    """Arm the limit.

    When fewer WQEs than ``lwm`` are posted, SRQ_RQ_LIMIT is raised once; 0 disarms.
    """
    srq_to_change(tables.srqs, SrqForm.XRQ, cmd.xrqn).lwm = cmd.lwm


@command(Op.QUERY_XRQ)
def query_xrq(tables: ObjectTables, cmd: layout.query_xrq_in, out: layout.query_xrq_out) -> None:
    """Return the context of creation with the current limit and tag counts."""
    out.xrq_context = srq_of(tables.srqs, SrqForm.XRQ, cmd.xrqn).encode()


@command(Op.DESTROY_XRQ)
def destroy_xrq(
    tables: ObjectTables, cmd: layout.destroy_xrq_in, out: layout.destroy_xrq_out
) -> None:
    """Destroy the queue; refused while a QP receives from it, as each rendezvous does."""
    destroy(tables.srqs, SrqForm.XRQ, cmd.xrqn)
