# Written by scripts/gen-view-types from qos_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class QcamAccessRegCapMask(View):
    qpdpm: int
    qdpm: int
    qpts: int
    qcap: int

qcam_access_reg_cap_mask: Prm[QcamAccessRegCapMask]

class QptsReg(View):
    local_port: int
    trust_state: int

qpts_reg: Prm[QptsReg]

class QpdpmDscpReg(View):
    e: int
    prio: int

qpdpm_dscp_reg: Prm[QpdpmDscpReg]

class QpdpmReg(View):
    local_port: int
    dscp: Items[QpdpmDscpReg]

qpdpm_reg: Prm[QpdpmReg]

class EtsTcnConfigReg(View):
    g: int
    b: int
    r: int
    group: int
    bw_allocation: int
    max_bw_units: int
    max_bw_value: int

ets_tcn_config_reg: Prm[EtsTcnConfigReg]

class EtsGlobalConfigReg(View):
    r: int
    max_bw_units: int
    max_bw_value: int

ets_global_config_reg: Prm[EtsGlobalConfigReg]

class QetcReg(View):
    port_number: int
    tc_configuration: Items[EtsTcnConfigReg]
    global_configuration: Nested[EtsGlobalConfigReg]

qetc_reg: Prm[QetcReg]

class QtctReg(View):
    port_number: int
    prio: int
    tclass: int

qtct_reg: Prm[QtctReg]

class DcbxParam(View):
    dcbx_cee_cap: int
    dcbx_ieee_cap: int
    dcbx_standby_cap: int
    port_number: int
    max_application_table_size: int
    version_oper: int
    version_admin: int
    willing_admin: int
    pfc_cap_oper: int
    pfc_cap_admin: int
    num_of_tc_oper: int
    num_of_tc_admin: int
    remote_willing: int
    remote_pfc_cap: int
    remote_num_of_tc: int
    error: int

dcbx_param: Prm[DcbxParam]

class PptbReg(View):
    mm: int
    local_port: int
    cm: int
    um: int
    pm: int
    prio_x_buff: int
    pm_msb: int
    ctrl_buff: int
    untagged_buff: int

pptb_reg: Prm[PptbReg]

class BufferxReg(View):
    lossy: int
    epsb: int
    size: int
    xoff_threshold: int
    xon_threshold: int

bufferx_reg: Prm[BufferxReg]

class PbmcReg(View):
    local_port: int
    xoff_timer_value: int
    xoff_refresh: int
    fullness_threshold: int
    port_buffer_size: int
    buffer: Items[BufferxReg]

pbmc_reg: Prm[PbmcReg]

class SbcamReg(View):
    feature_group: int
    access_reg_group: int
    sb_access_reg_cap_mask: Items[int]
    sb_feature_cap_mask: Items[int]
    cap_total_buffer_size: int
    cap_cell_size: int
    cap_max_pg_buffers: int
    cap_num_pool_supported: int
    cap_sbsr_stat_size: int
    cap_max_tclass_data: int
    cap_max_cpu_ingress_tclass_sb: int

sbcam_reg: Prm[SbcamReg]

class SbprReg(View):
    desc: int
    snap: int
    dir: int
    pool: int
    infi_size: int
    size: int
    mode: int
    buff_occupancy: int
    clr: int
    max_buff_occupancy: int
    ext_buff_occupancy: int

sbpr_reg: Prm[SbprReg]

class SbcmReg(View):
    desc: int
    snap: int
    local_port: int
    pnat: int
    pg_buff: int
    dir: int
    exc: int
    buff_occupancy: int
    clr: int
    max_buff_occupancy: int
    min_buff: int
    infi_max: int
    max_buff: int
    pool: int

sbcm_reg: Prm[SbcmReg]
