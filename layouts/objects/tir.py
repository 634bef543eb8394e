"""Transport interface receive (TIR): receivers of packets, one RQ or by a hash one of many.

A TIR is the destination of a flow table entry. An indirect one hashes header fields and selects an
RQ of an RQT. self_lb_block selects the packets of its own transport domain that may reach it.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

rx_hash_field_select = Prm(
    "rx_hash_field_select",
    "l3_prot_type" / bits(1), "l4_prot_type" / bits(1), "selected_fields" / bits(30),
)

tirc = Prm(
    "tirc",
    rsvd(32), "disp_type" / bits(4), "tls_en" / bits(1), rsvd(95),
    "lro_timeout_period_usecs" / bits(16), "packet_merge_mask" / bits(4),
    "lro_max_ip_payload_size" / bits(8), rsvd(72), "inline_rqn" / bits(24),
    "rx_hash_symmetric" / bits(1), rsvd(1), "tunneled_offload_en" / bits(1), rsvd(5),
    "indirect_table" / bits(24), "rx_hash_fn" / bits(4), rsvd(2), "self_lb_block" / bits(2),
    "transport_domain" / bits(24), "rx_hash_toeplitz_key" / octets(40),
    "rx_hash_field_selector_outer" / rx_hash_field_select,
    "rx_hash_field_selector_inner" / rx_hash_field_select, rsvd(1216),
)

create_tir_in = Prm("create_tir_in", *CMD_IN, rsvd(192), "ctx" / tirc)

create_tir_out = Prm(
    "create_tir_out",
    *CMD_OUT, "icm_address_39_32" / bits(8), "tirn" / bits(24), "icm_address_31_0" / bits(32),
)

modify_tir_bitmask = Prm(
    "modify_tir_bitmask",
    rsvd(59), "self_lb_en" / bits(1), rsvd(1), "hash" / bits(1), rsvd(1), "packet_merge" / bits(1),
)

modify_tir_in = Prm(
    "modify_tir_in",
    *CMD_IN, rsvd(8), "tirn" / bits(24), rsvd(32), "bitmask" / modify_tir_bitmask, rsvd(64),
    "ctx" / tirc,
)

modify_tir_out = Prm("modify_tir_out", *CMD_OUT, rsvd(64))
query_tir_in = Prm("query_tir_in", *CMD_IN_NO_UID, rsvd(8), "tirn" / bits(24), rsvd(32))
query_tir_out = Prm("query_tir_out", *CMD_OUT, rsvd(192), "tir_context" / tirc)
destroy_tir_in = Prm("destroy_tir_in", *CMD_IN, rsvd(8), "tirn" / bits(24), rsvd(32))
destroy_tir_out = Prm("destroy_tir_out", *CMD_OUT, rsvd(64))
