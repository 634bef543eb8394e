"""DC targets (DCT): their context and commands.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

dctc = Prm(
    "dctc",
    rsvd(4), "state" / bits(4), rsvd(32), "user_index" / bits(24), rsvd(8), "cqn" / bits(24),
    "counter_set_id" / bits(8), "atomic_mode" / bits(4), "rre" / bits(1), "rwe" / bits(1),
    "rae" / bits(1), "atomic_like_write_en" / bits(1), "latency_sensitive" / bits(1),
    "rlky" / bits(1), "free_ar" / bits(1), rsvd(21), "cs_res" / bits(8), rsvd(3),
    "min_rnr_nak" / bits(5), rsvd(16), "srqn_xrqn" / bits(24), rsvd(8), "pd" / bits(24),
    "tclass" / bits(8), rsvd(4), "flow_label" / bits(20), "dc_access_key" / bits(64), rsvd(5),
    "mtu" / bits(3), "port" / bits(8), "pkey_index" / bits(16), rsvd(8), "my_addr_index" / bits(8),
    rsvd(8), "hop_limit" / bits(8), "dc_access_key_violation_count" / bits(32), rsvd(20),
    "dei_cfi" / bits(1), "eth_prio" / bits(3), "ecn" / bits(2), "dscp" / bits(6), rsvd(32),
    "ece" / bits(32),
)

create_dct_in = Prm("create_dct_in", *CMD_IN, rsvd(64), "dct_context_entry" / dctc, rsvd(384))
create_dct_out = Prm("create_dct_out", *CMD_OUT, rsvd(8), "dctn" / bits(24), "ece" / bits(32))
query_dct_in = Prm("query_dct_in", *CMD_IN_NO_UID, rsvd(8), "dctn" / bits(24), rsvd(32))
query_dct_out = Prm("query_dct_out", *CMD_OUT, rsvd(64), "dct_context_entry" / dctc, rsvd(384))
drain_dct_in = Prm("drain_dct_in", *CMD_IN, rsvd(8), "dctn" / bits(24), rsvd(32))
drain_dct_out = Prm("drain_dct_out", *CMD_OUT, rsvd(64))
destroy_dct_in = Prm("destroy_dct_in", *CMD_IN, rsvd(8), "dctn" / bits(24), rsvd(32))
destroy_dct_out = Prm("destroy_dct_out", *CMD_OUT, rsvd(64))
