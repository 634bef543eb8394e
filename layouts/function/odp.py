"""On-demand paging: PAGE_FAULT_RESUME.

The capability group is in ``layouts.function.caps``, the page-fault EQE in ``layouts.rings.eqe``.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

trans_page_fault_info = Prm(
    "trans_page_fault_info",
    "error" / bits(1), rsvd(4), "page_fault_type" / bits(3), "wq_number" / bits(24), rsvd(8),
    "fault_token" / bits(24),
)

mem_page_fault_info = Prm(
    "mem_page_fault_info",
    "error" / bits(1), rsvd(15), "fault_token_47_32" / bits(16), "fault_token_31_0" / bits(32),
)

page_fault_resume_in = Prm(
    "page_fault_resume_in",
    *CMD_IN_NO_UID, "page_fault_info" / octets(8),  # trans_ or mem_page_fault_info
)

page_fault_resume_out = Prm("page_fault_resume_out", *CMD_OUT, rsvd(64))
