# Written by scripts/gen-view-types from mini_cqe.py; a test fails when it is stale.

from typing import Final

from layouts.codec import View
from layouts.prm import Prm

MINI_BYTES: Final = 8
PER_ARRAY: Final = 8
PER_BLOCK: Final = 7

class MiniCqeHash(View):
    rx_hash_result: int
    byte_cnt: int

mini_cqe_hash: Prm[MiniCqeHash]

class MiniCqeCsum(View):
    checksum: int
    stridx: int
    byte_cnt: int

mini_cqe_csum: Prm[MiniCqeCsum]

class MiniCqeFlowTag(View):
    flow_tag_low: int
    stridx: int
    flow_tag_high: int
    byte_cnt: int

mini_cqe_flow_tag: Prm[MiniCqeFlowTag]

class MiniCqeL3L4(View):
    l4_l3_hdr_type: int
    stridx: int
    byte_cnt: int

mini_cqe_l3_l4: Prm[MiniCqeL3L4]
