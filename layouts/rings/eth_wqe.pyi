# Written by scripts/gen-view-types from eth_wqe.py; a test fails when it is stale.

from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm
from layouts.rings.wqe import WqeDataSeg, WqeSrqNextSeg

INSERT_VLAN: Final = 2147483648
INSERT_SVLAN: Final = 65536
INLINE_HDR_START: Final = 14
START_PADDING: Final = 2147483648
SWP: Struct
ETH: Struct

class WqeEthSeg(View):
    swp_outer_l4_offset: int
    swp_outer_l3_offset: int
    swp_inner_l4_offset: int
    swp_inner_l3_offset: int
    cs_flags: int
    swp_flags: int
    mss: int
    flow_table_metadata: int
    trailer: int

wqe_eth_seg: Prm[WqeEthSeg]

class RxWqeLl(View):
    next: Nested[WqeSrqNextSeg]
    data: Items[WqeDataSeg]

rx_wqe_ll: Prm[RxWqeLl]
