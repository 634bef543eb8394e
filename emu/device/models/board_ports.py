"""A board with two physical ports, each with a physical function.

A second port is an option of adapters, see :func:`with_port`. The capabilities of this module let
the driver create a LAG of the ports (core/lag/lag.h: mlx5_lag_is_supported). Without port
selection, a separate option, queues have affinities in every mode of the bond.
"""

from __future__ import annotations

from emu.device.models.ethernet import TABLES
from emu.device.models.model import Capabilities, Model, group
from emu.device.models.software_steering import can_own_tables, with_fdb_of_port
from emu.device.models.switching import can_switch, with_switch
from layouts.enums.caps import PortType
from layouts.enums.general_object import GeneralObject

MAX_PORTS = 2

LAG: Capabilities = group(
    lag_master=1,
    num_lag_ports=MAX_PORTS,
    # Queue pairs and TISes have an affinity to a port (hw/mlx5_ib.h:
    # mlx5_ib_lag_should_assign_affinity). The affinity can be set up to RTR, and changed in RTS
    # by a separate command (rdma-core: mlx5dv_modify_qp_lag_port).
    lag_tx_port_affinity=1,
    init2_lag_tx_port_affinity=1,
    rts2rts_lag_tx_port_affinity=1,
)
"""General capabilities."""


SHARED_GENERAL: Capabilities = group(lag_native_fdb_selection=1)
"""General capability of boards whose switches can share a forwarding database (FDB)."""
SHARED: Capabilities = group(
    # Tables may forward to vPorts of the other switch, and match a packet's source switch.
    merged_eswitch=1,
    # A switch's packets may start in the other switch's FDB, after the ACLs of their own.
    root_ft_on_other_esw=1,
    esw_shared_ingress_acl=1,
    # Counters of entries belong to the FDB's owner, not to the switch of the packet's source
    # (core/en_tc.c: mlx5e_flow_esw_attr_init; MLX5_COUNTER_FLOW_ESWITCH).
    counter_eswitch_affinity=1,
)
"""Group ESWITCH (core/lag/lag.c: mlx5_lag_shared_fdb_supported)."""

PORT_SELECTION_GENERAL: Capabilities = group(port_selection_cap=1, create_lag_when_not_master_up=1)
"""General capabilities; the second one is for multi-port E-Switches (core/lag/mpesw.c)."""
_SELECTING = {**TABLES, "max_ft_level": 8, "flow_counter": 0, "log_max_flow_counter": 0}
PORT_SELECTION: Capabilities = group(
    # A bond in a hash mode uses flow tables that hash (core/lag/port_sel.c).
    port_select_flow_table=1,
    # Queues with an affinity bypass them after a driver has requested that.
    port_select_flow_table_bypass=1,
    flow_table_properties_port_selection=_SELECTING,
    ft_field_support_2_port_selection={"outer_l4_type": 1, "inner_l4_type": 1},
)
"""Group PORT_SELECTION."""

_LAG_LEVELS = 128
"""Levels of NIC_RX tables: Linux uses level 85 for LAG tables (core/fs_core.c: LAG_MIN_LEVEL), and
without that level mlx5_ib makes no LAG of the vPorts.
"""


def with_port_selection(model: Model) -> Model:
    """Return a copy of the model with port selection flow tables for LAGs.

    The copy also has multi-port E-Switches. Real adapters have both when LAG_RESOURCE_ALLOCATION is
    set in their configuration. Raises ValueError for a model that cannot share an FDB.
    """
    if not (can_switch(model) and can_own_tables(model)):
        raise ValueError(f"{model.name} has no port selection flow tables")
    objects = model.general["general_obj_types"] | 1 << GeneralObject.MATCH_DEFINER
    general = group(PORT_SELECTION_GENERAL, general_obj_types=objects)
    return model.extended(general=general, port_selection=PORT_SELECTION)


def with_port(model: Model, number: int) -> Model:
    """Return the model as the function of a board's port ``number``, from 1 on.

    The function manages the switch behind its port, if the model can have one. Only then can the
    board have a LAG. Drivers end a LAG in the code that disables a function's switch
    (core/eswitch.c: mlx5_eswitch_disable); without it Linux 6.1 panics.

    Raises ValueError for an InfiniBand model and for a virtual function.
    """
    if model.port_type is not PortType.ETH or model.identity.is_vf:
        raise ValueError("only physical functions with Ethernet ports share a board")
    if not can_switch(model):
        return model.extended(general={"native_port_num": number})
    if not model.general.get("eswitch_manager"):
        model = with_switch(model)
    if can_own_tables(model):
        model = with_fdb_of_port(model, number).extended(general=SHARED_GENERAL, eswitch=SHARED)
    key = "flow_table_properties_nic_receive"
    tables = {key: {**model.flow_table[key], "max_ft_level": _LAG_LEVELS}}
    return model.extended(general=group(LAG, native_port_num=number), flow_table=tables)
