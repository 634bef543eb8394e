"""Sub-functions: their allocation, and the state of each (vHCA state).

Names and widths: mlx5_ifc.h and core/sf/mlx5_ifc_vhca_event.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

alloc_sf_in = Prm("alloc_sf_in", *CMD_IN_NO_UID, rsvd(16), "function_id" / bits(16), rsvd(32))
alloc_sf_out = Prm("alloc_sf_out", *CMD_OUT, rsvd(64))
dealloc_sf_in = Prm("dealloc_sf_in", *CMD_IN_NO_UID, rsvd(16), "function_id" / bits(16), rsvd(32))
dealloc_sf_out = Prm("dealloc_sf_out", *CMD_OUT, rsvd(64))

vhca_state_context = Prm(
    "vhca_state_context",
    "arm_change_event" / bits(1), rsvd(11), "vhca_state" / bits(4), rsvd(16),
    "sw_function_id" / bits(32), rsvd(64),
)

query_vhca_state_in = Prm(
    "query_vhca_state_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    rsvd(32),
)

query_vhca_state_out = Prm(
    "query_vhca_state_out",
    *CMD_OUT, rsvd(64), "vhca_state_context" / vhca_state_context,
)

vhca_state_field_select = Prm(
    "vhca_state_field_select",
    rsvd(30), "sw_function_id" / bits(1), "arm_change_event" / bits(1),
)

modify_vhca_state_in = Prm(
    "modify_vhca_state_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    "vhca_state_field_select" / vhca_state_field_select,
    "vhca_state_context" / vhca_state_context,
)

modify_vhca_state_out = Prm("modify_vhca_state_out", *CMD_OUT, rsvd(64))
