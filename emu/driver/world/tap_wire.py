"""A wire that keeps what functions send, and brings them what a test wants."""

from __future__ import annotations


class TapWire:
    """Implements :class:`emu.device.port.eth.wire.EthWire`."""

    def __init__(self):
        self.node = None
        self._frames = []

    def attach(self, node):
        self.node = node

    def port_changed(self, node):
        """Nobody else is here to notice."""

    def transmit(self, source, frame):
        assert source is self.node
        self._frames.append(frame)

    def sent(self):
        """The frames since the last look."""
        frames, self._frames = self._frames, []
        return frames
