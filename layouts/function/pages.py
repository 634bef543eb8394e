"""Firmware pages: QUERY_PAGES and MANAGE_PAGES (PRM "ICM memory").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class query_pages_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16); _ = rsvd(32)

class query_pages_out(CmdOut):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16); num_pages = bits(32)

class manage_pages_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16)
    input_num_entries = bits(32); pas = tail(bits(64))

class manage_pages_out(CmdOut): output_num_entries = bits(32); _ = rsvd(32); pas = tail(bits(64))
