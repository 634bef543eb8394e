"""RoCE link of a function whose board has two ports: the master of a LAG uses both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from emu.device.port.eth.roce.gids import GidTable
from emu.device.port.eth.roce.link import RoceLink
from emu.device.port.eth.vport import NicVport
from emu.device.ports import NodeT
from layouts.enums.vport import VportAdminState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca


class LagLink(RoceLink, Generic[NodeT]):
    """Implements ``emu.device.port.link.Link``; up while at least one of the LAG's ports is up."""

    def __init__(self, vport: NicVport, gids: GidTable, vhca: Vhca[NodeT]) -> None:
        super().__init__(vport, gids)
        self._vhca = vhca

    @property
    def is_up(self) -> bool:
        """Whether RoCE is enabled on the vPort and a port that it uses is up.

        The port is the function's own one, or for the LAG's master that of any adapter of the
        board. The switch's manager may force the vPort's state, as ``NicVport.is_up`` says.
        """
        vport = self._vport
        if not vport.roce_en:
            return False
        if vport.is_up:
            return True
        if not vport.admin_up or vport.switch_state is not VportAdminState.AUTO:
            return False
        board = self._vhca.adapter.board
        if board.lag_of(self._vhca) is None:
            return False
        return any(
            other.manager.nic_vport is not None and other.manager.nic_vport.is_up
            for other in board.adapters
        )
