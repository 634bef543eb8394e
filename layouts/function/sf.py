"""Sub-functions: their allocation, and the state of each (vHCA state).

Names and widths: mlx5_ifc.h and core/sf/mlx5_ifc_vhca_event.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class alloc_sf_in(CmdInNoUid): _ = rsvd(16); function_id = bits(16); _ = rsvd(32)
class alloc_sf_out(CmdOut): _ = rsvd(64)
class dealloc_sf_in(CmdInNoUid): _ = rsvd(16); function_id = bits(16); _ = rsvd(32)
class dealloc_sf_out(CmdOut): _ = rsvd(64)

class vhca_state_context(Prm):
    arm_change_event = bits(1); _ = rsvd(11); vhca_state = bits(4); _ = rsvd(16)
    sw_function_id = bits(32); _ = rsvd(64)

class query_vhca_state_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16); _ = rsvd(32)

class query_vhca_state_out(CmdOut): _ = rsvd(64); vhca_state_context = nested(vhca_state_context)

class vhca_state_field_select(Prm):
    _ = rsvd(30); sw_function_id = bits(1); arm_change_event = bits(1)

class modify_vhca_state_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16)
    vhca_state_field_select = nested(vhca_state_field_select)
    vhca_state_context = nested(vhca_state_context)

class modify_vhca_state_out(CmdOut): _ = rsvd(64)
