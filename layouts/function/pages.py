"""Firmware pages: QUERY_PAGES and MANAGE_PAGES (PRM "ICM memory").

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

query_pages_in = Prm(
    "query_pages_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    rsvd(32),
)

query_pages_out = Prm(
    "query_pages_out",
    *CMD_OUT, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    "num_pages" / bits(32),
)

manage_pages_in = Prm(
    "manage_pages_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    "input_num_entries" / bits(32), "pas" / tail(bits(64)),
)

manage_pages_out = Prm(
    "manage_pages_out",
    *CMD_OUT, "output_num_entries" / bits(32), rsvd(32), "pas" / tail(bits(64)),
)
