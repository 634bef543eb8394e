# Written by scripts/gen-view-types from congestion.py; a test fails when it is stale.

from typing import Final

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

PARAMETERS_BYTES: Final = 256

class CongControlRRoceEcnRp(View):
    clamp_tgt_rate: int
    clamp_tgt_rate_after_time_inc: int
    rpg_time_reset: int
    rpg_byte_reset: int
    rpg_threshold: int
    rpg_max_rate: int
    rpg_ai_rate: int
    rpg_hai_rate: int
    rpg_gd: int
    rpg_min_dec_fac: int
    rpg_min_rate: int
    rate_to_set_on_first_cnp: int
    dce_tcp_g: int
    dce_tcp_rtt: int
    rate_reduce_monitor_period: int
    initial_alpha_value: int

cong_control_r_roce_ecn_rp: Prm[CongControlRRoceEcnRp]

class CongControlRRoceEcnNp(View):
    min_time_between_cnps: int
    cnp_dscp: int
    cnp_prio_mode: int
    cnp_802p_prio: int

cong_control_r_roce_ecn_np: Prm[CongControlRRoceEcnNp]

class QueryCongParamsIn(View):
    opcode: int
    op_mod: int
    cong_protocol: int

query_cong_params_in: Prm[QueryCongParamsIn]

class QueryCongParamsOut(View):
    status: int
    syndrome: int
    congestion_parameters: Octets

query_cong_params_out: Prm[QueryCongParamsOut]

class ModifyCongParamsIn(View):
    opcode: int
    op_mod: int
    cong_protocol: int
    field_select: int
    congestion_parameters: Octets

modify_cong_params_in: Prm[ModifyCongParamsIn]

class ModifyCongParamsOut(View):
    status: int
    syndrome: int

modify_cong_params_out: Prm[ModifyCongParamsOut]

class QueryCongStatusIn(View):
    opcode: int
    op_mod: int
    priority: int
    cong_protocol: int

query_cong_status_in: Prm[QueryCongStatusIn]

class QueryCongStatusOut(View):
    status: int
    syndrome: int
    enable: int
    tag_enable: int

query_cong_status_out: Prm[QueryCongStatusOut]

class ModifyCongStatusIn(View):
    opcode: int
    op_mod: int
    priority: int
    cong_protocol: int
    enable: int
    tag_enable: int

modify_cong_status_in: Prm[ModifyCongStatusIn]

class ModifyCongStatusOut(View):
    status: int
    syndrome: int

modify_cong_status_out: Prm[ModifyCongStatusOut]

class QueryCongStatisticsIn(View):
    opcode: int
    op_mod: int
    clear: int

query_cong_statistics_in: Prm[QueryCongStatisticsIn]

class QueryCongStatisticsOut(View):
    status: int
    syndrome: int
    rp_cur_flows: int
    sum_flows: int
    rp_cnp_ignored_high: int
    rp_cnp_ignored_low: int
    rp_cnp_handled_high: int
    rp_cnp_handled_low: int
    time_stamp_high: int
    time_stamp_low: int
    accumulators_period: int
    np_ecn_marked_roce_packets_high: int
    np_ecn_marked_roce_packets_low: int
    np_cnp_sent_high: int
    np_cnp_sent_low: int

query_cong_statistics_out: Prm[QueryCongStatisticsOut]
