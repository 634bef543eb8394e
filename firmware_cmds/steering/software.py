"""Flow tables that software owns, by writing their entries into ICM.

Source: core/steering/dr_table.c: dr_table_create_sw_owned_tbl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.ste.actions import Planner
from emu.device.engine.eth.ste.walk import SteeringMemory
from emu.device.errors import BadParamError
from emu.device.objects.eth.flow.action import VportTarget
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.eth.flow.targets import Sampler
from emu.device.objects.eth.flow_meter import FlowMeterAso
from emu.device.objects.eth.icm_addresses import vport_of
from layouts.enums.flow_table import FlowTableType

if TYPE_CHECKING:
    from emu.device.objects.eth.packet_reformat import PacketReformat
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.steering.flow_table import flow_table_context

_OWNABLE = (FlowTableType.NIC_RX, FlowTableType.NIC_TX, FlowTableType.FDB)
_FORMATS = {1: 1, 2: 2}
"""Entry formats by steering_format_version (MLX5_STEERING_FORMAT_CONNECTX_6DX, _7)."""


def check_owner(tables: ObjectTables, table_type: int, ctx: flow_table_context) -> None:
    """Raise BAD_PARAM_ERR for a software-owned table of a type that software cannot own.

    Do nothing for a table that firmware owns.
    """
    if not ctx.sw_owner:
        return
    properties = tables.caps.flow_properties(FlowTableType(table_type))
    is_one = table_type in _OWNABLE and (properties.sw_owner or properties.sw_owner_v2)
    if tables.icm is None or not is_one:
        raise BadParamError("flow table option not supported", "sw_owner")


def check_is_firmwares(table: FlowTable) -> None:
    """Refuse groups and entries of a table that software owns."""
    if table.roots is not None:
        raise BadParamError("flow table is owned by software", f"{table!r}")


def take_ownership(hca: Hca, table: FlowTable) -> None:
    """Let software own a table: packets follow the entries in ICM from its roots on.

    The walker over ICM is shared by all tables of the function, and created for the first one.
    """
    if hca.steering_memory is None:
        hca.steering_memory = _memory(hca)
    table.roots = int(table.ctx.sw_owner_icm_root_0), int(table.ctx.sw_owner_icm_root_1)
    table.software = hca.steering_memory


def _memory(hca: Hca) -> SteeringMemory:
    """Return a new walker over the function's ICM, which looks up the objects of its entries."""
    assert hca.icm is not None
    contexts, board = hca.packet_reformats, hca.adapter.board
    others = hca.caps.eswitch.merged_eswitch

    def reformat(number: int) -> PacketReformat | None:
        return contexts.get(number)

    def gvmi(owner: int, vport: int) -> int:
        adapter = board.managed_by(owner)
        function = None if adapter is None else adapter.by_vport(vport)
        return owner if function is None else function.number

    def vport(number: int) -> VportTarget | None:
        port, vport = vport_of(number)
        is_near = port == hca.adapter.number or others
        return VportTarget(vport, port) if is_near and board.has_vport(port, vport) else None

    version = _FORMATS[hca.caps.general.steering_format_version]
    planner = Planner(hca.icm, version, reformat)
    return SteeringMemory(
        hca.icm,
        planner,
        hca.tirs,
        hca.flow_tables,
        hca.flow_counters,
        hca.objects[Sampler],
        hca.objects[FlowMeterAso],
        vport,
        gvmi,
        lambda: board.changes,
    )
