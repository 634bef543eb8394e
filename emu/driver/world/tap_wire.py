"""Ethernet wire that records what its function sends."""

from __future__ import annotations

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import Hca


class TapWire(NoWire[Hca]):
    """Wire of one function; the caller delivers the frames that it receives."""

    def __init__(self) -> None:
        super().__init__()
        self._frames: list[Frame] = []

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Keep the frame."""
        assert [source] == self.nodes()
        self._frames.append(frame)

    def sent(self) -> list[Frame]:
        """Return the frames since the last call."""
        frames, self._frames = self._frames, []
        return frames
