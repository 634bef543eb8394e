"""Registers of the plugged module: its lanes, and its EEPROM.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

lane_2_module_mapping = Prm(
    "lane_2_module_mapping",
    rsvd(4), "rx_lane" / bits(4), rsvd(4), "tx_lane" / bits(4), rsvd(8), "module" / bits(8),
)

pmlp_reg = Prm(
    "pmlp_reg",
    "rxtx" / bits(1), rsvd(7), "local_port" / bits(8), rsvd(8), "width" / bits(8),
    "lane0_module_mapping" / bits(32), "lane1_module_mapping" / bits(32),
    "lane2_module_mapping" / bits(32), "lane3_module_mapping" / bits(32), rsvd(352),
)

pmaos_reg = Prm(
    "pmaos_reg",
    rsvd(8), "module" / bits(8), rsvd(4), "admin_status" / bits(4), rsvd(4),
    "oper_status" / bits(4), "ase" / bits(1), "ee" / bits(1), rsvd(28), "e" / bits(2), rsvd(64),
)

mcia_reg = Prm(
    "mcia_reg",
    "l" / bits(1), rsvd(7), "module" / bits(8), rsvd(8), "status" / bits(8),
    "i2c_device_address" / bits(8), "page_number" / bits(8), "device_address" / bits(16), rsvd(16),
    "size" / bits(16), rsvd(32), "dwords" / octets(128),
)

mtcap_reg = Prm("mtcap_reg", rsvd(25), "sensor_count" / bits(7), rsvd(32), "sensor_map" / bits(64))

mtmp_reg = Prm(
    "mtmp_reg",
    rsvd(20), "sensor_index" / bits(12), rsvd(16), "temperature" / bits(16), "mte" / bits(1),
    "mtr" / bits(1), rsvd(14), "max_temperature" / bits(16), "tee" / bits(2), rsvd(14),
    "temp_threshold_hi" / bits(16), rsvd(16), "temp_threshold_lo" / bits(16), rsvd(32),
    "sensor_name_hi" / bits(32), "sensor_name_lo" / bits(32),
)
