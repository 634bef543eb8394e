"""A wire without a peer; not compiled, because a wire that a test controls derives from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.ports import NodeT


class NoWire(Generic[NodeT]):
    """A cable without a peer: every frame is lost."""

    wants_packets = False

    def __init__(self) -> None:
        self._nodes: list[NodeT] = []
        self._changes = 0

    @property
    def changes(self) -> int:
        """Grows with each reset, and when the function's addresses change."""
        return self._changes

    def nodes(self) -> Iterable[NodeT]:
        """Return the function alone."""
        return self._nodes

    def attach(self, node: NodeT, /) -> None:
        """Attach the function; there is no other function to notify."""
        self._nodes = [node]
        self._changes += 1

    def port_changed(self, node: NodeT, /) -> None:
        """Count the change, as in ``attach``."""
        self._changes += 1

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Return False: frames need not wait, as they are lost."""
        return False

    def when_ready_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call ``callback`` at once."""
        callback()

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Return NO_LIMIT: frames need not wait, as they are lost."""
        return NO_LIMIT

    def train_to(self, mac: bytes, /) -> None:
        """Return None, as there is no carrier."""

    def transmit(self, source: NodeT, frame: Frame, /) -> None:
        """Lose the frame."""
