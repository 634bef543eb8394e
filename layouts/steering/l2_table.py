"""L2 table: MAC addresses whose frames reach the function that owns the physical port (MPFS).

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.function.nic_vport import mac_address_layout
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

set_l2_table_entry_in = Prm(
    "set_l2_table_entry_in",
    *CMD_IN_NO_UID, rsvd(104), "table_index" / bits(24), rsvd(48), "silent_mode_valid" / bits(1),
    "silent_mode" / bits(1), rsvd(1), "vlan_valid" / bits(1), "vlan" / bits(12),
    "mac_address" / mac_address_layout, rsvd(192),
)

set_l2_table_entry_out = Prm("set_l2_table_entry_out", *CMD_OUT, rsvd(64))

query_l2_table_entry_in = Prm(
    "query_l2_table_entry_in",
    *CMD_IN_NO_UID, rsvd(104), "table_index" / bits(24), rsvd(320),
)

query_l2_table_entry_out = Prm(
    "query_l2_table_entry_out",
    *CMD_OUT, rsvd(179), "vlan_valid" / bits(1), "vlan" / bits(12),
    "mac_address" / mac_address_layout, rsvd(192),
)

delete_l2_table_entry_in = Prm(
    "delete_l2_table_entry_in",
    *CMD_IN_NO_UID, rsvd(104), "table_index" / bits(24), rsvd(320),
)

delete_l2_table_entry_out = Prm("delete_l2_table_entry_out", *CMD_OUT, rsvd(64))
