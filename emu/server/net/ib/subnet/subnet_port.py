"""The port of a function in a simulated subnet: its wire."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from emu.device.engine import lifecycle
from emu.device.engine.ud.delivery import QP0, arrive
from emu.device.faults.event import NoEffectError
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib import managed_sma
from emu.device.port.ib.link_errors import LinkError
from emu.device.ports import CarryTrain, Clock
from emu.server.net.ib.link_packets import DatagramLinkPacket, IbLinkPacket
from emu.server.net.ib.local import Wired, destination, source_of, take
from emu.server.net.ib.packet_queue import PacketQueue
from emu.server.net.ib.subnet.nodes import Cables, NoCableError, PortPosition
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import LocalChange

if TYPE_CHECKING:
    from emu.device.port.ib.port import IbPort
    from emu.device.state.hca import Hca
    from layouts.wire.mads import smp

_PORT: Final = 1
_LINK_FIELDS: Final = (
    "link_width_enabled", "link_width_supported", "link_width_active", "link_speed_supported",
    "link_speed_active", "link_speed_enabled", "link_speed_ext_active", "link_speed_ext_supported",
    "link_speed_ext_enabled",
)  # fmt: skip


class Subnet(Wired, Protocol):
    """The subnet, as the port of a function uses it; ``plug`` is that port."""

    clock: Clock
    cables: Cables

    def local_change(self, plug: SubnetPort, change: LocalChange, /) -> None:
        """Report a changed node description or changed capabilities to the manager."""

    def trap_repressed(self, plug: SubnetPort, tid: int, /) -> None:
        """End a trap that the manager has repressed."""

    def bad_mkey(self, plug: SubnetPort, mad: smp, slid: int, /) -> None:
        """Report an SMP with a wrong M_Key to the manager."""

    def fail_link(self, place: PortPosition, error: LinkError, count: int, /) -> None:
        """Count ``count`` errors at a port of any node."""

    def finds(self, plug: SubnetPort, lid: int, /) -> SubnetPort | None:
        """Return the function that packets for a LID reach; count nothing."""

    def receiver_of(self, plug: SubnetPort, lid: int, octets: int, /) -> SubnetPort | None:
        """Return the function that a packet for a LID reaches; count the packet on its route."""

    def send_smp(self, plug: SubnetPort, packet: Datagram, origin: Origin, /) -> None:
        """Send an SMP from QP0 hop by hop."""

    def carry(self, plug: SubnetPort, packet: Datagram, origin: Origin, /) -> None:
        """Send a datagram along the switches' tables."""


class SubnetPort:
    """Implements :class:`emu.device.port.ib.wire.IbWire` for a function."""

    def __init__(self, fabric: Subnet, guid: int, number: int) -> None:
        """Create the port of the function's node with this ``number``."""
        self.guid = guid
        self.number = number
        self._fabric = fabric
        self._hca: Hca | None = None
        self._queue = PacketQueue(fabric.clock, self._enter)
        self._has_cable = False
        """Last link state set in the function."""
        self._is_pulled = False
        """Whether a fault has disconnected the cable at the function."""
        self._described = (0, b"")
        """Last capabilities and node description reported to the manager."""

    # -- the link

    def attach(self, hca: Hca) -> None:
        """Connect the function; after a reset it replaces the old one, and has no LID.

        A cable that a fault had pulled is plugged in again. The peer's link goes down and trains
        anew; the port takes the peer's width and speed.
        """
        cables, node = self._fabric.cables, self._fabric.cables.nodes[self.number]
        self._hca = hca
        if self._is_pulled:
            self._is_pulled = False
            cables.cut(self.number, _PORT, is_cut=False)
        cables.lose(self.number, _PORT)
        port = hca.ib
        self._has_cable = port.has_cable = cables.can_train(self.number, _PORT)
        managed_sma.begin(port)
        assert port.managed is not None
        port.managed.on_repress = partial(self._fabric.trap_repressed, self)
        port.managed.on_bad_mkey = partial(self._fabric.bad_mkey, self)
        self._described = (port.cap_mask1, port.node_description)
        node.ports[:] = [port.managed] * len(node.ports)
        far = node.peers[_PORT]
        if far is not None:
            there = cables.nodes[far[0]].ports[far[1]].info
            there.assign({name: getattr(port.managed.info, name) for name in _LINK_FIELDS})
        cables.retrain(self.number, _PORT)

    @property
    def wants_link(self) -> bool:
        """Whether the function is present and has its port enabled."""
        port = self._hca.ib if self._hca is not None else None
        if port is None or not port.admin_up:
            return False
        return port.managed is None or not port.managed.is_disabled

    def set_link(self, *, up: bool) -> None:
        """Set the link of the function's port up or down; without a function, only store it."""
        self._has_cable = up
        if self._hca is not None:
            lifecycle.set_link(self._hca, up=up)

    def port_changed(self, hca: Hca) -> None:
        """Update the subnet after a driver, a manager or a fault changed the function's port.

        Changed capabilities and description are reported by traps, and a pulled cable is cut at
        both ends. A replaced function is ignored.
        """
        if hca is not self._hca or hca.ib.managed is None:
            return
        self._report_changes(hca.ib)
        cables, has_cable = self._fabric.cables, hca.ib.has_cable
        if has_cable is not self._has_cable:
            self._has_cable, self._is_pulled = has_cable, not has_cable
            cables.cut(self.number, _PORT, is_cut=not has_cable)
        else:
            cables.settle(self.number, _PORT)

    # -- faults of the subnet (``emu.device.faults.points.subnet``)

    def cut_cable(self, node: str, port: int, *, is_cut: bool) -> bool:
        """Cut or repair the cable at a node's port; return False if already done.

        Raises NoEffectError without such a node or cable.
        """
        return self._fabric.cables.cut(*self._place(node, port), is_cut=is_cut)

    def fail_link(self, node: str, port: int, error: LinkError, count: int) -> None:
        """Inject errors at a node's port. Raises NoEffectError for a port without a link."""
        place = self._place(node, port)
        if self._fabric.cables.peer(*place) is None:
            raise NoEffectError(f"no link at port {port} of {node!r}")
        self._fabric.fail_link(place, error, count)

    def _place(self, node: str, port: int) -> PortPosition:
        """Return the position of a node's port.

        Raises NoEffectError without such a node or cable.
        """
        try:
            return self._fabric.cables.place(node, port)
        except NoCableError as error:
            raise NoEffectError(str(error)) from None

    def count_error(self, name: str, number: int) -> None:
        """Add errors to a counter of the function's port; do nothing without a function."""
        if self._hca is not None:
            self._hca.ib.errors[name] += number

    def _report_changes(self, port: IbPort) -> None:
        """Send traps for capabilities or a description that changed since the last report."""
        (caps, description), now = self._described, (port.cap_mask1, port.node_description)
        self._described = now
        if now == (caps, description):
            return
        managed_sma.refreshed(port)
        if now[0] != caps:
            self._fabric.local_change(self, LocalChange.CAPABILITIES)
        if now[1] != description:
            self._fabric.local_change(self, LocalChange.NODE_DESCRIPTION)

    # -- packets out

    def node(self, lid: int) -> Hca | None:
        """Return the function that a LID leads to, if its packets find the way back to this one.

        None without such a function, or if either direction has no route.
        """
        far = self._fabric.finds(self, lid)
        if far is None or self._hca is None or far._hca is None:
            return None
        return far._hca if self._fabric.finds(far, self._hca.ib.lid) is self else None

    def needs_packets(self, lid: int, _node: Hca | None) -> bool:
        """Return whether packets are needed: for all LIDs, except 0 of unconnected queue pairs."""
        return lid != 0

    def transmit(self, source: Hca, frame: bytes, _sqn: int = 0) -> bool:
        """Send a packet, through the port's link if any; return False to pause the sender.

        Packets are delivered in a later round. One without a route is dropped and returns True.
        """
        fabric = self._fabric
        if fabric.watcher is not None:
            fabric.watcher.packet(self.guid, frame, is_sent=True)
        if destination(frame) == source.ib.lid:
            return self._queue.add(frame)
        link = fabric.tx_links.get(self.guid)
        if link is None:
            return self._forward(frame)
        link.take(IbLinkPacket(frame, self._forward))
        return not link.is_pausing

    def _forward(self, frame: bytes) -> bool:
        """Send a packet along the switches' route; return False when the next one should wait.

        A packet without a receiver is dropped and returns True.
        """
        to = self._fabric.receiver_of(self, destination(frame), len(frame))
        return True if to is None else to.take(frame)

    def train_to(self, source: Hca, address: int, mtu: int) -> CarryTrain | None:
        """Return None: switches and watchers observe each packet."""
        return None

    def when_ready(self, lid: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, in a later round, when more packets may be sent to a LID.

        The port's link comes first, then the queue of the receiver, or our own without one.
        """
        link = self._fabric.tx_links.get(self.guid)
        if link is not None and link.is_pausing:
            link.when_ready(partial(self.when_ready, lid, callback))
            return
        to = self._fabric.finds(self, lid) or self
        to._queue.when_ready(callback)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Send a datagram to its receivers; drop it silently when there are none.

        Multicast and own LIDs are received by the sender, too. Others pass the port's link.
        """
        fabric = self._fabric
        if fabric.watcher is not None:
            fabric.watcher.datagram(self.guid, packet, origin, is_sent=True)
        to = packet.to
        is_own = to.lid == source.ib.lid or (to.lid == PERMISSIVE_LID and to.qpn != QP0)
        if packet.is_multicast or is_own:
            arrive(source, packet, origin, is_looped=True)
        if is_own:
            return
        link = fabric.tx_links.get(self.guid)
        if link is None:
            self._carry(packet, origin)
        else:
            link.take(DatagramLinkPacket(packet, partial(self._carry, origin=origin)))

    def _carry(self, packet: Datagram, origin: Origin) -> None:
        """Send a datagram behind the port's link: an SMP hop by hop, others by the tables."""
        if packet.to.qpn == QP0:
            self._fabric.send_smp(self, packet, origin)
        else:
            self._fabric.carry(self, packet, origin)

    # -- packets in

    def take(self, frame: bytes) -> bool:
        """Queue a packet for the port; return False when the next one should wait."""
        return self._queue.add(frame)

    def _enter(self, frame: bytes) -> None:
        """Deliver a queued packet to the port, through its link unless sent by the same port."""
        link = self._fabric.rx_links.get(self.guid)
        if link is None or source_of(frame) == destination(frame):
            self._receive(frame)
        else:
            link.take(IbLinkPacket(frame, self._receive))

    def _receive(self, frame: bytes) -> None:
        """Deliver a packet to the function, past the watcher; drop it without a function."""
        if self._hca is None:
            return
        if self._fabric.watcher is not None:
            self._fabric.watcher.packet(self.guid, frame, is_sent=False)
        take(self._hca, frame)

    def arrive(self, packet: Datagram, origin: Origin) -> None:
        """Deliver a datagram from another node to the port, through its link if any."""
        link = self._fabric.rx_links.get(self.guid)
        if link is None:
            self._take_datagram(packet, origin)
        else:
            link.take(DatagramLinkPacket(packet, partial(self._take_datagram, origin=origin)))

    def _take_datagram(self, packet: Datagram, origin: Origin) -> None:
        """Deliver a datagram to the function, past the watcher; drop it without a function."""
        hca = self._hca
        if hca is None:
            return
        if self._fabric.watcher is not None and hca.ib.has_link:
            self._fabric.watcher.datagram(self.guid, packet, origin, is_sent=False)
        arrive(hca, packet, origin)
