"""On-demand paging: PAGE_FAULT_RESUME.

The capability group is in ``layouts.function.caps``, the page-fault EQE in ``layouts.rings.eqe``.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class trans_page_fault_info(Prm):
    error = bits(1); _ = rsvd(4); page_fault_type = bits(3); wq_number = bits(24)
    _ = rsvd(8); fault_token = bits(24)

class mem_page_fault_info(Prm):
    error = bits(1); _ = rsvd(15); fault_token_47_32 = bits(16); fault_token_31_0 = bits(32)

class page_fault_resume_in(CmdInNoUid):
    page_fault_info = octets(8)  # trans_page_fault_info or mem_page_fault_info
class page_fault_resume_out(CmdOut): _ = rsvd(64)
