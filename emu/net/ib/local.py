"""The fabric inside one process: functions by LID, datagrams between them, the administrator.

Connected queue pairs of functions in the same process find each other through ``node`` and exchange
whole messages. Datagrams are carried here, and so are packets when faults are to be injected into
them. A multicast packet goes to every queue pair that is attached to its GID. The subnet
administrator has a LID of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from emu.device.containment import ContainedClock, contain
from emu.engine.ud.delivery import QP1, arrive
from emu.net.ib.packet_queue import PacketQueue
from emu.net.ib.sa import SubnetAdministrator
from emu.port.datagram import Datagram, Origin
from emu.port.ib.endport import EndPort, end_port
from emu.port.ib.port import SM_LID
from emu.ports import Buffer, Clock
from layouts.bth import PERMISSIVE_LID

if TYPE_CHECKING:
    from emu.device.hca import Hca

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Sees the packets that pass the ports of this process's functions."""

    @property
    def wants_messages(self) -> bool:
        """Whether messages between these functions are to be sent as packets, too."""

    def packet(self, lid: int, frame: Buffer, *, is_sent: bool) -> None:
        """A packet of the port with this LID, from local route header to invariant CRC."""

    def datagram(self, lid: int, packet: Datagram, origin: Origin, *, is_sent: bool) -> None:
        """A datagram of the port with this LID."""


class LocalFabric:
    """Implements :class:`emu.ports.Wire` for the functions of this process."""

    def __init__(self, clock: Clock) -> None:
        self._nodes: dict[int, Hca] = {}
        self._packets = PacketQueue(clock, self.node)
        self.watcher: Watcher | None = None
        self._sa_owner = _Administration()
        self.sa = SubnetAdministrator(
            self.end_ports, self._carry, ContainedClock(clock, self._sa_owner)
        )

    def attach(self, hca: Hca) -> None:
        """Make the function reachable at its port's LID; after a reset it replaces the old one."""
        if self._nodes.pop(hca.ib.lid, None) is not None:
            self.sa.sweep()
        self._nodes[hca.ib.lid] = hca
        self.sa.sweep()

    def port_changed(self, hca: Hca) -> None:
        """The function's port has come up or gone down."""
        self.sa.sweep()

    def node(self, lid: int) -> Hca | None:
        """The function with this LID, when it is in this process."""
        return self._nodes.get(lid)

    def reaches(self, lid: int) -> bool:
        """Whether packets have to be sent to this LID: to a function here only if it wants them."""
        node = self._nodes.get(lid)
        if node is None:
            return False
        if self.watcher is not None and self.watcher.wants_messages:
            return True
        return node.faults is not None and node.faults.wants_packets

    def transmit(self, source: Hca, frame: bytes) -> bool:
        """Carry a packet to a function of this process."""
        if self.watcher is not None:
            self.watcher.packet(source.link.lid, frame, is_sent=True)
            if (node := self._nodes.get(destination(frame))) is not None:
                self.watcher.packet(node.link.lid, frame, is_sent=False)
        return self._packets.add(frame)

    def when_room(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when more packets may be sent."""
        self._packets.when_room(callback)

    def end_ports(self) -> Iterator[EndPort]:
        """The ports that are up, as the administrator sees them."""
        return (end_port(hca.ib) for hca in self._nodes.values() if hca.link.is_up)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Carry a datagram to its receivers; it is silently lost when there are none."""
        if self.watcher is not None:
            self.watcher.datagram(source.link.lid, packet, origin, is_sent=True)
        if packet.to.lid == PERMISSIVE_LID:
            arrive(source, packet, origin)
        else:
            self._carry(packet, origin)

    def _carry(self, packet: Datagram, origin: Origin) -> None:
        lid = packet.to.lid
        if packet.is_multicast:
            for hca in list(self._nodes.values()):
                self._arrive(hca, packet, origin)
        elif lid == SM_LID:
            if packet.to.qpn == QP1:
                data = b"".join(packet.data)
                contain(self._sa_owner, partial(self.sa.receive, data, packet.to, origin))
        elif (node := self._nodes.get(lid)) is not None:
            self._arrive(node, packet, origin)

    def _arrive(self, hca: Hca, packet: Datagram, origin: Origin) -> None:
        if self.watcher is not None and hca.link.is_up:
            self.watcher.datagram(hca.link.lid, packet, origin, is_sent=False)
        arrive(hca, packet, origin)


_DLID = slice(2, 4)
"""The bytes of a packet's local route header that hold its destination."""


def destination(frame: bytes) -> int:
    """The LID that a packet goes to."""
    return int.from_bytes(frame[_DLID], "big")


class _Administration:
    """The owner of the administrator's work: after an error the administrator goes on."""

    has_failed = False

    def fail(self) -> None:
        """Log the error; the datagram that caused it is lost."""
        log.exception("subnet administrator: internal error: a datagram is lost")
