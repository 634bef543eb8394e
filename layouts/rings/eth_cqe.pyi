# Written by scripts/gen-view-types from eth_cqe.py; a test fails when it is stale.

from struct import Struct

from layouts.codec import View
from layouts.prm import Prm

ETH_CQE: Struct
HDS_IP_EXT_AT: int
HDR_TYPE_AT: int
LRO_AT: int
LRO_NUM_SEG_AT: int
LRO: Struct
LRO_PSH: int
SHAMPO_AT: int
SHAMPO: Struct
SHAMPO_MATCH: int
SHAMPO_FLUSH: int

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
