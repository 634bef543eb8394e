"""Flow tables and the choice of the root table.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut, VportIn
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class flow_table_context(Prm):
    reformat_en = bits(1); decap_en = bits(1); sw_owner = bits(1); termination_table = bits(1)
    table_miss_action = bits(4); level = bits(8); rtc_valid = bits(1); _ = rsvd(7)
    log_size = bits(8); _ = rsvd(8); table_miss_id = bits(24)
    _ = rsvd(8); lag_master_next_table_id = bits(24); _ = rsvd(96); sw_owner_icm_root_1 = bits(64)
    sw_owner_icm_root_0 = bits(64)

class create_flow_table_in(CmdIn):
    other_vport = bits(1); _ = rsvd(15); vport_number = bits(16); _ = rsvd(32)
    table_type = bits(8); _ = rsvd(56); flow_table_context = nested(flow_table_context)

class create_flow_table_out(CmdOut):
    icm_address_39_32 = bits(8); table_id = bits(24); icm_address_31_0 = bits(32)

class modify_flow_table_in(VportIn):
    _ = rsvd(16); modify_field_select = bits(16)
    table_type = bits(8); _ = rsvd(32); table_id = bits(24)
    flow_table_context = nested(flow_table_context)

class modify_flow_table_out(CmdOut): _ = rsvd(64)

class query_flow_table_in(CmdInNoUid):
    _ = rsvd(64); table_type = bits(8); _ = rsvd(32); table_id = bits(24); _ = rsvd(320)

class query_flow_table_out(CmdOut): _ = rsvd(128); flow_table_context = nested(flow_table_context)

class destroy_flow_table_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(32); table_id = bits(24); _ = rsvd(320)

class destroy_flow_table_out(CmdOut): _ = rsvd(64)

class set_flow_table_root_in(VportIn):
    _ = rsvd(32)
    table_type = bits(8); _ = rsvd(7); table_of_other_vport = bits(1); table_vport_number = bits(16)
    _ = rsvd(8); table_id = bits(24); _ = rsvd(8); underlay_qpn = bits(24)
    table_eswitch_owner_vhca_id_valid = bits(1); _ = rsvd(15)
    table_eswitch_owner_vhca_id = bits(16); _ = rsvd(256)

class set_flow_table_root_out(CmdOut): _ = rsvd(64)
