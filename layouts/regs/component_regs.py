"""Registers about the components of the firmware: their list and their versions.

Names and widths: mlx5_ifc.h of Linux 6.12; mgir_reg, which the driver does not read, follows
reg_access_hca_layouts.h of mstflint.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mcqs_reg(Prm):
    last_index_flag = bits(1); _ = rsvd(7); fw_device = bits(8); component_index = bits(16)
    _ = rsvd(16); identifier = bits(16)
    _ = rsvd(23); component_status = bits(5); component_update_state = bits(4)
    last_update_state_changer_type = bits(4); last_update_state_changer_host_id = bits(4)
    _ = rsvd(24)

class mcqi_reg(Prm):
    read_pending_component = bits(1); _ = rsvd(15); component_index = bits(16); _ = rsvd(32)
    _ = rsvd(27); info_type = bits(5); info_size = bits(32); offset = bits(32)
    _ = rsvd(16); data_size = bits(16)
    data = tail(bits(32))  # by info_type, one of the structures below

class mcqi_cap(Prm):
    supported_info_bitmask = bits(32); component_size = bits(32); max_component_size = bits(32)
    log_mcda_word_size = bits(4); _ = rsvd(12); mcda_max_write_size = bits(16)
    rd_en = bits(1); _ = rsvd(1); match_chip_id = bits(1); match_psid = bits(1)
    check_user_timestamp = bits(1); match_base_guid_mac = bits(1); _ = rsvd(26)

class mcqi_version(Prm):
    _ = rsvd(2); build_time_valid = bits(1); user_defined_time_valid = bits(1); _ = rsvd(20)
    version_string_length = bits(8); version = bits(32); build_time = bits(64)
    user_defined_time = bits(64); build_tool_version = bits(32); _ = rsvd(32)
    version_string = octets(92)

class mfrl_reg(Prm):
    _ = rsvd(34); pci_sync_for_fw_update_start = bits(1); pci_sync_for_fw_update_resp = bits(2)
    rst_type_sel = bits(3); pci_reset_req_method = bits(3); _ = rsvd(1); reset_state = bits(4)
    reset_type = bits(8); reset_level = bits(8)

class mgir_reg(Prm):
    # hw_info
    device_hw_revision = bits(16); device_id = bits(16)
    _ = rsvd(4); num_ports = bits(12); _ = rsvd(16); _ = rsvd(16); hw_dev_id = bits(16)
    _ = rsvd(32); _ = rsvd(16); manufacturing_base_mac = bits(48); _ = rsvd(32); uptime = bits(32)
    # fw_info
    _ = rsvd(8); major = bits(8); minor = bits(8); sub_minor = bits(8); build_id = bits(32)
    month = bits(8); day = bits(8); year = bits(16); _ = rsvd(16); hour = bits(16)
    psid = octets(16); ini_file_version = bits(32); extended_major = bits(32)
    extended_minor = bits(32); extended_sub_minor = bits(32); _ = rsvd(128)
    # sw_info, dev_info
    _ = rsvd(512)
