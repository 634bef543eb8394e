"""Port selection of a LAG: the master's flow tables choose a packet's egress port.

The driver creates one table that separates packet types, and one table per type behind it. The
group of the latter splits packets by a hash (``emu.device.engine.eth.steering.hash_split``). Its
entries forward to the uplink of a port. When a port goes down, the driver changes these
destinations.

Source: core/lag/port_sel.c; mlx5_ifc.h: port_selection_cap, lagc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.eth.steering.packet_context import PacketContext, decision_on
from emu.device.objects.eth.flow.action import VportTarget
from emu.device.port.eth.headers import FrameError

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter
    from emu.device.port.eth.frame import Frame
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca


def selected(budget: Budget, adapter: Adapter[Hca], frame: Frame, port: int) -> int:
    """Return the port that the tables of the board's master choose, else ``port``.

    ``port`` is the result without a working master or tables, for incomplete headers, and when no
    entry leads to a vPort. The work is charged to ``budget``.
    """
    master = adapter.board.master.node
    if master is None or master.health.has_failed or master.port_sel.root is None:
        return port
    try:
        packet = PacketContext(frame, 0)
    except FrameError:
        return port
    decision = decision_on(master.port_sel, packet, packet.headers, budget)
    for target, _ in decision.deliveries:
        if isinstance(target, VportTarget):
            return target.port
    return port
