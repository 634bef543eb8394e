"""WQEs of Ethernet queues: fields beside the segments of :mod:`layouts.rings.wqe`.

A send WQE is a control segment, the Ethernet segment and data segments. A cyclic receive WQE has
only data segments. If it has space for more, a segment with the key that ends scatter lists is the
last one. A linked-list WQE (striding receive queues) begins with a next segment.

Source: PRM "Send and receive queue WQE formats"; qp.h (``mlx5_wqe_eth_seg``) and core/en.h
(``mlx5e_rx_wqe_ll``) of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, tail
from layouts.rings.wqe import wqe_data_seg, wqe_srq_next_seg

INSERT_VLAN = 1 << 31
"""Bit of trailer: insert the VLAN tag in the low 16 bits behind the MAC addresses, without inline
headers.
"""

INSERT_SVLAN = 1 << 16
"""Bit of trailer, beside INSERT_VLAN: the tag is a service tag, Ethertype 0x88a8."""

INLINE_HDR_START = 14
"""Offset of inline headers in the Ethernet segment: its last two bytes."""

START_PADDING = 1 << 31
"""Bit of a receive segment's byte_count (MLX5_HW_START_PADDING); the length is below it."""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

# trailer is a union. Its high half is inline_hdr.sz, the bytes of headers that follow inline; the
# low half is their first two bytes. Without inline headers it is INSERT_VLAN and the tag, or 0.
class wqe_eth_seg(Prm, c_name="mlx5_wqe_eth_seg"):
    swp_outer_l4_offset = bits(8); swp_outer_l3_offset = bits(8); swp_inner_l4_offset = bits(8)
    swp_inner_l3_offset = bits(8); cs_flags = bits(8); swp_flags = bits(8); mss = bits(16)
    flow_table_metadata = bits(32); trailer = bits(32)

class rx_wqe_ll(Prm, c_name="mlx5e_rx_wqe_ll"):
    next = nested(wqe_srq_next_seg); data = tail(nested(wqe_data_seg))

# fmt: on

SWP = wqe_eth_seg.packer(
    "swp_outer_l4_offset", "swp_outer_l3_offset", "swp_inner_l4_offset", "swp_inner_l3_offset",
    "swp_flags",
)  # fmt: skip
ETH = wqe_eth_seg.packer("cs_flags", "mss", "flow_table_metadata", "trailer")
