"""Link aggregation (LAG) of a board's ports, for the function of the first port.

The function of port 1, the master, owns the RoCE traffic of both ports. Each queue pair has an
affinity to a port, and a map gives the egress port of each affinity. When a port goes down, or a
bond selects another port, the master's driver changes the map (core/lag/lag.c: mlx5_modify_lag).
Frames of the interfaces still use their own ports.

In a LAG of switches the forwarding databases (FDB) route frames. With native selection a vPort's
frames pass the FDB of their own switch. The map then gives the egress port of frames that the
tables send to a cable. Without it, the map selects the FDB that a vPort's frames pass.

With port selection, flow tables of the master replace affinities and map. The tables select a
packet's port by a hash over its headers (``emu.device.engine.lag.selection``). In a multi-port
E-Switch, packets leave by the port that the FDB entry names.

Source: PRM "LAG"; mlx5_ifc.h: lagc.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.traffic import Direction
from layouts.enums.lag import LagPortSelect

MASTER_PORT: Final = 1
"""The port whose function is the master."""


class Lag:
    """An active LAG."""

    __slots__ = ("active", "has_vports", "is_native", "mode", "of_switches", "remap")

    def __init__(
        self,
        remap: tuple[int, ...],
        of_switches: bool = False,
        is_native: bool = False,
        mode: LagPortSelect = LagPortSelect.QUEUE_AFFINITY,
        active: int = 0,
    ) -> None:
        self.remap = remap
        """Egress ports by affinity: index 0 for packets with an affinity to port 1, and so on."""
        self.of_switches = of_switches
        """Whether the switches' tables route frames."""
        self.is_native = is_native
        """Whether a vPort's frames pass the FDB of its own switch (fdb_selection_mode)."""
        self.mode = mode
        """Selects a packet's port: affinity, hash or FDB."""
        self.active = active
        """With port selection by flow tables: ports, one bit each, at which packets with an
        affinity bypass these tables. 0: the tables apply to all packets.
        """
        self.has_vports = False
        """Whether the vPorts are bonded: packets to the master's GIDs belong to the master on every
        port.
        """

    def is_open(self, port: int) -> bool:
        """Return whether packets with an affinity to this port bypass the flow tables and leave by
        it.
        """
        return port > 0 and bool(self.active >> port - 1 & 1)

    def port_of(self, affinity: int, number: int) -> int:
        """Return the egress port; without an affinity, by the ``number`` of the queue.

        An affinity to a port that the board does not have counts as none. The map applies in both
        cases.
        """
        ports = len(self.remap)
        return self.remap[affinity - 1 if 0 < affinity <= ports else number % ports]


class ForwardedTraffic:
    """Traffic of the master through another port: counted at that port, not at the master's own."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent, self.received = Direction(), Direction()

    def count_sent(self, frame: bytes) -> None:
        """Count a RoCE frame that was sent, as vPorts do."""
        _count(self.sent, frame)

    def count_received(self, frame: bytes) -> None:
        """Count a RoCE frame that was received."""
        _count(self.received, frame)


def _count(direction: Direction, frame: bytes) -> None:
    counter = direction.rdma_multicast if frame[0] & 1 else direction.rdma_unicast
    direction.add_to(counter, 1, len(frame))
