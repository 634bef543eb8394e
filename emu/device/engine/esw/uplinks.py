"""By which port of a LAG of switches packets leave, and whose forwarding database (FDB) they pass.

Both are what the LAG's map says of the port that the send queue has an affinity to, or else of the
port that it is for anyway. A queue with a strict affinity is one of an interface that talks to its
own link partner (LACP): that port stays. Where flow tables choose the port
(``emu.device.engine.lag.selection``) packets without an affinity pass them on their way to a cable,
and so do those whose port is not active.

Source: mlx5_ifc.h: lagc, tisc; core/en.h: mlx5e_create_tis, core/lag/lag.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.esw.sharing import switch_behind
from emu.device.engine.lag.selection import selected
from emu.device.port.eth.headers import UPLINK
from layouts.eth_enums import LagPortSelect

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.adapter.lag import Lag
    from emu.device.objects.eth.flow import FlowDomain, FlowTable
    from emu.device.port.eth.frame import Frame
    from emu.device.state.hca import Hca


def first_tables(
    manager: Hca, source_port: int, frame: Frame
) -> tuple[FlowDomain, FlowTable | None]:
    """The FDB that decides about a frame of a vPort, and where the frame begins there.

    None is the FDB's root.
    """
    eswitch, adapter = manager.eswitch, manager.adapter
    lag = adapter.board.lag
    if lag is not None and lag.of_switches and not lag.is_native and source_port != UPLINK:
        source = adapter.by_vport(source_port)
        port = _port_of(manager, lag, adapter.number, source, frame, frame)
        eswitch = switch_behind(manager, port) or eswitch
    assert eswitch is not None
    return eswitch.begin()


def leaves_by(manager: Hca, source_port: int, port: int, frame: Frame, what: Frame) -> int:
    """The port for a packet that an entry leads to the cable of ``port``.

    ``source_port`` is the vPort of the manager's switch that has sent ``frame``; ``what`` is the
    frame as it leaves.
    """
    adapter = manager.adapter
    lag = adapter.board.lag
    if lag is None or not lag.is_native:
        return port
    return _port_of(manager, lag, port, adapter.by_vport(source_port), frame, what)


def _port_of(
    manager: Hca, lag: Lag, port: int, source: Vhca[Hca] | None, frame: Frame, what: Frame
) -> int:
    """``source`` is the function that has sent ``frame``, None if that has come by a cable."""
    if lag.mode is LagPortSelect.PORT_SELECT_MPESW:
        return port
    node = source.node if source is not None else None
    sq = node.sqs.get(frame.sqn) if node is not None and frame.sqn else None
    tis = sq.tis if sq is not None else None
    if tis is not None and tis.ctx.strict_lag_tx_port_affinity:
        return port
    affinity = tis.affinity if tis is not None else 0
    if lag.mode is LagPortSelect.PORT_SELECT_FT:
        return affinity if lag.is_open(affinity) else selected(manager, what, port)
    return lag.port_of(affinity or port, frame.sqn)
