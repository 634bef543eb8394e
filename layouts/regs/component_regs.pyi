# Written by scripts/gen-view-types from component_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Octets
from layouts.prm import Prm

class McqsReg(View):
    last_index_flag: int
    fw_device: int
    component_index: int
    identifier: int
    component_status: int
    component_update_state: int
    last_update_state_changer_type: int
    last_update_state_changer_host_id: int

mcqs_reg: Prm[McqsReg]

class McqiReg(View):
    read_pending_component: int
    component_index: int
    info_type: int
    info_size: int
    offset: int
    data_size: int
    data: Items[int]

mcqi_reg: Prm[McqiReg]

class McqiCap(View):
    supported_info_bitmask: int
    component_size: int
    max_component_size: int
    log_mcda_word_size: int
    mcda_max_write_size: int
    rd_en: int
    match_chip_id: int
    match_psid: int
    check_user_timestamp: int
    match_base_guid_mac: int

mcqi_cap: Prm[McqiCap]

class McqiVersion(View):
    build_time_valid: int
    user_defined_time_valid: int
    version_string_length: int
    version: int
    build_time: int
    user_defined_time: int
    build_tool_version: int
    version_string: Octets

mcqi_version: Prm[McqiVersion]

class MfrlReg(View):
    pci_sync_for_fw_update_start: int
    pci_sync_for_fw_update_resp: int
    rst_type_sel: int
    pci_reset_req_method: int
    reset_state: int
    reset_type: int
    reset_level: int

mfrl_reg: Prm[MfrlReg]

class MgirReg(View):
    device_hw_revision: int
    device_id: int
    num_ports: int
    hw_dev_id: int
    manufacturing_base_mac: int
    uptime: int
    major: int
    minor: int
    sub_minor: int
    build_id: int
    month: int
    day: int
    year: int
    hour: int
    psid: Octets
    ini_file_version: int
    extended_major: int
    extended_minor: int
    extended_sub_minor: int

mgir_reg: Prm[MgirReg]
