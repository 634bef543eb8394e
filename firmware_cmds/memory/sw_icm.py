"""Software ICM: general objects, ranges of memory that drivers write flow tables into.

Source: core/lib/dm.c: mlx5_dm_sw_icm_alloc, mlx5_dm_sw_icm_dealloc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.sw_icm import AREAS, LOG_BLOCK, SwIcm, free_each
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.memory.sw_icm import sw_icm

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Allocate the range that the driver has chosen; the driver itself tracks free blocks.

    Refused with NO_RES_ERR when any block is taken. Return the object's number. Raises
    BAD_PARAM_ERR for a range outside the areas or not in whole blocks, LIM_ERR for log_obj_range.
    """
    given = sw_icm.view(given_object(cmd.object, sw_icm.size))
    start, log_size = given.sw_icm_start_addr, given.log_sw_icm_size
    memory = tables.icm
    assert memory is not None  # the type is not advertised without
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one range", f"{1 << cmd.log_obj_range}")
    if log_size < LOG_BLOCK or start % (1 << LOG_BLOCK):
        raise BadParamError("software ICM is not in whole blocks", f"{start:#x}, {log_size}")
    if log_size >= 64 or not any(area.has(start, 1 << log_size) for area in AREAS):
        raise BadParamError("software ICM lies outside its areas", f"{start:#x}, {log_size}")
    if not memory.is_free(start, 1 << log_size):
        raise CmdError(Status.NO_RES_ERR, "software ICM is not free", f"{start:#x}, {log_size}")
    icm = SwIcm(start, log_size)
    number = tables.objects[SwIcm].add(icm)
    memory.take(icm)
    return number


def destroy(hca: Hca, number: int) -> None:
    """Free a range that no memory key covers, and discard its contents; pages in later rounds.

    Raises BAD_RES_STATE_ERR while a key covers the range, and for an unknown number. Cached
    steering entries are dropped.
    """
    icm = hca.objects[SwIcm].remove(number)
    assert hca.icm is not None
    if pages := hca.icm.give_back(icm):
        hca.deferred_free.add_work(free_each(pages))
