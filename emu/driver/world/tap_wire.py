"""An Ethernet wire that keeps what its function sends, for the caller to look at."""

from __future__ import annotations

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NoWire
from emu.device.state.hca import Hca


class TapWire(NoWire[Hca]):
    """A wire of one function, ``node``; what it should receive, the caller brings to it."""

    def __init__(self) -> None:
        super().__init__()
        self.node: Hca | None = None
        self._frames: list[Frame] = []

    def attach(self, node: Hca, /) -> None:
        """The function, or its new state after a reset."""
        super().attach(node)
        self.node = node

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Keep the frame."""
        assert source is self.node
        self._frames.append(frame)

    def sent(self) -> list[Frame]:
        """The frames since the last look."""
        frames, self._frames = self._frames, []
        return frames
