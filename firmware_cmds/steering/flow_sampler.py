"""Flow samplers: general objects to which entries of the FDB forward.

Source: core/en/tc/sample.c: sampler_obj_create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.flow.targets import Sampler
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.enums.flow_table import FlowTableType
from layouts.steering.sampler import sampler_obj

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Create a sampler; return its number.

    Its destination must have a higher level, unless ignore_flow_level is set. Raises LIM_ERR for
    more than one sampler. Raises BAD_PARAM_ERR for a ratio of 0, a table type without samplers, or
    a lower level. Raises BAD_RES_ERR for an unknown table, or one of another type.
    """
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one sampler", f"{1 << cmd.log_obj_range}")
    obj = sampler_obj.view(given_object(cmd.object, sampler_obj.size))
    is_for_nic = obj.table_type == FlowTableType.NIC_RX and tables.icm is not None
    if obj.table_type != FlowTableType.FDB and not is_for_nic:
        raise BadParamError(
            "samplers need an FDB table, or one that software owns", f"{obj.table_type}"
        )
    if not obj.sample_ratio:
        raise BadParamError("sample_ratio is 0")
    default = _table(tables, obj, obj.default_table_id)
    sample = _table(tables, obj, obj.sample_table_id)
    return tables.objects[Sampler].add(Sampler(default, sample, obj.sample_ratio, obj.level))


def _table(tables: ObjectTables, obj: sampler_obj, number: int) -> FlowTable:
    """Return the flow table with this number, as a destination of the sampler.

    Raises BAD_RES_ERR for an unknown number or another type, BAD_PARAM_ERR for a level that is not
    higher.
    """
    table = tables.flow_tables.need(number)
    if table.table_type != obj.table_type:
        raise CmdError(Status.BAD_RES_ERR, "flow table has another type", f"{table!r}")
    if table.level <= obj.level and not obj.ignore_flow_level:
        raise BadParamError(
            "flow sampler must forward to a higher level", f"{table.level} from {obj.level}"
        )
    return table


def query(tables: ObjectTables, number: int) -> bytes:
    """Return the sampler, with its ICM address for steering entries (dr_cmd.c).

    The address is 0 without software steering. Raises BAD_RES_ERR for an unknown number.
    """
    sampler = tables.objects[Sampler].need(number)
    address = icm_address(IcmKind.SAMPLER, number) if tables.icm is not None else 0
    return bytes(
        sampler_obj.new(
            table_type=sampler.default.table_type, level=sampler.level,
            sample_ratio=sampler.ratio, sample_table_id=sampler.sample.handle,
            default_table_id=sampler.default.handle, sw_steering_icm_address_rx=address,
            sw_steering_icm_address_tx=address,
        )
    )  # fmt: skip


def destroy(tables: ObjectTables, number: int) -> None:
    """Destroy a sampler; refused while an entry forwards to it."""
    tables.objects[Sampler].remove(number)
