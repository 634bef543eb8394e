"""The RoCE wire of a function whose board has two ports.

The master of a LAG uses the other port as well. The QP's port affinity and the LAG's map choose the
egress port. In a LAG all messages become packets, one frame each. Without a LAG the wire behaves as
on a board with one port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from emu.device.engine.eth.roce_wire import RoceWire
from emu.device.engine.lag.selection import selected
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.datagram import RoceDestination, frame_of
from emu.device.port.eth.roce.gids import NO_GID
from emu.device.port.eth.wire import EthWireWrapper
from layouts.enums.lag import LagPortSelect

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca
    from emu.device.ports import CarryTrain
    from emu.device.state.hca import Hca


class OtherPort(EthWireWrapper["Hca"]):
    """Another port of the board, as seen by the master; drops frames while its link is down."""

    def __init__(self, master: Vhca[Hca], adapter: Adapter[Hca]) -> None:
        super().__init__(adapter.switch.segment_of(adapter.manager))
        self._master = master
        self._adapter = adapter

    @property
    def changes(self) -> int:
        """Grows when the set of reachable functions may change."""
        return self.inner.changes + self._master.adapter.switch.uplink.changes

    @property
    def wants_packets(self) -> bool:
        """True: this port carries frames only."""
        return True

    def nodes(self) -> Iterable[Hca]:
        """Yield the functions on the port's segment, and the master, whose frames loop back."""
        if self._master.node is not None:
            yield self._master.node
        yield from self.inner.nodes()

    def attach(self, node: Hca, /) -> None:
        """Do nothing: the port has a function of its own."""

    def port_changed(self, node: Hca, /) -> None:
        """Do nothing: the port has a function of its own."""

    def train_to(self, mac: bytes, /) -> None:
        """Return None: in a LAG each packet is sent alone."""

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Send a frame by the port's function, if its link is up and the LAG still exists.

        Otherwise the frame is dropped and counted in ``roce.dropped`` of ``source``: after the LAG
        the port belongs to the other function alone.
        """
        node, board = self._adapter.manager.node, self._adapter.board
        if node is None or not node.nic_vport.is_up or board.lag_of(self._master) is None:
            source.roce.dropped["the other port is down"] += 1
            return
        if not node.switch.is_decided(node):  # tables count the frames that leave them
            for adapter in (self._adapter, self._master.adapter):
                adapter.forwarded.count_sent(frame.data)
        self.inner.transmit(node, frame)


class LagWire:
    """Implements :class:`emu.device.port.ib.wire.IbWire` with one RoceWire per port."""

    def __init__(self, vhca: Vhca[Hca], own: RoceWire) -> None:
        self._vhca = vhca
        self._own = own
        self._others: dict[int, RoceWire] = {}
        """Wires of the other ports, by port number; filled from the first LAG on."""

    def attach(self, hca: Hca) -> None:
        """Attach the function to the wires of all ports, and drop queued frames of an old state."""
        self._own.attach(hca)
        for wire in self._others.values():
            wire.begin(hca)

    def port_changed(self, hca: Hca) -> None:
        """Notify the own wire that the function's link has changed."""
        self._own.port_changed(hca)

    def _wire_for(self, source: Hca, sqn: int, frame: Callable[[], bytes]) -> RoceWire:
        """Return the wire of the port by which a QP's packet leaves, created on first use.

        Without a LAG this is the own wire. In a LAG the QP's affinity selects the port by the map.
        With port selection by flow tables, ``frame`` is called for the headers that the tables
        hash.
        """
        adapter = self._vhca.adapter
        lag = adapter.board.lag_of(self._vhca)
        if lag is None:
            return self._own
        qp = source.qps.get(sqn)
        affinity = qp.lag_affinity if qp is not None else 0
        port = lag.port_of(affinity, sqn)
        if lag.mode is LagPortSelect.PORT_SELECT_FT and not lag.is_open(affinity):
            port = selected(source.budget, source.adapter, Frame(frame()), port)
        if port == adapter.number:
            return self._own
        if port not in self._others:
            wire = RoceWire(OtherPort(self._vhca, adapter.board.adapters[port - 1]))
            wire.begin(source)
            self._others[port] = wire
        return self._others[port]

    def node(self, address: int) -> Hca | None:
        """Return the function with this address on one of the ports' segments, else None."""
        node = self._own.node(address)
        if node is None and self._vhca.adapter.board.lag_of(self._vhca) is not None:
            node = next(filter(None, (wire.node(address) for wire in self._others.values())), None)
        return node

    def needs_packets(self, address: int, node: Hca | None) -> bool:
        """Return whether messages to an address need packets.

        In a LAG True for every address but 0; otherwise the own wire decides.
        """
        if self._vhca.adapter.board.lag_of(self._vhca) is not None:
            return bool(address)
        return self._own.needs_packets(address, node)

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0) -> bool:
        """Send a frame by the port of its QP; return False when the next one should wait.

        A dropped frame also returns True.
        """
        return self._wire_for(source, sqn, lambda: frame).transmit(source, frame, sqn)

    def train_to(self, source: Hca, address: int, mtu: int) -> CarryTrain | None:
        """Return the own port's train path; None in a LAG, where each packet is sent alone."""
        if self._vhca.adapter.board.lag_of(self._vhca) is not None:
            return None
        return self._own.train_to(source, address, mtu)

    def when_ready(self, address: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when the first full path has space again.

        If no port's path is full, the own wire calls it.
        """
        full = [wire for wire in (self._own, *self._others.values()) if wire.is_full]
        (full or [self._own])[0].when_ready(address, callback)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Send a datagram by the port of its QP; without GIDs it is dropped there."""
        wire = self._wire_for(source, origin.qpn, partial(_octets_of, packet, origin))
        wire.datagram(source, packet, origin)


def _octets_of(packet: Datagram, origin: Origin) -> bytes:
    """Return a datagram as a frame; empty without GIDs, in which case the datagram is dropped."""
    to = packet.to
    assert isinstance(to, RoceDestination)
    if NO_GID in (origin.gid, to.gid or NO_GID):
        return b""
    return frame_of(packet, origin)
