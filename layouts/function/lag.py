"""Link aggregation (LAG): two ports of a board act as one.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.function.eth_caps import flow_table_fields_supported_2, flow_table_prop_layout
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

lagc = Prm(
    "lagc",
    "fdb_selection_mode" / bits(1), rsvd(20), "port_select_mode" / bits(3), rsvd(5),
    "lag_state" / bits(3), rsvd(12), "active_port" / bits(4), rsvd(4),
    "tx_remap_affinity_2" / bits(4), rsvd(4), "tx_remap_affinity_1" / bits(4),
)

# Capability group: flow tables that choose the port of a LAG.
port_selection_cap = Prm(
    "port_selection_cap",
    rsvd(16), "port_select_flow_table" / bits(1), rsvd(1),
    "port_select_flow_table_bypass" / bits(1), rsvd(493),
    "flow_table_properties_port_selection" / flow_table_prop_layout,
    "ft_field_support_2_port_selection" / flow_table_fields_supported_2, rsvd(31616),
)

query_lag_in = Prm("query_lag_in", *CMD_IN_NO_UID, rsvd(64))
query_lag_out = Prm("query_lag_out", *CMD_OUT, "ctx" / lagc)

create_lag_in = Prm("create_lag_in", *CMD_IN_NO_UID, "ctx" / lagc)
create_lag_out = Prm("create_lag_out", *CMD_OUT, rsvd(64))
modify_lag_in = Prm(
    "modify_lag_in", *CMD_IN_NO_UID, rsvd(32), "field_select" / bits(32), "ctx" / lagc,
)
modify_lag_out = Prm("modify_lag_out", *CMD_OUT, rsvd(64))
destroy_lag_in = Prm("destroy_lag_in", *CMD_IN_NO_UID, rsvd(64))
destroy_lag_out = Prm("destroy_lag_out", *CMD_OUT, rsvd(64))
create_vport_lag_in = Prm("create_vport_lag_in", *CMD_IN_NO_UID, rsvd(64))
create_vport_lag_out = Prm("create_vport_lag_out", *CMD_OUT, rsvd(64))
destroy_vport_lag_in = Prm("destroy_vport_lag_in", *CMD_IN_NO_UID, rsvd(64))
destroy_vport_lag_out = Prm("destroy_vport_lag_out", *CMD_OUT, rsvd(64))
