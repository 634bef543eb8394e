"""Commands of tools behind the vendor-specific gateway: register access and its capabilities.

Source: mlx_reg_access.h of iPXE; reg_access and icmd_hca_layouts.h of mstflint. The kernel has no
such structures.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class operation_tlv(Prm):
    type = bits(5); len = bits(11); dr = bits(1); status = bits(7); _ = rsvd(8)
    register_id = bits(16); r = bits(1); method = bits(7); class_ = bits(8); tid = bits(64)

class reg_tlv(Prm): type = bits(5); len = bits(11); _ = rsvd(16)

class icmd_query_cap_general(Prm):
    _ = rsvd(2); allow_icmd_access_reg_on_all_registers = bits(1); _ = rsvd(1); pcam_reg = bits(1)
    mcam_reg = bits(1); _ = rsvd(26); _ = rsvd(32)
