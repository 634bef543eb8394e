"""Registers of the plugged module: its lanes, and its EEPROM.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class lane_2_module_mapping(Prm):
    _ = rsvd(4); rx_lane = bits(4); _ = rsvd(4); tx_lane = bits(4); _ = rsvd(8); module = bits(8)

class pmlp_reg(Prm):
    rxtx = bits(1); _ = rsvd(7); local_port = bits(8); _ = rsvd(8); width = bits(8)
    lane0_module_mapping = bits(32); lane1_module_mapping = bits(32)
    lane2_module_mapping = bits(32); lane3_module_mapping = bits(32); _ = rsvd(352)

class pmaos_reg(Prm):
    _ = rsvd(8); module = bits(8); _ = rsvd(4); admin_status = bits(4); _ = rsvd(4)
    oper_status = bits(4); ase = bits(1); ee = bits(1); _ = rsvd(28); e = bits(2); _ = rsvd(64)

class mcia_reg(Prm):
    l = bits(1); _ = rsvd(7); module = bits(8); _ = rsvd(8); status = bits(8)
    i2c_device_address = bits(8); page_number = bits(8); device_address = bits(16)
    _ = rsvd(16); size = bits(16); _ = rsvd(32); dwords = octets(128)

class mtcap_reg(Prm):
    _ = rsvd(25); sensor_count = bits(7); _ = rsvd(24); internal_sensor_count = bits(8)
    sensor_map = bits(64)

class mtmp_reg(Prm):
    i = bits(1); _ = rsvd(19); sensor_index = bits(12); _ = rsvd(16); temperature = bits(16)
    mte = bits(1); mtr = bits(1); _ = rsvd(14); max_temperature = bits(16)
    tee = bits(2); _ = rsvd(14); temp_threshold_hi = bits(16)
    _ = rsvd(16); temp_threshold_lo = bits(16); _ = rsvd(32); sensor_name_hi = bits(32)
    sensor_name_lo = bits(32)
