"""User contexts and user memory, by which DEVX programs own objects and name their buffers.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class uctx(Prm): cap = bits(32); _ = rsvd(352)
class create_uctx_in(CmdInNoUid): _ = rsvd(64); uctx = nested(uctx)
class create_uctx_out(CmdOut): _ = rsvd(16); uid = bits(16); _ = rsvd(32)
class destroy_uctx_in(CmdInNoUid): _ = rsvd(16); uid = bits(16); _ = rsvd(32)
class destroy_uctx_out(CmdOut): _ = rsvd(64)

class umem(Prm):
    _ = rsvd(128); ats = bits(1); _ = rsvd(26); log_page_size = bits(5); page_offset = bits(32)
    num_of_mtt = bits(64); mtt = tail(bits(64))

class create_umem_in(CmdIn): _ = rsvd(64); umem = nested(umem)
class create_umem_out(CmdOut): _ = rsvd(8); umem_id = bits(24); _ = rsvd(32)
class destroy_umem_in(CmdIn): _ = rsvd(8); umem_id = bits(24); _ = rsvd(32)
class destroy_umem_out(CmdOut): _ = rsvd(64)
