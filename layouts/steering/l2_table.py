"""L2 table: MAC addresses whose frames reach the function that owns the physical port (MPFS).

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.function.nic_vport import mac_address_layout
from layouts.prm import bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class L2TableEntryIn(CmdInNoUid, abstract=True): _ = rsvd(104); table_index = bits(24)

class set_l2_table_entry_in(L2TableEntryIn):
    _ = rsvd(48); silent_mode_valid = bits(1); silent_mode = bits(1); _ = rsvd(1)
    vlan_valid = bits(1); vlan = bits(12); mac_address = nested(mac_address_layout); _ = rsvd(192)

class set_l2_table_entry_out(CmdOut): _ = rsvd(64)
class query_l2_table_entry_in(L2TableEntryIn): _ = rsvd(320)

class query_l2_table_entry_out(CmdOut):
    _ = rsvd(179); vlan_valid = bits(1); vlan = bits(12); mac_address = nested(mac_address_layout)
    _ = rsvd(192)

class delete_l2_table_entry_in(L2TableEntryIn): _ = rsvd(320)
class delete_l2_table_entry_out(CmdOut): _ = rsvd(64)
