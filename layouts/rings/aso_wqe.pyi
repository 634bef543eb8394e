# Written by scripts/gen-view-types from aso_wqe.py; a test fails when it is stale.

from typing import Final

from layouts.codec import View
from layouts.prm import Prm

READ_EN: Final = 1
ASO_DATA_BYTES: Final = 64
FLOW_METER: Final = 2
BYTEWISE_64BYTE: Final = 1
MASK_MODE_SHIFT: Final = 6
LOGICAL_SHIFT: Final = 6
ALWAYS_FALSE: Final = 0
ALWAYS_TRUE: Final = 1
LOGICAL_AND: Final = 0
LOGICAL_OR: Final = 1

class WqeAsoCtrlSeg(View):
    va_h: int
    va_l: int
    l_key: int
    data_mask_mode: int
    condition_1_0_operand: int
    condition_1_0_offset: int
    data_offset_condition_operand: int
    condition_0_data: int
    condition_0_mask: int
    condition_1_data: int
    condition_1_mask: int
    bitwise_data: int
    data_mask: int

wqe_aso_ctrl_seg: Prm[WqeAsoCtrlSeg]
