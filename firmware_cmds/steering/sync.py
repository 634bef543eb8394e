"""SYNC_STEERING: the driver is about to reuse the memory of emptied flow tables.

Source: core/steering/dr_cmd.c: mlx5dr_cmd_sync_steering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import CmdError
from layouts.enums.cmd import Op, Status
from layouts.steering import sync as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables


@command(Op.SYNC_STEERING)
def sync_steering(
    tables: ObjectTables, cmd: layout.sync_steering_in, out: layout.sync_steering_out
) -> None:
    """Drop all cached steering entries; no packet is in flight meanwhile.

    Refuse with BAD_OP_ERR on a function whose tables software cannot own.
    """
    if tables.icm is None:
        raise CmdError(Status.BAD_OP_ERR, "software cannot own flow tables on this function")
    tables.icm.changed()
