"""Link aggregation (LAG): two ports of a board act as one.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.function.eth_caps import flow_table_fields_supported_2, flow_table_prop_layout
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class lagc(Prm):
    fdb_selection_mode = bits(1); _ = rsvd(20); port_select_mode = bits(3); _ = rsvd(5)
    lag_state = bits(3)
    _ = rsvd(12); active_port = bits(4); _ = rsvd(4); tx_remap_affinity_2 = bits(4); _ = rsvd(4)
    tx_remap_affinity_1 = bits(4)

# Capability group: flow tables that choose the port of a LAG.
class port_selection_cap(Prm):
    _ = rsvd(16); port_select_flow_table = bits(1); _ = rsvd(1)
    port_select_flow_table_bypass = bits(1); _ = rsvd(493)
    flow_table_properties_port_selection = nested(flow_table_prop_layout)
    ft_field_support_2_port_selection = nested(flow_table_fields_supported_2); _ = rsvd(31616)

class query_lag_in(CmdInNoUid): _ = rsvd(64)
class query_lag_out(CmdOut): ctx = nested(lagc)
class create_lag_in(CmdInNoUid): ctx = nested(lagc)
class create_lag_out(CmdOut): _ = rsvd(64)
class modify_lag_in(CmdInNoUid): _ = rsvd(32); field_select = bits(32); ctx = nested(lagc)
class modify_lag_out(CmdOut): _ = rsvd(64)
class destroy_lag_in(CmdInNoUid): _ = rsvd(64)
class destroy_lag_out(CmdOut): _ = rsvd(64)
class create_vport_lag_in(CmdInNoUid): _ = rsvd(64)
class create_vport_lag_out(CmdOut): _ = rsvd(64)
class destroy_vport_lag_in(CmdInNoUid): _ = rsvd(64)
class destroy_vport_lag_out(CmdOut): _ = rsvd(64)
