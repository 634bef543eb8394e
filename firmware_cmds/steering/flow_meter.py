"""Flow meters: general objects, and their use by flow table entries (EXECUTE_ASO).

Source: core/en/tc/meter.c: mlx5e_flow_meter_create_aso_obj; core/fs_cmd.c:
mlx5_cmd_set_fte_flow_meter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.steering.colors import marks_of
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow_meter import LOG_MAX_IN_RANGE, FlowMeterAso, Metering
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.enums.fte import FlowAction
from layouts.enums.general_object import MeterColor
from layouts.enums.modify_header import ModifyField
from layouts.objects.flow_meter import flow_meter_aso_obj
from layouts.steering.fte import exe_aso_ctrl_flow_meter

if TYPE_CHECKING:
    from emu.device.objects.eth.flow.table import FlowTable
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in
    from layouts.steering.fte import flow_context

_LAST_REGISTER = ModifyField.METADATA_REG_C_7 - ModifyField.METADATA_REG_C_0
_FLOW_METER = 2
"""Value of exe_aso_ctrl_flow_meter.aso_type (MLX5_EXE_ASO_FLOW_METER)."""


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Create a range of objects with two meters each; return the number of the first.

    Raises LIM_ERR above log_meter_aso_max_alloc or for a full table, BAD_RES_ERR for an unknown PD.
    """
    if cmd.log_obj_range > tables.caps.qos.log_meter_aso_max_alloc:
        raise CmdError(
            Status.LIM_ERR, "more flow meters than log_meter_aso_max_alloc allows",
            f"{1 << cmd.log_obj_range}",
        )  # fmt: skip
    obj = flow_meter_aso_obj.view(given_object(cmd.object, flow_meter_aso_obj.size))
    pd = tables.pds.need(obj.meter_aso_access_pd)
    parameters = b"".join(map(bytes, obj.flow_meter_parameters))
    aso = FlowMeterAso(pd, cmd.log_obj_range, parameters)
    tables.objects[FlowMeterAso].add(aso)
    return aso.first


def destroy(tables: ObjectTables, number: int) -> None:
    """Destroy a range, by the number of its first object; refused while an entry uses it.

    Raises BAD_RES_STATE_ERR then, and for a number that does not begin a range.
    """
    objects = tables.objects[FlowMeterAso]
    meter = objects.subject(number >> LOG_MAX_IN_RANGE)
    if meter.first != number:
        raise CmdError(
            Status.BAD_RES_STATE_ERR,
            "flow meters must be destroyed by the number of the first one",
            f"{number:#x}",
        )
    objects.remove(meter.handle)


def metering_of(tables: ObjectTables, table: FlowTable, ctx: flow_context) -> Metering | None:
    """Return the metering of an entry; None without the action EXECUTE_ASO.

    Raises BAD_PARAM_ERR for an aso_type, register or number of ASOs that is not supported. Raises
    BAD_RES_ERR for an unknown meter.
    """
    if not ctx.action & FlowAction.EXECUTE_ASO:
        return None
    given, *others = ctx.execute_aso
    if not given.valid or any(other.valid for other in others):
        raise BadParamError("only the first execute_aso can be valid, and it must be")
    ctrl = exe_aso_ctrl_flow_meter.view(bytes(given.exe_aso_ctrl))
    if ctrl.aso_type != _FLOW_METER:
        raise BadParamError("aso_type not supported", f"{ctrl.aso_type}")
    if ctrl.return_reg_id > _LAST_REGISTER:
        raise BadParamError("no such register", f"{ctrl.return_reg_id}")
    number = given.aso_object_id
    aso = tables.objects[FlowMeterAso].need(number >> LOG_MAX_IN_RANGE)
    if not aso.has(number):
        raise CmdError(Status.BAD_RES_ERR, "no such flow meter", f"{number:#x}")
    marks = marks_of(table.table_type, ctrl.return_reg_id)
    return Metering(aso, number, ctrl.meter_id, MeterColor(ctrl.init_color), marks)
