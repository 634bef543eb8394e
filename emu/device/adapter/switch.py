"""The switch between the vPorts of an adapter and the cable of its physical port.

Frames of a function pass from its vPort to ``forward``. Frames from the cable pass to ``receive``,
which delivers them to vPorts (``emu.device.adapter.adapter.Switch``). The plain switch has one
vPort, the manager's; an embedded switch (E-Switch: ``emu.device.engine.esw``) has several and
routes frames by tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from emu.device.adapter.adapter import Vhca
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.traffic import Direction
from emu.device.port.eth.wire import EthWire
from emu.device.ports import NodeT

Deliver = Callable[[NodeT, Frame], None]
"""Delivers a frame to a function and does not raise (``emu.device.engine.eth.receive.arrive``)."""


class PlainSwitch(Generic[NodeT]):
    """Implements :class:`emu.device.adapter.adapter.Switch`: the manager's vPort, and the cable.

    The plain switch has no tables and no backlog. The vPort of another function is not connected.
    """

    def __init__(self, uplink: EthWire[NodeT], deliver: Deliver[NodeT]) -> None:
        self.uplink = uplink
        self._deliver = deliver
        self._vhca: Vhca[NodeT] | None = None
        self.forward = uplink.transmit
        self.receive: Callable[[Frame], None] = lose

    def segment_of(self, vhca: Vhca[NodeT]) -> EthWire[NodeT]:
        """Return the cable itself."""
        return self.uplink

    def tables_changed(self) -> None:
        """Do nothing: this switch has no tables."""

    def is_decided(self, source: NodeT) -> bool:
        """Return False: this switch has no tables."""
        return False

    def give(self, number: int, frame: Frame) -> None:
        """Do nothing: no table delivers here."""

    def detach(self, vhca: Vhca[NodeT]) -> None:
        """Do nothing: the vPort of another function is not connected."""

    def attach(self, vhca: Vhca[NodeT]) -> None:
        """Connect the manager to the cable, to receive its frames too; ignore other functions."""
        if not vhca.is_manager:
            return
        node = vhca.node
        assert node is not None
        self._vhca = vhca
        self.receive = partial(self._deliver, node)
        self.uplink.attach(node)

    def vport_changed(self, node: NodeT) -> None:
        """Notify the cable, which ignores functions that are not connected."""
        self.uplink.port_changed(node)

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the traffic of the vPort, without frames looped back to the function.

        Empty directions before the manager has power.
        """
        vport = self._vhca.nic_vport if self._vhca is not None else None
        return vport.port_traffic() if vport is not None else (Direction(), Direction())


def lose(frame: Frame) -> None:
    """Drop a frame, because no function has power yet."""
