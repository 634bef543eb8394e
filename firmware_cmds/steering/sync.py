"""SYNC_STEERING: the driver takes memory of flow tables that it has emptied for something else.

Source: core/steering/dr_cmd.c: mlx5dr_cmd_sync_steering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import CmdError
from layouts.enums import Op, Status
from layouts.steering import sync as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@command(Op.SYNC_STEERING, layout.sync_steering_in, layout.sync_steering_out)
def sync_steering(hca: Hca, cmd: layout.SyncSteeringIn, out: layout.SyncSteeringOut) -> None:
    """Forget what has been read of steering entries. No packet is on its way meanwhile."""
    if hca.icm is None:
        raise CmdError(Status.BAD_OP_ERR, "no flow tables that software owns")
    hca.icm.changed()
