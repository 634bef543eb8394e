"""Colors of packets: the values that a meter writes for the entries of later tables.

Source: mlx5_ifc.h: execute_aso; core/en/tc/act/police.c.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from emu.device.engine.eth.steering import rewrite
from emu.device.objects.eth.reshape import Step
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import MeterColor
from layouts.enums.modify_header import ModifyAction, ModifyField
from layouts.steering.modify_header import set_action_in

_COLOR_BITS: Final = 8
"""Bits of the register that the driver matches (core/en/tc/post_meter.h: packet_color_to_reg)."""


@lru_cache
def marks_of(table_type: FlowTableType, register: int) -> tuple[Step, ...]:
    """Return for each meter color, in order, the step that writes it to register C ``register``.

    The step changes the register's low 8 bits.
    """
    field = ModifyField.METADATA_REG_C_0 + register
    actions = (
        bytes(
            set_action_in.new(
                action_type=ModifyAction.SET, field=field, length=_COLOR_BITS, data=color
            )
        )
        for color in MeterColor
    )
    return tuple(rewrite.context_of(table_type, [action]) for action in actions)
