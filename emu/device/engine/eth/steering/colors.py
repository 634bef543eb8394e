"""Colours of packets: what a meter writes for the entries of later tables.

Source: mlx5_ifc.h: execute_aso; core/en/tc/act/police.c.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from emu.device.engine.eth.steering import rewrite
from emu.device.objects.eth.reshape import Step
from layouts.eth_enums import FlowTableType, MeterColor, ModifyAction, ModifyField
from layouts.steering.modify_header import set_action_in

_COLOR_BITS: Final = 8
"""Of a register: the driver matches so many (core/en/tc/post_meter.h: packet_color_to_reg)."""


@lru_cache
def marks_of(table_type: FlowTableType, register: int) -> tuple[Step, ...]:
    """By colour: it goes into the low bits of a register C, given by its number."""
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
