"""Link aggregation (LAG): the ports of a board as one, for the function of the first port.

That function, the master, has the RoCE traffic of both ports: each of its queue pairs has an
affinity to a port, and a map tells by which port an affinity's packets leave. When a port goes
down, or a bond chooses another one, the master's driver changes the map (core/lag/lag.c:
mlx5_modify_lag). Frames of the interfaces go by their own ports as before.

In a LAG of switches their forwarding databases (FDB) decide about frames. With native selection a
vPort's frames pass that of its own switch, and the map tells by which port those leave that the
tables lead to a cable. Else the map tells whose FDB a vPort's frames pass.

Where the adapter has port selection, flow tables of the master can choose a packet's port instead
of affinities and map, by a hash over its headers (``emu.device.engine.lag.selection``). In a
multi-port E-Switch nothing chooses: packets leave by the port that the FDB leads them to.

Source: PRM "LAG"; mlx5_ifc.h: lagc.
"""

from __future__ import annotations

from typing import Final

from emu.device.port.eth.traffic import Direction
from layouts.eth_enums import LagPortSelect

MASTER_PORT: Final = 1
"""The port whose function is the master."""


class Lag:
    """One that its master has made."""

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
        """By which port the packets leave that have an affinity to port 1, to port 2, and so on."""
        self.of_switches = of_switches
        """Tables decide where frames go."""
        self.is_native = is_native
        """A vPort's frames pass the FDB of its own switch (fdb_selection_mode)."""
        self.mode = mode
        """What chooses a packet's port."""
        self.active = active
        """Where flow tables choose: the ports, a bit for each, by which packets may leave that
        have an affinity, past these tables. 0: none, for these tables choose in any case."""
        self.has_vports = False
        """The vPorts are one, too: what comes for the master's GIDs by any port is the master's."""

    def is_open(self, port: int) -> bool:
        """Whether packets with an affinity to this port leave by it, where flow tables choose."""
        return port > 0 and bool(self.active >> port - 1 & 1)

    def port_of(self, affinity: int, number: int) -> int:
        """By which port packets leave; those without an affinity by the ``number`` of their queue.

        An affinity to a port that the board has not got is that of a queue that has none.
        """
        ports = len(self.remap)
        return self.remap[affinity - 1 if 0 < affinity <= ports else number % ports]


class ForwardedTraffic:
    """What of the master's traffic has passed another port: it counts there, and not at its own."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent, self.received = Direction(), Direction()

    def count_sent(self, frame: bytes) -> None:
        """Count a frame of RoCE, as vPorts do."""
        _count(self.sent, frame)

    def count_received(self, frame: bytes) -> None:
        """The same of one that has come."""
        _count(self.received, frame)


def _count(way: Direction, frame: bytes) -> None:
    way.add_to(way.rdma_multicast if frame[0] & 1 else way.rdma_unicast, 1, len(frame))
