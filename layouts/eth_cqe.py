"""The fields of a completion that a received Ethernet packet fills.

Source: device.h (``mlx5_cqe64``) and core/en_rx.c (mlx5e_build_rx_skb) of Linux 6.12. As with the
packers of :mod:`layouts.cqe`, the last byte, op_own, is left out and written last.
"""

from __future__ import annotations

from layouts.cqe import OP_OWN, cqe64

ETH_CQE = cqe64.packer(
    "wqe_id", "rss_hash_result", "rss_hash_type", "ml_path", "check_sum", "flags_rqpn",
    "hds_ip_ext", "l4_l3_hdr_type", "vlan_info", "srqn", "immediate", "byte_cnt", "timestamp_h",
    "timestamp_l", "sop_drop_qpn", "wqe_counter", upto=OP_OWN,
)  # fmt: skip
