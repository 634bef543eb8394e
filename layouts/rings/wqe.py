"""Work queue elements: the 16-byte segments of send, receive and UMR requests.

Source: PRM "Send and receive queue WQE formats"; qp.h and device.h of Linux 6.12. A WQE is a chain
of segments in units of 16 bytes (DS). A send queue's ring consists of basic blocks of 64 bytes
(WQEBB). The structures that the data path reads have a ``Struct`` derived from their declaration.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, octets, rsvd

DS = 16
WQEBB = 64

INLINE = 1 << 31
"""Bit of byte_count: the data itself follows, its length in the low ten bits."""

INLINE_LENGTH = 0x3FF

REPEAT_BLOCK = 0x400
"""Value in the key of an entry that starts a repeat block (MLX5_STRIDE_BLOCK_OP)."""

EXTENDED_ATOMIC = 8
"""Bit of opmod of an atomic with masks, beside log2 of the operand's size in words of four
bytes.
"""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class wqe_ctrl_seg(Prm, c_name="mlx5_wqe_ctrl_seg"):
    opmod_idx_opcode = bits(32); qpn_ds = bits(32)
    signature = bits(8); _ = rsvd(16); fm_ce_se = bits(8); imm = bits(32)

class wqe_data_seg(Prm, c_name="mlx5_wqe_data_seg"):
    byte_count = bits(32); lkey = bits(32); addr = bits(64)

class wqe_raddr_seg(Prm, c_name="mlx5_wqe_raddr_seg"):
    raddr = bits(64); rkey = bits(32); _ = rsvd(32)

class wqe_atomic_seg(Prm, c_name="mlx5_wqe_atomic_seg"): swap_add = bits(64); compare = bits(64)

class wqe_masked_atomic_seg(Prm, c_name="mlx5_wqe_masked_atomic_seg"):
    swap_add = bits(64); compare = bits(64); swap_add_mask = bits(64); compare_mask = bits(64)

class wqe_masked_cs4_seg(Prm):
    swap = bits(32); compare = bits(32); swap_mask = bits(32); compare_mask = bits(32)

class wqe_masked_fa_seg(Prm): add = bits(64); field_boundary = bits(64)
class wqe_masked_fa4_seg(Prm): add = bits(32); field_boundary = bits(32); _ = rsvd(64)
class wqe_xrc_seg(Prm, c_name="mlx5_wqe_xrc_seg"): xrc_srqn = bits(32); _ = rsvd(96)

class mmo_metadata_seg(Prm):
    mmo_control_31_0 = bits(32); local_key = bits(32); local_address = bits(64)

class av(Prm, c_name="mlx5_av"):
    key = bits(64); dqp_dct = bits(32); stat_rate_sl = bits(8); fl_mlid = bits(8); rlid = bits(16)
    _ = rsvd(32); rmac = octets(6); tclass = bits(8); hop_limit = bits(8); grh_gid_fl = bits(32)
    rgid = octets(16)

class wqe_srq_next_seg(Prm, c_name="mlx5_wqe_srq_next_seg"):
    _ = rsvd(16); next_wqe_index = bits(16); signature = bits(8); _ = rsvd(88)

class wqe_umr_ctrl_seg(Prm, c_name="mlx5_wqe_umr_ctrl_seg"):
    flags = bits(8); _ = rsvd(24); xlt_octowords = bits(16); xlt_offset = bits(16)
    mkey_mask = bits(64); xlt_offset_47_16 = bits(32); _ = rsvd(224)

class seg_set_psv(Prm, c_name="mlx5_seg_set_psv"):
    psv_num = bits(32); syndrome = bits(16); status = bits(16); transient_sig = bits(32)
    ref_tag = bits(32)

class bsf_basic(Prm, c_name="mlx5_bsf_basic"):
    bsf_size_sbs = bits(8); check_byte_mask = bits(8); wire = bits(8); mem = bits(8)
    raw_data_size = bits(32); w_bfs_psv = bits(32); m_bfs_psv = bits(32)

class bsf_inl(Prm, c_name="mlx5_bsf_inl"):
    vld_refresh = bits(16); dif_apptag = bits(16); dif_reftag = bits(32)
    sig_type = bits(8); rp_inv_seed = bits(8); _ = rsvd(24); dif_inc_ref_guard_check = bits(8)
    dif_app_bitmask_check = bits(16)

class bsf(Prm, c_name="mlx5_bsf"):
    basic = nested(bsf_basic); _ = rsvd(128); w_inl = nested(bsf_inl); m_inl = nested(bsf_inl)

class crypto_bsf(Prm, c_name="mlx5_crypto_bsf"):
    bsf_size_type = bits(8); enc_order = bits(8); _ = rsvd(8); enc_standard = bits(8)
    raw_data_size = bits(32); bs_pointer = bits(8); _ = rsvd(56); xts_init_tweak = octets(16)
    rsvd_dek_ptr = bits(32); _ = rsvd(32); keytag = octets(8); _ = rsvd(128)

class klm(Prm, c_name="mlx5_klm"): bcount = bits(32); key = bits(32); va = bits(64)

class stride_block_ctrl_seg(Prm, c_name="mlx5_stride_block_ctrl_seg"):
    bcount_per_cycle = bits(32); op = bits(32); repeat_count = bits(32)
    _ = rsvd(16); num_entries = bits(16)

class stride_block_entry(Prm, c_name="mlx5_stride_block_entry"):
    stride = bits(16); bcount = bits(16); key = bits(32); va = bits(64)

class mtt(Prm, c_name="mlx5_mtt"): ptag = bits(64)

# fmt: on

CTRL = wqe_ctrl_seg.packer("opmod_idx_opcode", "qpn_ds", "fm_ce_se", "imm")
DATA = wqe_data_seg.packer("byte_count", "lkey", "addr")
RADDR = wqe_raddr_seg.packer("raddr", "rkey")
ATOMIC = wqe_atomic_seg.packer("swap_add", "compare")
MASKED_ATOMIC = wqe_masked_atomic_seg.packer("swap_add", "compare", "swap_add_mask", "compare_mask")
MASKED_CS_4 = wqe_masked_cs4_seg.packer("swap", "compare", "swap_mask", "compare_mask")
MASKED_FA = wqe_masked_fa_seg.packer("add", "field_boundary")
MASKED_FA_4 = wqe_masked_fa4_seg.packer("add", "field_boundary")
XRC = wqe_xrc_seg.packer("xrc_srqn")
NEXT = wqe_srq_next_seg.packer("next_wqe_index")
UMR_CTRL = wqe_umr_ctrl_seg.packer(
    "flags", "xlt_octowords", "xlt_offset", "mkey_mask", "xlt_offset_47_16"
)
SET_PSV = seg_set_psv.packer("psv_num", "syndrome", "transient_sig", "ref_tag")
KLM = klm.packer("bcount", "key", "va")
REPEAT = stride_block_ctrl_seg.packer("bcount_per_cycle", "op", "repeat_count", "num_entries")
REPEAT_ENTRY = stride_block_entry.packer("stride", "bcount", "key", "va")
