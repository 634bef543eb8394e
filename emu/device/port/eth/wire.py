"""The wire of Ethernet functions: what carries their frames, and one that leads nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.ports import CarryTrain, NodeT

NO_LIMIT: Final = 1 << 16
"""More frames than a port is sent before it is asked again."""


class EthWire(Protocol[NodeT]):
    """What an Ethernet port's cable is plugged into.

    The function that is attached is the manager of an adapter: what comes by the cable goes to its
    ``switch`` (``emu.device.adapter.switch.Switch.receive``).
    """

    @property
    def changes(self) -> int:
        """Grows when a function joins the segment or leaves it, and with ``port_changed``."""

    @property
    def wants_packets(self) -> bool:
        """Whether RoCE's messages to functions of this process pass as frames, to be seen."""

    def nodes(self) -> Iterable[NodeT]:
        """The functions of this process on the same segment, the own one included.

        RoCE finds its peers among them.
        """

    def attach(self, node: NodeT, /) -> None:
        """The function is on the wire; after a reset, its new state replaces the old one."""

    def port_changed(self, node: NodeT, /) -> None:
        """The function's port has come up or gone down, or has other addresses."""

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Whether frames to a MAC address should wait, or some may be lost.

        What a priority with flow control sees of a network without loss (IEEE 802.1Q 36).
        """

    def when_room_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call ``callback`` once, when frames to a MAC address need not wait any more."""

    def spare_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """How many frames to a MAC address may be sent for now; 0 when they should wait.

        That is what the port behind the address has receive requests for, if it sends pause frames
        and ``flow`` obeys them for this priority. ``packets`` come at once.
        """

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """What carries the function's trains of RoCE packets to a MAC address, for now.

        None where each packet has to be a frame.
        """

    def transmit(self, source: NodeT, frame: Frame, /) -> None:
        """Carry a frame; it may be lost, which the wire counts. Never blocks, never raises."""


class NoWire(EthWire[NodeT]):
    """A cable whose other end is plugged into nothing that answers: every frame is lost."""

    wants_packets = False

    def __init__(self) -> None:
        self._nodes: list[NodeT] = []
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows with each reset, and when the function's addresses change."""
        return self._changes

    def nodes(self) -> Iterable[NodeT]:
        """The function alone."""
        return self._nodes

    def attach(self, node: NodeT, /) -> None:
        """No other function is there to be told."""
        self._nodes = [node]
        self._changes += 1

    def port_changed(self, node: NodeT, /) -> None:
        """As for ``attach``."""
        self._changes += 1

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Frames need not wait, as they are lost anyway."""
        return False

    def when_room_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call it at once."""
        callback()

    def spare_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Frames need not wait, as they are lost anyway."""
        return NO_LIMIT

    def train_to(self, mac: bytes, /) -> None:
        """Nothing does."""

    def transmit(self, source: NodeT, frame: Frame, /) -> None:
        """Lose the frame."""
