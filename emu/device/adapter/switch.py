"""The switch between the vPorts of an adapter and the cable of its physical port.

Frames of a function pass from its vPort to :meth:`Switch.forward`. Frames from the cable pass to
:meth:`Switch.receive`, which delivers them to vPorts. The plain switch has one vPort, the
manager's; an embedded switch (E-Switch: ``emu.device.engine.esw``) has several and routes frames by
tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.traffic import Direction
from emu.device.port.eth.wire import EthWire
from emu.device.ports import NodeT

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca

Deliver = Callable[[NodeT, Frame], None]
"""Delivers a frame to a function and does not raise (``emu.device.engine.eth.receive.arrive``)."""


class Switch(Protocol[NodeT]):
    """A switch, as functions and the cable see it."""

    uplink: EthWire[NodeT]
    """Wire of the physical port."""

    def segment_of(self, vhca: Vhca[NodeT], /) -> EthWire[NodeT]:
        """Return the wire of a function behind the switch: its nodes in this process, and the
        congestion of its paths. The switch forwards frames transmitted there.
        """

    def attach(self, vhca: Vhca[NodeT], /) -> None:
        """Attach a function with an Ethernet vPort that has power; after a reset, replace its
        state.
        """

    def detach(self, vhca: Vhca[NodeT], /) -> None:
        """Detach a function that is removed."""

    def vport_changed(self, node: NodeT, /) -> None:
        """Record that a function's vPort went up or down, or has other addresses."""

    def tables_changed(self) -> None:
        """Record that the manager's tables have started or stopped to route frames."""

    def is_decided(self, source: NodeT, /) -> bool:
        """Return whether tables route all frames of a function, including frames to itself.

        True only for the manager of an embedded switch whose FDB has a root table.
        """

    def forward(self, source: NodeT, frame: Frame, /) -> None:
        """Carry a frame of a function's vPort, which may be lost. Never blocks, never raises."""

    def receive(self, frame: Frame, /) -> None:
        """Process a frame received from the cable."""

    def give(self, number: int, frame: Frame, /) -> None:
        """Deliver a frame that has passed tables of a switch of the board to a vPort."""

    def port_traffic(self) -> tuple[Direction, Direction]:
        """Return the traffic sent and received by the physical port, without looped-back frames."""


class PlainSwitch(Generic[NodeT]):
    """Implements :class:`Switch`: the manager's vPort, and the cable.

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
