# Written by scripts/gen-view-types from eth_cqe.py; a test fails when it is stale.

from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.prm import Prm

ETH_CQE: Struct
HDS_IP_EXT_AT: Final = 28
HDR_TYPE_AT: Final = 29
LRO_AT: Final = 4
LRO_NUM_SEG_AT: Final = 32
LRO: Struct
LRO_PSH: Final = 64
SHAMPO_AT: Final = 4
SHAMPO: Struct
SHAMPO_MATCH: Final = 2
SHAMPO_FLUSH: Final = 4

class CqeLro(View):
    tcppsh_abort_dupack: int
    min_ttl: int
    tcp_win: int
    ack_seq_num: int

cqe_lro: Prm[CqeLro]

class CqeShampo(View):
    header_size: int
    header_entry_index: int
    data_offset: int

cqe_shampo: Prm[CqeShampo]
