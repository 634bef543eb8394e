"""DC targets (DCT): their context and commands.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class dctc(Prm):
    _ = rsvd(4); state = bits(4); _ = rsvd(32); user_index = bits(24); _ = rsvd(8); cqn = bits(24)
    counter_set_id = bits(8); atomic_mode = bits(4); rre = bits(1); rwe = bits(1); rae = bits(1)
    atomic_like_write_en = bits(1); latency_sensitive = bits(1); rlky = bits(1); free_ar = bits(1)
    _ = rsvd(21); cs_res = bits(8); _ = rsvd(3); min_rnr_nak = bits(5); _ = rsvd(16)
    srqn_xrqn = bits(24); _ = rsvd(8); pd = bits(24)
    tclass = bits(8); _ = rsvd(4); flow_label = bits(20); dc_access_key = bits(64)
    _ = rsvd(5); mtu = bits(3); port = bits(8); pkey_index = bits(16)
    _ = rsvd(8); my_addr_index = bits(8); _ = rsvd(8); hop_limit = bits(8)
    dc_access_key_violation_count = bits(32)
    _ = rsvd(20); dei_cfi = bits(1); eth_prio = bits(3); ecn = bits(2); dscp = bits(6); _ = rsvd(32)
    ece = bits(32)

class create_dct_in(CmdIn): _ = rsvd(64); dct_context_entry = nested(dctc); _ = rsvd(384)
class create_dct_out(CmdOut): _ = rsvd(8); dctn = bits(24); ece = bits(32)
class query_dct_in(CmdInNoUid): _ = rsvd(8); dctn = bits(24); _ = rsvd(32)
class query_dct_out(CmdOut): _ = rsvd(64); dct_context_entry = nested(dctc); _ = rsvd(384)
class drain_dct_in(CmdIn): _ = rsvd(8); dctn = bits(24); _ = rsvd(32)
class drain_dct_out(CmdOut): _ = rsvd(64)
class destroy_dct_in(CmdIn): _ = rsvd(8); dctn = bits(24); _ = rsvd(32)
class destroy_dct_out(CmdOut): _ = rsvd(64)
