"""Registers of quality of service: trust, priorities, ETS, receive buffers, DCBX.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

qcam_access_reg_cap_mask = Prm(
    "qcam_access_reg_cap_mask",
    rsvd(108), "qpdpm" / bits(1), rsvd(15), "qdpm" / bits(1), "qpts" / bits(1), "qcap" / bits(1),
    rsvd(1),
    c_name="mlx5_ifc_qcam_access_reg_cap_mask",
)

qpts_reg = Prm("qpts_reg", rsvd(8), "local_port" / bits(8), rsvd(45), "trust_state" / bits(3))
qpdpm_dscp_reg = Prm("qpdpm_dscp_reg", "e" / bits(1), rsvd(11), "prio" / bits(4))

qpdpm_reg = Prm(
    "qpdpm_reg",
    rsvd(8), "local_port" / bits(8), rsvd(16), "dscp" / array(64, qpdpm_dscp_reg),
)

ets_tcn_config_reg = Prm(
    "ets_tcn_config_reg",
    "g" / bits(1), "b" / bits(1), "r" / bits(1), rsvd(9), "group" / bits(4), rsvd(9),
    "bw_allocation" / bits(7), rsvd(12), "max_bw_units" / bits(4), rsvd(8),
    "max_bw_value" / bits(8),
)

ets_global_config_reg = Prm(
    "ets_global_config_reg",
    rsvd(2), "r" / bits(1), rsvd(41), "max_bw_units" / bits(4), rsvd(8), "max_bw_value" / bits(8),
)

qetc_reg = Prm(
    "qetc_reg",
    rsvd(8), "port_number" / bits(8), rsvd(48), "tc_configuration" / array(8, ets_tcn_config_reg),
    "global_configuration" / ets_global_config_reg,
)

qtct_reg = Prm(
    "qtct_reg",
    rsvd(8), "port_number" / bits(8), rsvd(13), "prio" / bits(3), rsvd(29), "tclass" / bits(3),
)

dcbx_param = Prm(
    "dcbx_param",
    "dcbx_cee_cap" / bits(1), "dcbx_ieee_cap" / bits(1), "dcbx_standby_cap" / bits(1), rsvd(5),
    "port_number" / bits(8), rsvd(10), "max_application_table_size" / bits(6), rsvd(21),
    "version_oper" / bits(3), rsvd(5), "version_admin" / bits(3), "willing_admin" / bits(1),
    rsvd(3), "pfc_cap_oper" / bits(4), rsvd(4), "pfc_cap_admin" / bits(4), rsvd(4),
    "num_of_tc_oper" / bits(4), rsvd(4), "num_of_tc_admin" / bits(4), "remote_willing" / bits(1),
    rsvd(3), "remote_pfc_cap" / bits(4), rsvd(20), "remote_num_of_tc" / bits(4), rsvd(24),
    "error" / bits(8), rsvd(352),
)

pptb_reg = Prm(
    "pptb_reg",
    rsvd(2), "mm" / bits(2), rsvd(4), "local_port" / bits(8), rsvd(6), "cm" / bits(1),
    "um" / bits(1), "pm" / bits(8), "prio_x_buff" / bits(32), "pm_msb" / bits(8), rsvd(16),
    "ctrl_buff" / bits(4), "untagged_buff" / bits(4),
)

bufferx_reg = Prm(
    "bufferx_reg",
    rsvd(6), "lossy" / bits(1), "epsb" / bits(1), rsvd(8), "size" / bits(16),
    "xoff_threshold" / bits(16), "xon_threshold" / bits(16),
)

pbmc_reg = Prm(
    "pbmc_reg",
    rsvd(8), "local_port" / bits(8), rsvd(16), "xoff_timer_value" / bits(16),
    "xoff_refresh" / bits(16), rsvd(9), "fullness_threshold" / bits(7),
    "port_buffer_size" / bits(16), "buffer" / array(10, bufferx_reg), rsvd(128),
)

sbcam_reg = Prm(
    "sbcam_reg",
    rsvd(8), "feature_group" / bits(8), rsvd(8), "access_reg_group" / bits(8), rsvd(32),
    "sb_access_reg_cap_mask" / array(4, bits(32)), rsvd(128),
    "sb_feature_cap_mask" / array(4, bits(32)), rsvd(64), "cap_total_buffer_size" / bits(32),
    "cap_cell_size" / bits(16), "cap_max_pg_buffers" / bits(8), "cap_num_pool_supported" / bits(8),
    rsvd(8), "cap_sbsr_stat_size" / bits(8), "cap_max_tclass_data" / bits(8),
    "cap_max_cpu_ingress_tclass_sb" / bits(8),
)

sbpr_reg = Prm(
    "sbpr_reg",
    "desc" / bits(1), "snap" / bits(1), rsvd(4), "dir" / bits(2), rsvd(20), "pool" / bits(4),
    "infi_size" / bits(1), rsvd(7), "size" / bits(24), rsvd(28), "mode" / bits(4), rsvd(8),
    "buff_occupancy" / bits(24), "clr" / bits(1), rsvd(7), "max_buff_occupancy" / bits(24), rsvd(8),
    "ext_buff_occupancy" / bits(24),
)

sbcm_reg = Prm(
    "sbcm_reg",
    "desc" / bits(1), "snap" / bits(1), rsvd(6), "local_port" / bits(8), "pnat" / bits(2),
    "pg_buff" / bits(6), rsvd(6), "dir" / bits(2), rsvd(31), "exc" / bits(1), rsvd(72),
    "buff_occupancy" / bits(24), "clr" / bits(1), rsvd(7), "max_buff_occupancy" / bits(24), rsvd(8),
    "min_buff" / bits(24), "infi_max" / bits(1), rsvd(7), "max_buff" / bits(24), rsvd(60),
    "pool" / bits(4),
)
