"""Event queue entries: 64 bytes, of which 28 are the event's own data.

Source: PRM "Event queue entry"; device.h (``mlx5_eqe`` and the members of ``ev_data``) of
Linux 6.12. Each event's data is declared on its own and fills ``eqe.data`` from the front.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

EQE_BYTES = 64
EQE_DATA_OFFSET = 0x20

# Fields stand in rows, as in the PRM's figures.
# fmt: off

eqe = Prm(
    "eqe",
    rsvd(8), "type" / bits(8), rsvd(8), "sub_type" / bits(8), rsvd(32 * 7),
    "data" / octets(28), rsvd(16), "signature" / bits(8), "owner" / bits(8),
    c_name="mlx5_eqe",
)

eqe_comp = Prm("eqe_comp", rsvd(32 * 6), "cqn" / bits(32), c_name="mlx5_eqe_comp")

eqe_cmd = Prm("eqe_cmd", "vector" / bits(32), rsvd(32 * 6), c_name="mlx5_eqe_cmd")

eqe_qp_srq = Prm(
    "eqe_qp_srq",
    rsvd(32 * 5), "type" / bits(8), rsvd(24), "qp_srq_n" / bits(32),
    c_name="mlx5_eqe_qp_srq",
)

eqe_dct = Prm("eqe_dct", rsvd(32 * 6), "dctn" / bits(32), c_name="mlx5_eqe_dct")

eqe_cq_err = Prm(
    "eqe_cq_err",
    "cqn" / bits(32), rsvd(56), "syndrome" / bits(8),
    c_name="mlx5_eqe_cq_err",
)

eqe_port_state = Prm(
    "eqe_port_state",
    rsvd(64),
    "port" / Prm("port", "port_num" / bits(4), rsvd(4)),
    c_name="mlx5_eqe_port_state",
)

eqe_port_module = Prm(
    "eqe_port_module",
    rsvd(8), "module" / bits(8), rsvd(8), "module_status" / bits(8), rsvd(16),
    "error_type" / bits(8),
    c_name="mlx5_eqe_port_module",
)

eqe_temp_warning = Prm(
    "eqe_temp_warning",
    "sensor_warning_msb" / bits(64), "sensor_warning_lsb" / bits(64),
    c_name="mlx5_eqe_temp_warning",
)

eqe_pps = Prm(
    "eqe_pps",
    rsvd(24), "pin" / bits(8), rsvd(32), "time_stamp" / bits(64), rsvd(96),
    c_name="mlx5_eqe_pps",
)

eqe_page_req = Prm(
    "eqe_page_req",
    "ec_function" / Prm(
        "ec_function", "embedded_cpu_function" / bits(1), "release_all_pages" / bits(1), rsvd(14)
    ),
    "func_id" / bits(16), "num_pages" / bits(32), rsvd(32 * 5),
    c_name="mlx5_eqe_page_req",
)

eqe_vport_change = Prm(
    "eqe_vport_change",
    rsvd(16), "vport_num" / bits(16), rsvd(32 * 6),
    c_name="mlx5_eqe_vport_change",
)

eqe_vhca_state = Prm(
    "eqe_vhca_state",
    "ec_function" / bits(16), "function_id" / bits(16),
    c_name="mlx5_eqe_vhca_state",
)

pftype_wq = Prm(
    "pftype_wq",
    rsvd(5), "rdma" / bits(1), "write" / bits(1), "requestor" / bits(1), "wq" / bits(24),
)

pftype_token = Prm(
    "pftype_token",
    rsvd(5), "rdma" / bits(1), "write" / bits(1), "requestor" / bits(1), "token" / bits(24),
)

# The three forms of page-fault data (sub_type 0, 1, 2) are one union in the driver's structure.

eqe_page_fault_wqe = Prm(
    "eqe_page_fault_wqe",
    "bytes_committed" / bits(32), rsvd(16), "wqe_index" / bits(16), rsvd(16),
    "packet_length" / bits(16), "token" / bits(32), rsvd(64), "pftype_wq" / pftype_wq,
    c_name="mlx5_eqe_page_fault.wqe",
)

eqe_page_fault_rdma = Prm(
    "eqe_page_fault_rdma",
    "bytes_committed" / bits(32), "r_key" / bits(32), rsvd(16), "packet_length" / bits(16),
    "rdma_op_len" / bits(32), "rdma_va" / bits(64), "pftype_token" / pftype_token,
    c_name="mlx5_eqe_page_fault.rdma",
)

eqe_page_fault_memory = Prm(
    "eqe_page_fault_memory",
    "flags" / bits(8), rsvd(8), "post_demand_fault_pages" / bits(16),
    "pre_demand_fault_pages" / bits(16), "token47_32" / bits(16), "token31_0" / bits(32),
    "demand_fault_pages" / bits(32), "mkey" / bits(32), "va" / bits(64),
    c_name="mlx5_eqe_page_fault.memory",
)
