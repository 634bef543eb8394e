"""Port and FDB of a packet when the board's switches are in a LAG.

Both follow from the LAG's port map. Its input is the send queue's port affinity, or else the
packet's own port. A queue with strict affinity keeps its port: its interface talks to its own link
partner (LACP). With port selection by flow tables (``emu.device.engine.lag.selection``), packets
without an affinity pass these tables before they reach the uplink. The same holds for packets whose
port is inactive.

Source: mlx5_ifc.h: lagc, tisc; core/en.h: mlx5e_create_tis, core/lag/lag.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.esw.sharing import switch_behind
from emu.device.engine.lag.selection import selected
from emu.device.port.eth.headers import UPLINK
from layouts.enums.lag import LagPortSelect

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca
    from emu.device.adapter.lag import Lag
    from emu.device.objects.eth.flow.domain import FlowDomain
    from emu.device.objects.eth.flow.table import FlowTable
    from emu.device.port.eth.frame import Frame
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca


def first_tables(
    manager: Hca, source_port: int, frame: Frame
) -> tuple[FlowDomain, FlowTable | None]:
    """Return the FDB for a frame of a vPort, and its first table; None is the FDB's root.

    In a LAG of switches without native selection, the LAG's map chooses whose FDB a vPort's frame
    passes. Frames from the uplink, and all others, pass the FDB of their own switch.
    """
    eswitch, adapter = manager.eswitch, manager.adapter
    lag = adapter.board.lag
    if lag is not None and lag.of_switches and not lag.is_native and source_port != UPLINK:
        source = adapter.by_vport(source_port)
        port = _port_of(manager.budget, manager.adapter, lag, adapter.number, source, frame, frame)
        eswitch = switch_behind(manager.adapter, manager.eswitch, port) or eswitch
    assert eswitch is not None
    return eswitch.begin()


def leaves_by(
    budget: Budget, adapter: Adapter[Hca], source_port: int, port: int, frame: Frame, what: Frame
) -> int:
    """Return the egress port of a packet that an entry forwards to the uplink of ``port``.

    The result is ``port`` unless a LAG has native selection. ``source_port`` is the vPort of the
    manager's switch that sent ``frame``; ``what`` is the frame after the pipeline's changes.
    """
    lag = adapter.board.lag
    if lag is None or not lag.is_native:
        return port
    return _port_of(budget, adapter, lag, port, adapter.by_vport(source_port), frame, what)


def _port_of(
    budget: Budget,
    adapter: Adapter[Hca],
    lag: Lag,
    port: int,
    source: Vhca[Hca] | None,
    frame: Frame,
    what: Frame,
) -> int:
    """Return the LAG's port for a frame; ``source`` is its sender, None if a cable delivered it.

    The result is ``port`` in MPESW mode and for a TIS with strict affinity. Otherwise the port
    follows from the map, or from the port selection tables.
    """
    if lag.mode is LagPortSelect.PORT_SELECT_MPESW:
        return port
    node = source.node if source is not None else None
    sq = node.sqs.get(frame.sqn) if node is not None and frame.sqn else None
    tis = sq.tis if sq is not None else None
    if tis is not None and tis.is_strict:
        return port
    affinity = tis.affinity if tis is not None else 0
    if sq is None and node is not None and (qp := node.qps.get(frame.sqn)) is not None:
        affinity = qp.lag_affinity
    if lag.mode is LagPortSelect.PORT_SELECT_FT:
        return affinity if lag.is_open(affinity) else selected(budget, adapter, what, port)
    return lag.port_of(affinity or port, frame.sqn)
