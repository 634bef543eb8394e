"""What is between the vPorts of an adapter and the cable of its physical port.

A function's frames go from its vPort to :meth:`Switch.forward`, those that come by the cable go to
:meth:`Switch.receive`, which gives them to vPorts. The plain switch has one vPort, the manager's;
an embedded switch (E-Switch: ``emu.device.engine.esw``) has several, and decides by tables where
each frame goes.
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
"""Gives a frame to a function, which does not raise (``emu.device.engine.eth.receive.arrive``)."""


class Switch(Protocol[NodeT]):
    """A switch, as functions and the cable see it."""

    uplink: EthWire[NodeT]
    """The cable of the physical port."""

    def segment_of(self, vhca: Vhca[NodeT], /) -> EthWire[NodeT]:
        """The wire as a function behind the switch sees it: who of this process is there, and how
        full the ways are. What it transmits there is forwarded."""

    def attach(self, vhca: Vhca[NodeT], /) -> None:
        """A function with an Ethernet vPort has power; after a reset, its new state replaces it."""

    def detach(self, vhca: Vhca[NodeT], /) -> None:
        """A function is no more."""

    def vport_changed(self, node: NodeT, /) -> None:
        """A function's vPort has come up or gone down, or has other addresses."""

    def tables_changed(self) -> None:
        """The manager's tables have begun to decide where frames go, or do so no more."""

    def is_decided(self, source: NodeT, /) -> bool:
        """Whether tables decide what becomes of all frames of a function, even if they are for
        the function itself."""

    def forward(self, source: NodeT, frame: Frame, /) -> None:
        """Carry a frame of a function's vPort; it may be lost. Never blocks, never raises."""

    def receive(self, frame: Frame, /) -> None:
        """Take a frame that has come by the cable."""

    def give(self, number: int, frame: Frame, /) -> None:
        """A vPort gets a frame that has passed tables of a switch of the board."""

    def passed(self) -> tuple[Direction, Direction]:
        """What has left and entered by the physical port."""


class PlainSwitch(Generic[NodeT]):
    """Implements :class:`Switch`: the manager's vPort, and the cable.

    Nothing is decided, so nothing is on the way. The vPort of another function leads nowhere.
    """

    def __init__(self, uplink: EthWire[NodeT], deliver: Deliver[NodeT]) -> None:
        self.uplink = uplink
        self._deliver = deliver
        self._vhca: Vhca[NodeT] | None = None
        self.forward = uplink.transmit
        self.receive: Callable[[Frame], None] = _lose

    def segment_of(self, vhca: Vhca[NodeT]) -> EthWire[NodeT]:
        """The cable itself."""
        return self.uplink

    def tables_changed(self) -> None:
        """There are none."""

    def is_decided(self, source: NodeT) -> bool:
        """No table decides."""
        return False

    def give(self, number: int, frame: Frame) -> None:
        """No table leads here."""

    def detach(self, vhca: Vhca[NodeT]) -> None:
        """The vPort of another function leads nowhere anyway."""

    def attach(self, vhca: Vhca[NodeT]) -> None:
        """SubnetPort the manager into the cable."""
        if not vhca.is_manager:
            return
        node = vhca.node
        assert node is not None
        self._vhca = vhca
        self.receive = partial(self._deliver, node)
        self.uplink.attach(node)

    def vport_changed(self, node: NodeT) -> None:
        """Tell the cable, which knows whether it is about the function that is plugged in."""
        self.uplink.port_changed(node)

    def passed(self) -> tuple[Direction, Direction]:
        """What has passed the vPort, without what came back to the function."""
        vport = self._vhca.nic_vport if self._vhca is not None else None
        return vport.passed() if vport is not None else (Direction(), Direction())


def _lose(frame: Frame) -> None:
    """No function is there yet."""
