"""Mini CQEs: fields of each packet in a compressed completion, eight bytes in five forms.

The form is cqc.mini_cqe_res_format. Source: device.h (``mlx5_mini_cqe8``) of Linux 6.12; DPDK's
mlx5_prm.h (``mlx5_mini_cqe8``) for the flow tag and the header type.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

MINI_BYTES = 8
PER_ARRAY = 8
"""Number of mini CQEs in the space of a CQE (device.h: MLX5_MINI_CQE_ARRAY_SIZE)."""
PER_BLOCK = 7
"""Number of mini CQEs in the enhanced layout, whose last bytes mark the block as valid."""

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mini_cqe_hash(Prm, c_name="mlx5_mini_cqe8"): rx_hash_result = bits(32); byte_cnt = bits(32)

class mini_cqe_csum(Prm, c_name="mlx5_mini_cqe8"):
    checksum = bits(16); stridx = bits(16); byte_cnt = bits(32)

class mini_cqe_flow_tag(Prm):
    flow_tag_low = bits(16); stridx = bits(16); flow_tag_high = bits(8); byte_cnt = bits(24)

class mini_cqe_l3_l4(Prm):
    l4_l3_hdr_type = bits(8); _ = rsvd(8); stridx = bits(16); byte_cnt = bits(32)

# fmt: on
