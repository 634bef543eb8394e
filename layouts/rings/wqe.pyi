# Written by scripts/gen-view-types from wqe.py; a test fails when it is stale.

from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

DS: Final = 16
WQEBB: Final = 64
INLINE: Final = 2147483648
INLINE_LENGTH: Final = 1023
REPEAT_BLOCK: Final = 1024
EXTENDED_ATOMIC: Final = 8
CTRL: Struct
DATA: Struct
RADDR: Struct
ATOMIC: Struct
MASKED_ATOMIC: Struct
MASKED_CS_4: Struct
MASKED_FA: Struct
MASKED_FA_4: Struct
XRC: Struct
NEXT: Struct
UMR_CTRL: Struct
SET_PSV: Struct
KLM: Struct
REPEAT: Struct
REPEAT_ENTRY: Struct

class WqeCtrlSeg(View):
    opmod_idx_opcode: int
    qpn_ds: int
    signature: int
    fm_ce_se: int
    imm: int

wqe_ctrl_seg: Prm[WqeCtrlSeg]

class WqeDataSeg(View):
    byte_count: int
    lkey: int
    addr: int

wqe_data_seg: Prm[WqeDataSeg]

class WqeRaddrSeg(View):
    raddr: int
    rkey: int

wqe_raddr_seg: Prm[WqeRaddrSeg]

class WqeAtomicSeg(View):
    swap_add: int
    compare: int

wqe_atomic_seg: Prm[WqeAtomicSeg]

class WqeMaskedAtomicSeg(View):
    swap_add: int
    compare: int
    swap_add_mask: int
    compare_mask: int

wqe_masked_atomic_seg: Prm[WqeMaskedAtomicSeg]

class WqeMaskedCs4Seg(View):
    swap: int
    compare: int
    swap_mask: int
    compare_mask: int

wqe_masked_cs4_seg: Prm[WqeMaskedCs4Seg]

class WqeMaskedFaSeg(View):
    add: int
    field_boundary: int

wqe_masked_fa_seg: Prm[WqeMaskedFaSeg]

class WqeMaskedFa4Seg(View):
    add: int
    field_boundary: int

wqe_masked_fa4_seg: Prm[WqeMaskedFa4Seg]

class WqeXrcSeg(View):
    xrc_srqn: int

wqe_xrc_seg: Prm[WqeXrcSeg]

class MmoMetadataSeg(View):
    mmo_control_31_0: int
    local_key: int
    local_address: int

mmo_metadata_seg: Prm[MmoMetadataSeg]

class Av(View):
    key: int
    dqp_dct: int
    stat_rate_sl: int
    fl_mlid: int
    rlid: int
    rmac: Octets
    tclass: int
    hop_limit: int
    grh_gid_fl: int
    rgid: Octets

av: Prm[Av]

class WqeSrqNextSeg(View):
    next_wqe_index: int
    signature: int

wqe_srq_next_seg: Prm[WqeSrqNextSeg]

class WqeUmrCtrlSeg(View):
    flags: int
    xlt_octowords: int
    xlt_offset: int
    mkey_mask: int
    xlt_offset_47_16: int

wqe_umr_ctrl_seg: Prm[WqeUmrCtrlSeg]

class SegSetPsv(View):
    psv_num: int
    syndrome: int
    status: int
    transient_sig: int
    ref_tag: int

seg_set_psv: Prm[SegSetPsv]

class BsfBasic(View):
    bsf_size_sbs: int
    check_byte_mask: int
    wire: int
    mem: int
    raw_data_size: int
    w_bfs_psv: int
    m_bfs_psv: int

bsf_basic: Prm[BsfBasic]

class BsfInl(View):
    vld_refresh: int
    dif_apptag: int
    dif_reftag: int
    sig_type: int
    rp_inv_seed: int
    dif_inc_ref_guard_check: int
    dif_app_bitmask_check: int

bsf_inl: Prm[BsfInl]

class Bsf(View):
    basic: Nested[BsfBasic]
    w_inl: Nested[BsfInl]
    m_inl: Nested[BsfInl]

bsf: Prm[Bsf]

class CryptoBsf(View):
    bsf_size_type: int
    enc_order: int
    enc_standard: int
    raw_data_size: int
    bs_pointer: int
    xts_init_tweak: Octets
    rsvd_dek_ptr: int
    keytag: Octets

crypto_bsf: Prm[CryptoBsf]

class Klm(View):
    bcount: int
    key: int
    va: int

klm: Prm[Klm]

class StrideBlockCtrlSeg(View):
    bcount_per_cycle: int
    op: int
    repeat_count: int
    num_entries: int

stride_block_ctrl_seg: Prm[StrideBlockCtrlSeg]

class StrideBlockEntry(View):
    stride: int
    bcount: int
    key: int
    va: int

stride_block_entry: Prm[StrideBlockEntry]

class Mtt(View):
    ptag: int

mtt: Prm[Mtt]
