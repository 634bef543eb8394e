"""Register of the adapter's non-volatile configuration.

Names and widths: core/lib/nv_param.c of Linux 7.2, the first to read it; mlx5_ifc.h does not have
it.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

# type is a class (8 bits) and class-specific bits: configuration_item_type_class_*.
config_item = Prm(
    "config_item",
    "valid" / bits(2), "priority" / bits(2), "header_type" / bits(2), "ovr_en" / bits(1),
    "rd_en" / bits(1), "access_mode" / bits(2), rsvd(1), "writer_id" / bits(5),
    "version" / bits(4), rsvd(2), "host_id_valid" / bits(1), "length" / bits(9),
    "type" / bits(32), rsvd(16), "crc16" / bits(16),
)

mnvda_reg = Prm(
    "mnvda_reg",
    "configuration_item_header" / config_item, "configuration_item_data" / octets(256),
)
