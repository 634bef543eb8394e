# Written by scripts/gen-view-types from cqe.py; a test fails when it is stale.

from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.prm import Prm

CQE_BYTES: Final = 64
OP_OWN: Final = 63
CQE: Struct
ERR_CQE: Struct
SIG_ERR_CQE: Struct
SCATTER_32: Final = 4
SCATTER_64: Final = 8
SCATTER_32_BYTES: Final = 32
SCATTER_64_BYTES: Final = 64

class Cqe64(View):
    tls_outer_l3_tunneled: int
    wqe_id: int
    rss_hash_result: int
    rss_hash_type: int
    ml_path: int
    check_sum: int
    slid: int
    flags_rqpn: int
    hds_ip_ext: int
    l4_l3_hdr_type: int
    vlan_info: int
    srqn: int
    immediate: int
    byte_cnt: int
    timestamp_h: int
    timestamp_l: int
    sop_drop_qpn: int
    wqe_counter: int
    signature: int
    op_own: int

cqe64: Prm[Cqe64]

class ErrCqe(View):
    srqn: int
    hw_err_synd: int
    hw_synd_type: int
    vendor_err_synd: int
    syndrome: int
    s_wqe_opcode_qpn: int
    wqe_counter: int
    signature: int
    op_own: int

err_cqe: Prm[ErrCqe]

class SigErrCqe(View):
    expected_trans_sig: int
    actual_trans_sig: int
    expected_reftag: int
    actual_reftag: int
    syndrome: int
    sig_type: int
    domain: int
    mkey: int
    err_offset: int
    qpn: int
    signature: int
    op_own: int

sig_err_cqe: Prm[SigErrCqe]
