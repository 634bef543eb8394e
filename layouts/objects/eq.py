"""Event queues: eqc, CREATE/QUERY/DESTROY_EQ; interrupt moderation.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, array, bits, nested, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class eqc(Prm):
    status = bits(4); _ = rsvd(9); ec = bits(1); oi = bits(1); _ = rsvd(5); st = bits(4)
    _ = rsvd(60); page_offset = bits(6); _ = rsvd(9); log_eq_size = bits(5); uar_page = bits(24)
    _ = rsvd(52); intr = bits(12)
    _ = rsvd(3); log_page_size = bits(5); _ = rsvd(128); consumer_counter = bits(24)
    _ = rsvd(8); producer_counter = bits(24); _ = rsvd(128)

class create_eq_in(CmdIn):
    _ = rsvd(64); eq_context_entry = nested(eqc); _ = rsvd(64); event_bitmask = array(4, bits(64))
    _ = rsvd(1216); pas = tail(bits(64))

class create_eq_out(CmdOut): _ = rsvd(24); eq_number = bits(8); _ = rsvd(32)
class query_eq_in(CmdInNoUid): _ = rsvd(24); eq_number = bits(8); _ = rsvd(32)

class query_eq_out(CmdOut):
    _ = rsvd(64); eq_context_entry = nested(eqc); _ = rsvd(64); event_bitmask = bits(64)
    _ = rsvd(1408); pas = tail(bits(64))

class destroy_eq_in(CmdInNoUid): _ = rsvd(24); eq_number = bits(8); _ = rsvd(32)
class destroy_eq_out(CmdOut): _ = rsvd(64)

class config_int_moderation_in(CmdInNoUid):
    _ = rsvd(4); min_delay = bits(12); int_vector = bits(16); _ = rsvd(32)

class config_int_moderation_out(CmdOut):
    _ = rsvd(4); min_delay = bits(12); int_vector = bits(16); _ = rsvd(32)
