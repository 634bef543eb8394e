# Written by scripts/gen-view-types from nv_regs.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class ConfigItem(View):
    valid: int
    priority: int
    header_type: int
    ovr_en: int
    rd_en: int
    access_mode: int
    writer_id: int
    version: int
    host_id_valid: int
    length: int
    type: int
    crc16: int

config_item: Prm[ConfigItem]

class MnvdaReg(View):
    configuration_item_header: Nested[ConfigItem]
    configuration_item_data: Octets

mnvda_reg: Prm[MnvdaReg]
