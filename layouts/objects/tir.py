"""Transport interface receive (TIR): receivers of packets, one RQ or by a hash one of many.

A TIR is the destination of a flow table entry. An indirect one hashes header fields and selects an
RQ of an RQT. self_lb_block selects the packets of its own transport domain that may reach it.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class rx_hash_field_select(Prm):
    l3_prot_type = bits(1); l4_prot_type = bits(1); selected_fields = bits(30)

class tirc(Prm):
    _ = rsvd(32)
    disp_type = bits(4); tls_en = bits(1); _ = rsvd(95); lro_timeout_period_usecs = bits(16)
    packet_merge_mask = bits(4); lro_max_ip_payload_size = bits(8)
    _ = rsvd(72); inline_rqn = bits(24)
    rx_hash_symmetric = bits(1); _ = rsvd(1); tunneled_offload_en = bits(1); _ = rsvd(5)
    indirect_table = bits(24)
    rx_hash_fn = bits(4); _ = rsvd(2); self_lb_block = bits(2); transport_domain = bits(24)
    rx_hash_toeplitz_key = octets(40); rx_hash_field_selector_outer = nested(rx_hash_field_select)
    rx_hash_field_selector_inner = nested(rx_hash_field_select); _ = rsvd(1216)

class create_tir_in(CmdIn): _ = rsvd(192); ctx = nested(tirc)

class create_tir_out(CmdOut):
    icm_address_39_32 = bits(8); tirn = bits(24); icm_address_31_0 = bits(32)

class modify_tir_bitmask(Prm):
    _ = rsvd(59); self_lb_en = bits(1); _ = rsvd(1); hash = bits(1); _ = rsvd(1)
    packet_merge = bits(1)

class modify_tir_in(CmdIn):
    _ = rsvd(8); tirn = bits(24); _ = rsvd(32); bitmask = nested(modify_tir_bitmask); _ = rsvd(64)
    ctx = nested(tirc)

class modify_tir_out(CmdOut): _ = rsvd(64)
class query_tir_in(CmdInNoUid): _ = rsvd(8); tirn = bits(24); _ = rsvd(32)
class query_tir_out(CmdOut): _ = rsvd(192); tir_context = nested(tirc)
class destroy_tir_in(CmdIn): _ = rsvd(8); tirn = bits(24); _ = rsvd(32)
class destroy_tir_out(CmdOut): _ = rsvd(64)
