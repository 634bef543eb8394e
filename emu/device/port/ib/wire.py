"""The wire between InfiniBand functions: frames, and local datagrams, which need no frame."""

from __future__ import annotations

from typing import Protocol

from emu.device.port.datagram import Datagram, Origin
from emu.device.ports import NodeT, Wire


class IbWire(Wire[NodeT], Protocol[NodeT]):
    """A :class:`emu.device.ports.Wire` whose addresses are LIDs.

    A frame is a packet from its local route header to its invariant CRC.
    """

    def datagram(self, source: NodeT, packet: Datagram, origin: Origin, /) -> None:
        """Transmit an unreliable datagram; there is no response."""
