"""Counter sets of queue pairs, and the counters of devlink's vnic reporter.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut, VportIn
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class alloc_q_counter_in(CmdIn): _ = rsvd(64)
class alloc_q_counter_out(CmdOut): _ = rsvd(24); counter_set_id = bits(8); _ = rsvd(32)
class dealloc_q_counter_in(CmdInNoUid): _ = rsvd(24); counter_set_id = bits(8); _ = rsvd(32)
class dealloc_q_counter_out(CmdOut): _ = rsvd(64)

class query_q_counter_in(VportIn):
    _ = rsvd(96)
    clear = bits(1); aggregate = bits(1); _ = rsvd(54); counter_set_id = bits(8)

class query_q_counter_out(CmdOut):
    _ = rsvd(64); rx_write_requests = bits(32); _ = rsvd(32); rx_read_requests = bits(32)
    _ = rsvd(32); rx_atomic_requests = bits(32); _ = rsvd(32); rx_dct_connect = bits(32)
    _ = rsvd(32); out_of_buffer = bits(32); _ = rsvd(32); out_of_sequence = bits(32); _ = rsvd(32)
    duplicate_request = bits(32); _ = rsvd(32); rnr_nak_retry_err = bits(32); _ = rsvd(32)
    packet_seq_err = bits(32); _ = rsvd(32); implied_nak_seq_err = bits(32); _ = rsvd(32)
    local_ack_timeout_err = bits(32); _ = rsvd(96); req_rnr_retries_exceeded = bits(32)
    _ = rsvd(32); resp_local_length_error = bits(32); req_local_length_error = bits(32)
    resp_local_qp_error = bits(32); local_operation_error = bits(32)
    resp_local_protection = bits(32); req_local_protection = bits(32); resp_cqe_error = bits(32)
    req_cqe_error = bits(32); req_mw_binding = bits(32); req_bad_response = bits(32)
    req_remote_invalid_request = bits(32); resp_remote_invalid_request = bits(32)
    req_remote_access_errors = bits(32); resp_remote_access_errors = bits(32)
    req_remote_operation_errors = bits(32); req_transport_retries_exceeded = bits(32)
    cq_overflow = bits(32); resp_cqe_flush_error = bits(32); req_cqe_flush_error = bits(32)
    _ = rsvd(32); roce_adp_retrans = bits(32); roce_adp_retrans_to = bits(32)
    roce_slow_restart = bits(32); roce_slow_restart_cnps = bits(32)
    roce_slow_restart_trans = bits(32); _ = rsvd(288)

class vnic_diagnostic_statistics(Prm):
    counter_error_queues = bits(32); total_error_queues = bits(32)
    send_queue_priority_update_flow = bits(32); _ = rsvd(32)
    nic_receive_steering_discard = bits(64); receive_discard_vport_down = bits(64)
    transmit_discard_vport_down = bits(64); async_eq_overrun = bits(32); comp_eq_overrun = bits(32)
    _ = rsvd(32); invalid_command = bits(32); quota_exceeded_command = bits(32)
    internal_rq_out_of_buffer = bits(32); cq_overrun = bits(32); eth_wqe_too_small = bits(32)
    _ = rsvd(192); generated_pkt_steering_fail = bits(64); handled_pkt_steering_fail = bits(64)
    _ = rsvd(3200)

class query_vnic_env_in(VportIn):
    _ = rsvd(32)

class query_vnic_env_out(CmdOut): _ = rsvd(64); vport_env = nested(vnic_diagnostic_statistics)
