"""Geneve options that flow groups match: general objects.

Source: core/lib/geneve.c: mlx5_geneve_tlv_option_create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.geneve_option import GeneveOption
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.steering.geneve_option import geneve_tlv_option

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Add an option to the parser; return its number.

    The function has one option: a second raises LIM_ERR. Raises BAD_PARAM_ERR for a data length of
    0 or above max_geneve_tlv_option_data_len.
    """
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one Geneve option")
    obj = geneve_tlv_option.view(given_object(cmd.object, geneve_tlv_option.size))
    limit = int(tables.caps.general.max_geneve_tlv_option_data_len)
    if not 1 <= obj.option_data_length <= limit:
        raise BadParamError(
            "option_data_length above max_geneve_tlv_option_data_len, or 0",
            f"{obj.option_data_length}",
        )  # fmt: skip
    option = GeneveOption(obj.option_class, obj.option_type, obj.option_data_length)
    number = tables.objects[GeneveOption].add(option)
    tables.parse_geneve_option(option.header)
    return number


def destroy(tables: ObjectTables, number: int) -> None:
    """Remove the option from the parser."""
    tables.objects[GeneveOption].remove(number)
    tables.parse_geneve_option(None)
