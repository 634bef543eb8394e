"""Register of the adapter's non-volatile configuration.

Names and widths: core/lib/nv_param.c of Linux 7.2, the first to read it; mlx5_ifc.h does not have
it.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

# type is a class (8 bits) and class-specific bits: configuration_item_type_class_*.
class config_item(Prm):
    valid = bits(2); priority = bits(2); header_type = bits(2); ovr_en = bits(1); rd_en = bits(1)
    access_mode = bits(2); _ = rsvd(1); writer_id = bits(5); version = bits(4); _ = rsvd(2)
    host_id_valid = bits(1); length = bits(9); type = bits(32); _ = rsvd(16); crc16 = bits(16)

class mnvda_reg(Prm):
    configuration_item_header = nested(config_item); configuration_item_data = octets(256)
