"""Link aggregation (PRM "LAG"): an adapter with one port has none, and says so.

Processes ask before they choose a port for each queue pair (UCX:
ib_mlx5dv_md.c:uct_ib_mlx5_devx_query_lag).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from layouts.enums import Op
from layouts.function import lag as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

NOT_ACTIVE = 0


@command(Op.QUERY_LAG, layout.query_lag_in, layout.query_lag_out)
def query_lag(hca: Hca, cmd: layout.QueryLagIn, out: layout.QueryLagOut) -> None:
    """Return that no LAG is active and queue pairs have no affinity to a port."""
    out.ctx.lag_state = NOT_ACTIVE
