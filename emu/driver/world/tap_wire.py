"""An Ethernet wire that keeps what its function sends, for the caller to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.state.hca import Hca


class TapWire:
    """A wire of one function, ``node``; what it should receive, the caller brings to it."""

    wants_packets = False

    def __init__(self) -> None:
        self.node: Hca | None = None
        self.changes = 0
        self._frames: list[Frame] = []

    def nodes(self) -> Iterable[Hca]:
        """The function alone."""
        return [] if self.node is None else [self.node]

    def attach(self, node: Hca, /) -> None:
        """The function, or its new state after a reset."""
        self.node = node
        self.changes += 1

    def port_changed(self, node: Hca, /) -> None:
        """As for ``attach``."""
        self.changes += 1

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Frames are kept at once."""
        return False

    def when_room_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call it at once."""
        callback()

    def spare_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Nobody asks for more to wait."""
        return NO_LIMIT

    def train_to(self, mac: bytes, /) -> None:
        """Each packet is a frame."""

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Keep the frame."""
        assert source is self.node
        self._frames.append(frame)

    def sent(self) -> list[Frame]:
        """The frames since the last look."""
        frames, self._frames = self._frames, []
        return frames
