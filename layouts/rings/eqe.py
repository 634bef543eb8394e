"""Event queue entries: 64 bytes, of which 28 are the event's own data.

Source: PRM "Event queue entry"; device.h (``mlx5_eqe`` and the members of ``ev_data``) of
Linux 6.12. Each event's data is declared on its own and fills ``eqe.data`` from the front.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, octets, rsvd

EQE_BYTES = 64
EQE_DATA_OFFSET = 0x20

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class eqe(Prm, c_name="mlx5_eqe"):
    _ = rsvd(8); type = bits(8); _ = rsvd(8); sub_type = bits(8); _ = rsvd(32 * 7)
    data = octets(28); _ = rsvd(16); signature = bits(8); owner = bits(8)

class eqe_comp(Prm, c_name="mlx5_eqe_comp"): _ = rsvd(32 * 6); cqn = bits(32)
class eqe_cmd(Prm, c_name="mlx5_eqe_cmd"): vector = bits(32); _ = rsvd(32 * 6)

class eqe_qp_srq(Prm, c_name="mlx5_eqe_qp_srq"):
    _ = rsvd(32 * 5); type = bits(8); _ = rsvd(24); qp_srq_n = bits(32)

class eqe_dct(Prm, c_name="mlx5_eqe_dct"): _ = rsvd(32 * 6); dctn = bits(32)
class eqe_cq_err(Prm, c_name="mlx5_eqe_cq_err"): cqn = bits(32); _ = rsvd(56); syndrome = bits(8)

class eqe_port_state(Prm, c_name="mlx5_eqe_port_state"):
    class port_bits(Prm): port_num = bits(4); _ = rsvd(4)

    _ = rsvd(64); port = nested(port_bits)

class eqe_port_module(Prm, c_name="mlx5_eqe_port_module"):
    _ = rsvd(8); module = bits(8); _ = rsvd(8); module_status = bits(8)
    _ = rsvd(16); error_type = bits(8)

class eqe_temp_warning(Prm, c_name="mlx5_eqe_temp_warning"):
    sensor_warning_msb = bits(64); sensor_warning_lsb = bits(64)

class eqe_pps(Prm, c_name="mlx5_eqe_pps"):
    _ = rsvd(24); pin = bits(8); _ = rsvd(32); time_stamp = bits(64); _ = rsvd(96)

class eqe_page_req(Prm, c_name="mlx5_eqe_page_req"):
    class ec_function_bits(Prm):
        embedded_cpu_function = bits(1); release_all_pages = bits(1); _ = rsvd(14)

    ec_function = nested(ec_function_bits); func_id = bits(16); num_pages = bits(32)
    _ = rsvd(32 * 5)

class eqe_vport_change(Prm, c_name="mlx5_eqe_vport_change"):
    _ = rsvd(16); vport_num = bits(16); _ = rsvd(32 * 6)

class eqe_vhca_state(Prm, c_name="mlx5_eqe_vhca_state"):
    ec_function = bits(16); function_id = bits(16)

class pftype_wq(Prm):
    _ = rsvd(5); rdma = bits(1); write = bits(1); requestor = bits(1); wq = bits(24)

class pftype_token(Prm):
    _ = rsvd(5); rdma = bits(1); write = bits(1); requestor = bits(1); token = bits(24)

# The three forms of page-fault data (sub_type 0, 1, 2) are one union in the driver's structure.
class eqe_page_fault_wqe(Prm, c_name="mlx5_eqe_page_fault.wqe"):
    bytes_committed = bits(32); _ = rsvd(16); wqe_index = bits(16)
    _ = rsvd(16); packet_length = bits(16); token = bits(32); _ = rsvd(64)
    pftype_wq = nested(pftype_wq)

class eqe_page_fault_rdma(Prm, c_name="mlx5_eqe_page_fault.rdma"):
    bytes_committed = bits(32); r_key = bits(32); _ = rsvd(16); packet_length = bits(16)
    rdma_op_len = bits(32); rdma_va = bits(64); pftype_token = nested(pftype_token)

class eqe_page_fault_memory(Prm, c_name="mlx5_eqe_page_fault.memory"):
    flags = bits(8); _ = rsvd(8); post_demand_fault_pages = bits(16)
    pre_demand_fault_pages = bits(16); token47_32 = bits(16); token31_0 = bits(32)
    demand_fault_pages = bits(32); mkey = bits(32); va = bits(64)
