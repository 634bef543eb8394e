"""Embedded switch's view of a vPort: its context, and the functions behind other vPorts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

esw_vport_context = Prm(
    "esw_vport_context",
    "fdb_to_vport_reg_c" / bits(1), rsvd(2), "vport_svlan_strip" / bits(1),
    "vport_cvlan_strip" / bits(1), "vport_svlan_insert" / bits(1), "vport_cvlan_insert" / bits(2),
    "fdb_to_vport_reg_c_id" / bits(8), rsvd(48), "svlan_cfi" / bits(1), "svlan_pcp" / bits(3),
    "svlan_id" / bits(12), "cvlan_cfi" / bits(1), "cvlan_pcp" / bits(3), "cvlan_id" / bits(12),
    rsvd(1824), "sw_steering_vport_icm_address_rx" / bits(64),
    "sw_steering_vport_icm_address_tx" / bits(64),
)

query_esw_vport_context_in = Prm(
    "query_esw_vport_context_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
)

query_esw_vport_context_out = Prm(
    "query_esw_vport_context_out",
    *CMD_OUT, rsvd(64), "esw_vport_context" / esw_vport_context,
)

esw_vport_context_fields_select = Prm(
    "esw_vport_context_fields_select",
    rsvd(27), "fdb_to_vport_reg_c_id" / bits(1), "vport_cvlan_insert" / bits(1),
    "vport_svlan_insert" / bits(1), "vport_cvlan_strip" / bits(1), "vport_svlan_strip" / bits(1),
)

modify_esw_vport_context_in = Prm(
    "modify_esw_vport_context_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16),
    "field_select" / esw_vport_context_fields_select, "esw_vport_context" / esw_vport_context,
)

modify_esw_vport_context_out = Prm("modify_esw_vport_context_out", *CMD_OUT, rsvd(64))

host_params_context = Prm(
    "host_params_context",
    "host_number" / bits(8), rsvd(5), "host_pf_not_exist" / bits(1), rsvd(1),
    "host_pf_disabled" / bits(1), "host_num_of_vfs" / bits(16), "host_total_vfs" / bits(16),
    "host_pci_bus" / bits(16), rsvd(16), "host_pci_device" / bits(16), rsvd(16),
    "host_pci_function" / bits(16), rsvd(384),
)

query_esw_functions_in = Prm("query_esw_functions_in", *CMD_IN_NO_UID, rsvd(64))

query_esw_functions_out = Prm(
    "query_esw_functions_out",
    *CMD_OUT, rsvd(64), "host_params_context" / host_params_context, rsvd(384),
)
