"""User contexts and user memory, by which DEVX programs own objects and name their buffers.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

uctx = Prm("uctx", "cap" / bits(32), rsvd(352))
create_uctx_in = Prm("create_uctx_in", *CMD_IN_NO_UID, rsvd(64), "uctx" / uctx)
create_uctx_out = Prm("create_uctx_out", *CMD_OUT, rsvd(16), "uid" / bits(16), rsvd(32))
destroy_uctx_in = Prm("destroy_uctx_in", *CMD_IN_NO_UID, rsvd(16), "uid" / bits(16), rsvd(32))
destroy_uctx_out = Prm("destroy_uctx_out", *CMD_OUT, rsvd(64))

umem = Prm(
    "umem",
    rsvd(128), "ats" / bits(1), rsvd(26), "log_page_size" / bits(5), "page_offset" / bits(32),
    "num_of_mtt" / bits(64), "mtt" / tail(bits(64)),
)

create_umem_in = Prm("create_umem_in", *CMD_IN, rsvd(64), "umem" / umem)
create_umem_out = Prm("create_umem_out", *CMD_OUT, rsvd(8), "umem_id" / bits(24), rsvd(32))
destroy_umem_in = Prm("destroy_umem_in", *CMD_IN, rsvd(8), "umem_id" / bits(24), rsvd(32))
destroy_umem_out = Prm("destroy_umem_out", *CMD_OUT, rsvd(64))
