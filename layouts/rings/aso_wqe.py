"""WQE that changes an ASO (advanced steering operation) object: ACCESS_ASO.

    ctrl (16) | aso_ctrl (48) | data (64), if there is any

The control segment's ``imm`` is the object's number, its opmod the object's type.

Source: core/lib/aso.h, core/lib/aso.c.
"""

from __future__ import annotations

from layouts.prm import Prm, bits

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class wqe_aso_ctrl_seg(Prm, c_name="mlx5_wqe_aso_ctrl_seg"):
    va_h = bits(32); va_l = bits(32); l_key = bits(32)
    data_mask_mode = bits(8); condition_1_0_operand = bits(8); condition_1_0_offset = bits(8)
    data_offset_condition_operand = bits(8); condition_0_data = bits(32)
    condition_0_mask = bits(32); condition_1_data = bits(32); condition_1_mask = bits(32)
    bitwise_data = bits(64); data_mask = bits(64)

# fmt: on

READ_EN = 1
"""Bit of va_l: the old value of the object is written to this address first."""
ASO_DATA_BYTES = 64
FLOW_METER = 2
"""Value of opmod (MLX5_ACCESS_ASO_OPC_MOD_FLOW_METER)."""
BYTEWISE_64BYTE = 1
"""Value of data_mask_mode: a bit of the mask for each byte of the data, the highest for the
first.
"""
MASK_MODE_SHIFT = LOGICAL_SHIFT = 6
ALWAYS_FALSE, ALWAYS_TRUE = 0, 1
"""Operands of conditions."""
LOGICAL_AND, LOGICAL_OR = 0, 1
