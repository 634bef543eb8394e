"""General objects: reserved queue pair numbers, and flow meters.

A process that makes its queue pairs elsewhere takes a number from here for rdma_cm, which tells
connections apart by it (rdma-core's mlx5dv_reserved_qpn_alloc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import CmdError
from emu.device.objects.queues.queue import ReservedQpn
from firmware_cmds.steering import flow_meter
from layouts.enums import GeneralObject, Op, Status
from layouts.objects import general_object as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca


def _check_type(caps: Caps, obj_type: int) -> None:
    if not caps.general.general_obj_types >> obj_type & 1:
        raise CmdError(Status.BAD_PARAM_ERR, "general object type not supported", f"{obj_type:#x}")


@command(
    Op.CREATE_GENERAL_OBJECT, layout.create_general_object_in, layout.create_general_object_out
)
def create_general_object(
    hca: Hca, cmd: layout.CreateGeneralObjectIn, out: layout.CreateGeneralObjectOut
) -> None:
    """Reserve one queue pair number (log_reserved_qpn_granularity is 0), or make flow meters."""
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod == GeneralObject.FLOW_METER_ASO:
        out.obj_id = flow_meter.create(hca, cmd)
        return
    if cmd.log_obj_range:
        raise CmdError(
            Status.LIM_ERR, "more numbers than log_reserved_qpn_granularity",
            f"{1 << cmd.log_obj_range}",
        )  # fmt: skip
    out.obj_id = hca.reserved_qpns.add(ReservedQpn())


@command(
    Op.DESTROY_GENERAL_OBJECT, layout.destroy_general_object_in, layout.destroy_general_object_out
)
def destroy_general_object(
    hca: Hca, cmd: layout.DestroyGeneralObjectIn, out: layout.DestroyGeneralObjectOut
) -> None:
    """The number can be a queue pair's again, or the meters are gone."""
    _check_type(hca.caps, cmd.op_mod)
    if cmd.op_mod == GeneralObject.FLOW_METER_ASO:
        flow_meter.destroy(hca, cmd.obj_id)
        return
    hca.reserved_qpns.remove(cmd.obj_id)
