"""Registers of quality of service: trust, priorities, ETS, receive buffers, DCBX.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, array, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class qcam_access_reg_cap_mask(Prm, c_name="mlx5_ifc_qcam_access_reg_cap_mask"):
    _ = rsvd(108); qpdpm = bits(1); _ = rsvd(15); qdpm = bits(1); qpts = bits(1); qcap = bits(1)
    _ = rsvd(1)

class qpts_reg(Prm): _ = rsvd(8); local_port = bits(8); _ = rsvd(45); trust_state = bits(3)
class qpdpm_dscp_reg(Prm): e = bits(1); _ = rsvd(11); prio = bits(4)

class qpdpm_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(16); dscp = array(64, nested(qpdpm_dscp_reg))

class ets_tcn_config_reg(Prm):
    g = bits(1); b = bits(1); r = bits(1); _ = rsvd(9); group = bits(4); _ = rsvd(9)
    bw_allocation = bits(7)
    _ = rsvd(12); max_bw_units = bits(4); _ = rsvd(8); max_bw_value = bits(8)

class ets_global_config_reg(Prm):
    _ = rsvd(2); r = bits(1); _ = rsvd(41); max_bw_units = bits(4); _ = rsvd(8)
    max_bw_value = bits(8)

class qetc_reg(Prm):
    _ = rsvd(8); port_number = bits(8); _ = rsvd(48)
    tc_configuration = array(8, nested(ets_tcn_config_reg))
    global_configuration = nested(ets_global_config_reg)

class qtct_reg(Prm):
    _ = rsvd(8); port_number = bits(8); _ = rsvd(13); prio = bits(3); _ = rsvd(29); tclass = bits(3)

class dcbx_param(Prm):
    dcbx_cee_cap = bits(1); dcbx_ieee_cap = bits(1); dcbx_standby_cap = bits(1); _ = rsvd(5)
    port_number = bits(8); _ = rsvd(10); max_application_table_size = bits(6)
    _ = rsvd(21); version_oper = bits(3); _ = rsvd(5); version_admin = bits(3)
    willing_admin = bits(1); _ = rsvd(3); pfc_cap_oper = bits(4); _ = rsvd(4)
    pfc_cap_admin = bits(4); _ = rsvd(4); num_of_tc_oper = bits(4); _ = rsvd(4)
    num_of_tc_admin = bits(4)
    remote_willing = bits(1); _ = rsvd(3); remote_pfc_cap = bits(4); _ = rsvd(20)
    remote_num_of_tc = bits(4); _ = rsvd(24); error = bits(8); _ = rsvd(352)

class pptb_reg(Prm):
    _ = rsvd(2); mm = bits(2); _ = rsvd(4); local_port = bits(8); _ = rsvd(6); cm = bits(1)
    um = bits(1); pm = bits(8); prio_x_buff = bits(32)
    pm_msb = bits(8); _ = rsvd(16); ctrl_buff = bits(4); untagged_buff = bits(4)

class bufferx_reg(Prm):
    _ = rsvd(6); lossy = bits(1); epsb = bits(1); _ = rsvd(8); size = bits(16)
    xoff_threshold = bits(16); xon_threshold = bits(16)

class pbmc_reg(Prm):
    _ = rsvd(8); local_port = bits(8); _ = rsvd(16)
    xoff_timer_value = bits(16); xoff_refresh = bits(16)
    _ = rsvd(9); fullness_threshold = bits(7); port_buffer_size = bits(16)
    buffer = array(10, nested(bufferx_reg)); _ = rsvd(128)

class sbcam_reg(Prm):
    _ = rsvd(8); feature_group = bits(8); _ = rsvd(8); access_reg_group = bits(8); _ = rsvd(32)
    sb_access_reg_cap_mask = array(4, bits(32)); _ = rsvd(128)
    sb_feature_cap_mask = array(4, bits(32)); _ = rsvd(64); cap_total_buffer_size = bits(32)
    cap_cell_size = bits(16); cap_max_pg_buffers = bits(8); cap_num_pool_supported = bits(8)
    _ = rsvd(8); cap_sbsr_stat_size = bits(8); cap_max_tclass_data = bits(8)
    cap_max_cpu_ingress_tclass_sb = bits(8)

class sbpr_reg(Prm):
    desc = bits(1); snap = bits(1); _ = rsvd(4); dir = bits(2); _ = rsvd(20); pool = bits(4)
    infi_size = bits(1); _ = rsvd(7); size = bits(24); _ = rsvd(28); mode = bits(4)
    _ = rsvd(8); buff_occupancy = bits(24)
    clr = bits(1); _ = rsvd(7); max_buff_occupancy = bits(24)
    _ = rsvd(8); ext_buff_occupancy = bits(24)

class sbcm_reg(Prm):
    desc = bits(1); snap = bits(1); _ = rsvd(6); local_port = bits(8); pnat = bits(2)
    pg_buff = bits(6); _ = rsvd(6); dir = bits(2); _ = rsvd(31); exc = bits(1)
    _ = rsvd(72); buff_occupancy = bits(24)
    clr = bits(1); _ = rsvd(7); max_buff_occupancy = bits(24); _ = rsvd(8); min_buff = bits(24)
    infi_max = bits(1); _ = rsvd(7); max_buff = bits(24); _ = rsvd(60); pool = bits(4)
