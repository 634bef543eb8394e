"""Congestion control of RoCE: its parameters, its status for each priority, its statistics.

Names and widths: mlx5_ifc.h of Linux 6.12. Units of the parameters are those of the driver's
debugfs (hw/cong.c): rates in Mb/s, times in microseconds.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, octets, rsvd

PARAMETERS_BYTES = 0x100

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class cong_control_r_roce_ecn_rp(Prm):
    _ = rsvd(100); clamp_tgt_rate = bits(1); _ = rsvd(3); clamp_tgt_rate_after_time_inc = bits(1)
    _ = rsvd(23); _ = rsvd(32); rpg_time_reset = bits(32); rpg_byte_reset = bits(32)
    rpg_threshold = bits(32); rpg_max_rate = bits(32); rpg_ai_rate = bits(32)
    rpg_hai_rate = bits(32); rpg_gd = bits(32); rpg_min_dec_fac = bits(32); rpg_min_rate = bits(32)
    _ = rsvd(224); rate_to_set_on_first_cnp = bits(32); dce_tcp_g = bits(32); dce_tcp_rtt = bits(32)
    rate_reduce_monitor_period = bits(32); _ = rsvd(32); initial_alpha_value = bits(32)
    _ = rsvd(1184)

class cong_control_r_roce_ecn_np(Prm):
    _ = rsvd(160); min_time_between_cnps = bits(32)
    _ = rsvd(18); cnp_dscp = bits(6); _ = rsvd(4); cnp_prio_mode = bits(1); cnp_802p_prio = bits(3)
    _ = rsvd(1824)

class query_cong_params_in(CmdInNoUid): _ = rsvd(28); cong_protocol = bits(4); _ = rsvd(32)
class query_cong_params_out(CmdOut): _ = rsvd(64); congestion_parameters = octets(PARAMETERS_BYTES)

class modify_cong_params_in(CmdInNoUid):
    _ = rsvd(28); cong_protocol = bits(4); field_select = bits(32); _ = rsvd(128)
    congestion_parameters = octets(PARAMETERS_BYTES)

class modify_cong_params_out(CmdOut): _ = rsvd(64)

class query_cong_status_in(CmdInNoUid):
    _ = rsvd(24); priority = bits(4); cong_protocol = bits(4); _ = rsvd(32)

class query_cong_status_out(CmdOut):
    _ = rsvd(32); enable = bits(1); tag_enable = bits(1); _ = rsvd(30)

class modify_cong_status_in(CmdInNoUid):
    _ = rsvd(24); priority = bits(4); cong_protocol = bits(4)
    enable = bits(1); tag_enable = bits(1); _ = rsvd(30)

class modify_cong_status_out(CmdOut): _ = rsvd(64)
class query_cong_statistics_in(CmdInNoUid): clear = bits(1); _ = rsvd(63)

class query_cong_statistics_out(CmdOut):
    _ = rsvd(64); rp_cur_flows = bits(32); sum_flows = bits(32); rp_cnp_ignored_high = bits(32)
    rp_cnp_ignored_low = bits(32); rp_cnp_handled_high = bits(32); rp_cnp_handled_low = bits(32)
    _ = rsvd(256); time_stamp_high = bits(32); time_stamp_low = bits(32)
    accumulators_period = bits(32); np_ecn_marked_roce_packets_high = bits(32)
    np_ecn_marked_roce_packets_low = bits(32); np_cnp_sent_high = bits(32)
    np_cnp_sent_low = bits(32); _ = rsvd(1376)
