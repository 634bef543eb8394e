"""Commands of tools behind the vendor-specific gateway: register access and its capabilities.

Source: mlx_reg_access.h of iPXE; reg_access and icmd_hca_layouts.h of mstflint. The kernel has no
such structures.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

operation_tlv = Prm(
    "operation_tlv",
    "type" / bits(5), "len" / bits(11), "dr" / bits(1), "status" / bits(7), rsvd(8),
    "register_id" / bits(16), "r" / bits(1), "method" / bits(7), "class" / bits(8),
    "tid" / bits(64),
)

reg_tlv = Prm("reg_tlv", "type" / bits(5), "len" / bits(11), rsvd(16))

icmd_query_cap_general = Prm(
    "icmd_query_cap_general",
    rsvd(2), "allow_icmd_access_reg_on_all_registers" / bits(1), rsvd(1), "pcam_reg" / bits(1),
    "mcam_reg" / bits(1), rsvd(26),
    rsvd(32),
)
