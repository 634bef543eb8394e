"""The adapter and the wire of a new function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.adapter.board import Board
from emu.device.adapter.switch import PlainSwitch
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.engine.eth.roce_wire import RoceWire
from emu.device.engine.lag.arrive import arrive as arrive_at_board
from emu.device.engine.lag.wire import LagWire
from emu.device.port.eth.no_wire import NoWire
from emu.device.port.eth.wire import EthWire
from emu.device.port.ib.wire import IbWire
from emu.device.state.hca import Hca
from layouts.enums.caps import PortType

if TYPE_CHECKING:
    from emu.device.models import Model


def own_vhca(
    model: Model, guid: int, uplink: EthWire[Hca] | None, board: Board[Hca] | None
) -> Vhca[Hca]:
    """Return the manager of a new adapter, which is the next port of ``board`` if that is given.

    ``uplink`` is the wire of the adapter's Ethernet port.
    """
    has_tables = model.general.get("eswitch_manager", 0)
    switch = (EmbeddedSwitch if has_tables else PlainSwitch)(
        uplink if uplink is not None else NoWire(), arrive if board is None else arrive_at_board
    )
    return Adapter(model, guid, switch, board).manager


def wire_of(port_type: PortType, vhca: Vhca[Hca], wire: IbWire[Hca] | None) -> IbWire[Hca]:
    """Return the wire of a function's transport packets: ``wire``, but frames on Ethernet.

    Raises ValueError for an InfiniBand function without a wire.
    """
    if port_type is PortType.ETH:
        roce = RoceWire(vhca.adapter.switch.segment_of(vhca))
        is_on_board = vhca.is_manager and vhca.adapter.board.max_ports > 1
        return LagWire(vhca, roce) if is_on_board else roce
    if wire is None:
        raise ValueError("an InfiniBand function needs a wire")
    return wire
