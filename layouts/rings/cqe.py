"""Completion queue entries.

Source: PRM "Completion queue entry"; device.h (``mlx5_cqe64``, ``mlx5_err_cqe``,
``mlx5_sig_err_cqe``) of Linux 6.12. The last byte, op_own, passes the entry to the driver. The
packers leave it out, so that it can be written after everything else.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

CQE_BYTES = 64
OP_OWN = 63
"""Offset of the byte with opcode, format and owner bit."""
TIME_MASK = (1 << 64) - 1
"""The bits of a time stamp."""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class cqe64(Prm, c_name="mlx5_cqe64"):
    tls_outer_l3_tunneled = bits(8); _ = rsvd(8); wqe_id = bits(16); _ = rsvd(64)
    rss_hash_result = bits(32); rss_hash_type = bits(8); ml_path = bits(8); _ = rsvd(16)
    check_sum = bits(16); slid = bits(16); flags_rqpn = bits(32)
    hds_ip_ext = bits(8); l4_l3_hdr_type = bits(8); vlan_info = bits(16); srqn = bits(32)
    immediate = bits(32); _ = rsvd(32); byte_cnt = bits(32); timestamp_h = bits(32)
    timestamp_l = bits(32); sop_drop_qpn = bits(32)
    wqe_counter = bits(16); signature = bits(8); op_own = bits(8)

class err_cqe(Prm, c_name="mlx5_err_cqe"):
    _ = rsvd(256); srqn = bits(32); _ = rsvd(128)
    hw_err_synd = bits(8); hw_synd_type = bits(8); vendor_err_synd = bits(8); syndrome = bits(8)
    s_wqe_opcode_qpn = bits(32); wqe_counter = bits(16); signature = bits(8); op_own = bits(8)

class sig_err_cqe(Prm, c_name="mlx5_sig_err_cqe"):
    _ = rsvd(128); expected_trans_sig = bits(32); actual_trans_sig = bits(32)
    expected_reftag = bits(32); actual_reftag = bits(32)
    syndrome = bits(16); sig_type = bits(8); domain = bits(8); mkey = bits(32)
    err_offset = bits(64); _ = rsvd(64); qpn = bits(32)
    _ = rsvd(16); signature = bits(8); op_own = bits(8)

# fmt: on

CQE = cqe64.packer(
    "ml_path", "slid", "flags_rqpn", "srqn", "immediate", "byte_cnt", "timestamp_h+timestamp_l",
    "sop_drop_qpn", "wqe_counter", upto=OP_OWN,
)  # fmt: skip
SEND_CQE = cqe64.packer(
    "srqn", "byte_cnt", "timestamp_h+timestamp_l", "sop_drop_qpn", "wqe_counter", upto=OP_OWN
)
"""Packer of a send request that is done: its other fields are zero."""
ERR_CQE = err_cqe.packer(
    "srqn", "hw_err_synd", "hw_synd_type", "vendor_err_synd", "syndrome", "s_wqe_opcode_qpn",
    "wqe_counter", upto=OP_OWN,
)  # fmt: skip
"""Packer of an error's syndromes. The type is in the upper four bits of hw_synd_type (UCX:
uct_ib_mlx5_err_cqe).
"""
SIG_ERR_CQE = sig_err_cqe.packer(
    "expected_trans_sig", "actual_trans_sig", "expected_reftag", "actual_reftag", "syndrome",
    "domain", "mkey", "err_offset", "qpn", upto=OP_OWN,
)  # fmt: skip

SCATTER_32 = 1 << 2
"""Bit of op_own: the data of the request or message are in the completion's first 32 bytes, and not
in memory (libmlx5: MLX5_INLINE_SCATTER_32).
"""
SCATTER_64 = 1 << 3
"""Bit of op_own: the data are in the 64 bytes before it."""
SCATTER_32_BYTES = 32
SCATTER_64_BYTES = 64
