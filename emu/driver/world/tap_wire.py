"""Ethernet wire that records what its function sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.state.hca import Hca


class TapWire:
    """Wire of one function, ``node``; the caller delivers the frames that it receives."""

    wants_packets = False

    def __init__(self) -> None:
        self.node: Hca | None = None
        self.changes = 0
        self._frames: list[Frame] = []

    def nodes(self) -> Iterable[Hca]:
        """Return the function alone."""
        return [] if self.node is None else [self.node]

    def attach(self, node: Hca, /) -> None:
        """Attach the function, or record its state after a reset."""
        self.node = node
        self.changes += 1

    def port_changed(self, node: Hca, /) -> None:
        """Record the port's new state, like ``attach``."""
        self.changes += 1

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Return False: frames are taken at once."""
        return False

    def when_ready_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call back at once."""
        callback()

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Return no limit: the wire records all frames."""
        return NO_LIMIT

    def train_to(self, mac: bytes, /) -> None:
        """Return None: each packet is a frame."""

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Keep the frame."""
        assert source is self.node
        self._frames.append(frame)

    def sent(self) -> list[Frame]:
        """Return the frames since the last call."""
        frames, self._frames = self._frames, []
        return frames
