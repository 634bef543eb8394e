"""Event queues: eqc, CREATE/QUERY/DESTROY_EQ; interrupt moderation.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, array, bits, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

eqc = Prm(
    "eqc",
    "status" / bits(4), rsvd(9), "ec" / bits(1), "oi" / bits(1), rsvd(5), "st" / bits(4), rsvd(60),
    "page_offset" / bits(6), rsvd(9), "log_eq_size" / bits(5), "uar_page" / bits(24), rsvd(52),
    "intr" / bits(12), rsvd(3), "log_page_size" / bits(5), rsvd(128),
    "consumer_counter" / bits(24), rsvd(8), "producer_counter" / bits(24), rsvd(128),
)

create_eq_in = Prm(
    "create_eq_in",
    *CMD_IN, rsvd(64), "eq_context_entry" / eqc, rsvd(64), "event_bitmask" / array(4, bits(64)),
    rsvd(1216), "pas" / tail(bits(64)),
)

create_eq_out = Prm("create_eq_out", *CMD_OUT, rsvd(24), "eq_number" / bits(8), rsvd(32))
query_eq_in = Prm("query_eq_in", *CMD_IN_NO_UID, rsvd(24), "eq_number" / bits(8), rsvd(32))

query_eq_out = Prm(
    "query_eq_out",
    *CMD_OUT, rsvd(64), "eq_context_entry" / eqc, rsvd(64), "event_bitmask" / bits(64), rsvd(1408),
    "pas" / tail(bits(64)),
)

destroy_eq_in = Prm("destroy_eq_in", *CMD_IN_NO_UID, rsvd(24), "eq_number" / bits(8), rsvd(32))
destroy_eq_out = Prm("destroy_eq_out", *CMD_OUT, rsvd(64))

config_int_moderation_in = Prm(
    "config_int_moderation_in",
    *CMD_IN_NO_UID, rsvd(4), "min_delay" / bits(12), "int_vector" / bits(16), rsvd(32),
)

config_int_moderation_out = Prm(
    "config_int_moderation_out",
    *CMD_OUT, rsvd(4), "min_delay" / bits(12), "int_vector" / bits(16), rsvd(32),
)
