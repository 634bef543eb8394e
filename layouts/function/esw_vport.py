"""Embedded switch's view of a vPort: its context, and the functions behind other vPorts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut, VportIn
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class esw_vport_context(Prm):
    fdb_to_vport_reg_c = bits(1); _ = rsvd(2); vport_svlan_strip = bits(1)
    vport_cvlan_strip = bits(1); vport_svlan_insert = bits(1); vport_cvlan_insert = bits(2)
    fdb_to_vport_reg_c_id = bits(8); _ = rsvd(48)
    svlan_cfi = bits(1); svlan_pcp = bits(3); svlan_id = bits(12); cvlan_cfi = bits(1)
    cvlan_pcp = bits(3); cvlan_id = bits(12); _ = rsvd(1824)
    sw_steering_vport_icm_address_rx = bits(64); sw_steering_vport_icm_address_tx = bits(64)

class query_esw_vport_context_in(VportIn):
    _ = rsvd(32)

class query_esw_vport_context_out(CmdOut):
    _ = rsvd(64); esw_vport_context = nested(esw_vport_context)

class esw_vport_context_fields_select(Prm):
    _ = rsvd(27); fdb_to_vport_reg_c_id = bits(1); vport_cvlan_insert = bits(1)
    vport_svlan_insert = bits(1); vport_cvlan_strip = bits(1); vport_svlan_strip = bits(1)

class modify_esw_vport_context_in(VportIn):
    field_select = nested(esw_vport_context_fields_select)
    esw_vport_context = nested(esw_vport_context)

class modify_esw_vport_context_out(CmdOut): _ = rsvd(64)

class host_params_context(Prm):
    host_number = bits(8); _ = rsvd(5); host_pf_not_exist = bits(1); _ = rsvd(1)
    host_pf_disabled = bits(1); host_num_of_vfs = bits(16)
    host_total_vfs = bits(16); host_pci_bus = bits(16); _ = rsvd(16); host_pci_device = bits(16)
    _ = rsvd(16); host_pci_function = bits(16); _ = rsvd(384)

class query_esw_functions_in(CmdInNoUid): _ = rsvd(64)

class query_esw_functions_out(CmdOut):
    _ = rsvd(64); host_params_context = nested(host_params_context); _ = rsvd(384)
