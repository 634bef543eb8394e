"""Fields of a completion for a received Ethernet packet.

Source: device.h (``mlx5_cqe64``) and core/en_rx.c (mlx5e_build_rx_skb) of Linux 6.12. The last
byte, op_own, is left out and written last, like that of the packers of :mod:`layouts.rings.cqe`.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd
from layouts.rings.cqe import OP_OWN, cqe64

# fmt: off

class cqe_lro(Prm, c_name="mlx5_cqe64.lro"):
    """Fields of a completion for packets that were merged into one (LRO)."""

    tcppsh_abort_dupack = bits(8); min_ttl = bits(8); tcp_win = bits(16); ack_seq_num = bits(32)

class cqe_shampo(Prm, c_name="mlx5_cqe64.shampo"):
    """Fields of a completion for a packet with header split; flags in its first byte."""

    _ = rsvd(8); header_size = bits(8); header_entry_index = bits(16); data_offset = bits(32)

# fmt: on

ETH_CQE = cqe64.packer(
    "wqe_id", "rss_hash_result", "rss_hash_type", "ml_path", "check_sum", "flags_rqpn",
    "hds_ip_ext", "l4_l3_hdr_type", "vlan_info", "srqn", "immediate", "byte_cnt", "timestamp_h",
    "timestamp_l", "sop_drop_qpn", "wqe_counter", upto=OP_OWN,
)  # fmt: skip

HDS_IP_EXT_AT, HDR_TYPE_AT = 28, 29
"""Offsets of hds_ip_ext and l4_l3_hdr_type in a CQE."""
LRO_AT = 4
LRO_NUM_SEG_AT = 32
"""Offset of lro_num_seg in a CQE; also of the top byte of srqn, which then has the number of
packets.
"""
LRO = cqe_lro.packer("tcppsh_abort_dupack", "min_ttl", "tcp_win", "ack_seq_num")
LRO_PSH = 1 << 6
"""Bit of tcppsh_abort_dupack: one of the packets had PSH."""

SHAMPO_AT = 4
SHAMPO = cqe_shampo.packer("header_size", "header_entry_index", "data_offset")
SHAMPO_MATCH = 1 << 1
"""Flag of a packet that belongs to the one before."""
SHAMPO_FLUSH = 1 << 2
"""Flag of a packet that no other one follows in its group."""
