"""The RoCE wire of one function: messages to functions of this process, frames to all others.

A peer is in this process if a function on the same segment has its MAC address, VLAN and GID for
the same RoCE version. Frames to all other peers leave by the network interface's port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth import pacing, sniffer
from emu.device.engine.eth.receive import loop_back_roce
from emu.device.engine.eth.roce_departures import MAX_HELD, Departures
from emu.device.engine.eth.steering import rdma as rdma_steering
from emu.device.engine.eth.steering.rdma import RdmaVerdict
from emu.device.engine.ud.delivery import arrive
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.datagram import RoceDestination, RoceOrigin, frame_of
from emu.device.port.eth.roce.framing import TAG_BYTES
from emu.device.port.eth.roce.gids import MAC_BYTES, NO_GID
from emu.device.port.eth.roce.route import parts_of
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.port.eth.wire import EthWire
from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.device.state.containment import contain

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.port.eth.vport import NicVport
    from emu.device.ports import CarryTrain, Timer
    from emu.device.state.hca import Hca

MAX_IN_FLIGHT: Final = 256
"""Number of frames for functions of this process in flight before the sender must wait."""
_TOO_LONG: Final = "longer than the MTU"
MAX_KNOWN_ADDRESSES: Final = 4096
"""Number of addresses whose function is cached; a guest may send to any number."""


class RoceWire:
    """Implements :class:`emu.device.port.ib.wire.IbWire` for one Ethernet function.

    Its addresses are those of ``emu.device.port.eth.roce.link``.
    """

    def __init__(self, eth: EthWire[Hca]) -> None:
        self._eth = eth
        self._hca: Hca | None = None
        self._changes = -1
        self._nodes: dict[int, Vhca[Hca] | None] = {}
        """Functions found since the last change. Entries are Vhcas, so a function's state before a
        reset is not kept alive."""
        self._macs: frozenset[bytes] = frozenset()
        """MAC addresses of RoCE in this process."""
        self._frames: deque[bytes] = deque()
        self._waiting: list[Callable[[], None]] = []
        self._next_run: Timer | None = None
        """Timer of the next round, which delivers frames or reports space to waiting senders."""
        self._departures = Departures(eth, self._wake)

    def attach(self, hca: Hca) -> None:
        """Attach the function, or its new state after a reset, and reset the wire.

        Set RoCE's pacing too, except for a manager. Frames in flight of the old state are dropped.
        """
        if self._hca is not None and self._hca.rates.roce is not None:
            self._hca.rates.roce.stop_waiting()
        self.begin(hca)
        if not hca.vhca.is_manager:  # a manager's scheduling elements ended with its old state
            pacing.apply_to_roce(hca.rates, hca.vhca)

    def begin(self, hca: Hca) -> None:
        """Reset the wire's state for ``hca``: drop frames in flight, waiting callbacks and caches.

        Used directly for the function's further wires.
        """
        self._hca = hca
        self._changes = -1
        self._nodes.clear()
        self._frames.clear()
        self._departures.clear()
        self._waiting.clear()
        if self._next_run is not None:
            self._next_run.cancel()
            self._next_run = None

    def port_changed(self, hca: Hca) -> None:
        """Do nothing: :class:`EthWire` is notified as well."""

    @property
    def is_full(self) -> bool:
        """Whether senders must wait for frames in flight."""
        return bool(self._departures.waiting) or len(self._frames) >= MAX_IN_FLIGHT

    def _refresh(self) -> None:
        """Discard cached functions if the segment has changed."""
        if self._changes != self._eth.changes:
            self._changes = self._eth.changes
            self._nodes.clear()
            self._macs = frozenset().union(*(node.gids.macs for node in self._eth.nodes()))

    # -- functions of this process

    def node(self, address: int) -> Hca | None:
        """Return the function of this process with this address, else None.

        The result is cached until the segment changes. A function between two resets is None.
        """
        if self._changes != self._eth.changes:
            self._refresh()
        try:
            node = self._nodes[address]
        except KeyError:
            return self._find(address)
        return None if node is None else node.node

    def _find(self, address: int) -> Hca | None:
        """Return the function of this process with this address, or None, and cache the result."""
        assert self._hca is not None
        index, mac, gid = parts_of(address)
        source = self._hca.gids[index]
        match = None
        if not source.is_empty:
            for node in self._eth.nodes():
                if node.gids.has(mac, source.vlan, gid, source.version):
                    match = node
                    break
        if len(self._nodes) >= MAX_KNOWN_ADDRESSES:
            self._nodes.clear()
        self._nodes[address] = None if match is None else match.vhca
        return match

    def needs_packets(self, address: int, node: Hca | None) -> bool:
        """Return whether messages to an address must be sent as packets; False for address 0.

        True for a peer in another process, or unknown. A function of this process needs packets
        only if rules, links, rates, flow tables, a sniffer, a LAG or a capture work on packets. A
        datagram QP has address 0.
        """
        if not address:
            return False
        if node is None or self._eth.wants_packets or node.segment.wants_packets:
            return True
        if node.vhca.adapter.board.lag is not None:  # it may send and receive by another port
            return True
        hca = self._hca
        if node.rdma_rx.root is not None or node.is_sniffed:
            return True
        if hca is not None and (
            hca.rdma_tx.root is not None or hca.rates.roce is not None or hca.is_sniffed
        ):
            return True
        return node.probes.faults is not None and node.probes.faults.wants_packets

    # -- packets

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0, sl: int | None = None) -> bool:
        """Send a frame; return False when the next one should wait.

        ``sl`` is that of a datagram's address vector.

        A frame to a function of this process is delivered in the loop's next round, so its response
        never arrives during the sender's call. Dropped and counted: beyond the MTU, or "queue
        full". RDMA_TX tables may drop it. An empty frame does nothing.
        """
        if not frame:
            return True
        if len(frame) + FCS_BYTES > source.nic_vport.oper_mtu:
            source.roce.dropped[_TOO_LONG] += 1
            return True
        if (
            source.rdma_tx.root is not None
            and rdma_steering.send(source, frame, sqn) is not RdmaVerdict.ON
        ):
            return True
        if source.is_sniffed:
            sniffer.copy(source, source.sniffer_tx, Frame(frame))
        if self._changes != self._eth.changes:
            self._refresh()
        if frame[:MAC_BYTES] not in self._macs:
            return self._departures.send(source, frame, sqn, sl)
        if len(self._frames) >= MAX_HELD:
            source.roce.dropped["queue full"] += 1
            return False
        self._frames.append(frame)
        self._start()
        return len(self._frames) < MAX_IN_FLIGHT and not self._departures.waiting

    def train_to(self, source: Hca, address: int, mtu: int) -> CarryTrain | None:
        """Return the port's train path to another process; None if the packets must go separately.

        None where frames wait before the train, for a function of this process, and where tables,
        rates, a sniffer or the MTU need separate frames.
        """
        if not address or mtu > source.link.max_payload:
            return None
        if source.rdma_tx.root is not None or source.rates.roce is not None or source.is_sniffed:
            return None
        mac = parts_of(address)[1]
        self._refresh()
        if mac in self._macs or self._departures.waiting or self._frames:
            return None
        return self._eth.train_to(mac)

    def when_ready(self, address: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, in a later round, when more frames may be sent."""
        self._waiting.append(callback)
        if self._departures.waiting:
            return  # the backlog calls _wake when it is drained
        mac, hca = parts_of(address)[1], self._hca
        if (
            mac in self._macs
            or hca is None
            or not self._departures.must_wait(hca.rates, hca.clock, mac)
        ):
            self._start()
        else:
            self._departures.await_ready(hca, mac)

    def _start(self) -> None:
        if self._next_run is None and self._hca is not None:
            self._next_run = self._hca.port_clock.call_later(0, partial(self._run, self._hca))

    def _run(self, hca: Hca) -> None:
        """Deliver frames in flight to functions of this process, then call the waiting senders.

        Within the timer budget; the rest follows in the next round.
        """
        for _ in range(min(len(self._frames), PACKETS_PER_POLL)):
            if hca.budget.exhausted(TIMER_BUDGET):
                break
            self._deliver(hca, self._frames.popleft())
            if hca is not self._hca:
                return  # a frame has reset the function, which discarded the backlog
        self._next_run = None
        if len(self._frames) < MAX_IN_FLIGHT and not self._departures.waiting:
            self._wake()
        if self._frames:
            self._start()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _deliver(self, hca: Hca, frame: bytes) -> None:
        """Loop back a frame to one of the function's own MAC addresses; send any other frame.

        A full receive backlog drops a looped frame ("queue full").
        """
        if frame[:MAC_BYTES] in hca.gids.macs:
            if hca.is_sniffed:
                sniffer.copy(hca, hca.sniffer_rx, Frame(frame))
            looped = partial(loop_back_roce, hca, frame)
            if not hca.backlogs.rx.do(len(frame), contain, hca.health, looped):
                hca.roce.dropped["queue full"] += 1
        else:
            self._departures.send(hca, frame)

    # -- datagrams

    @staticmethod
    def _is_too_long(vport: NicVport, packet: Datagram, origin: Origin) -> bool:
        """Return whether a datagram's frame exceeds a port's MTU, as ``transmit`` checks."""
        assert isinstance(origin, RoceOrigin)
        tag = 0 if origin.tci is None else TAG_BYTES
        return packet.octets + tag + FCS_BYTES > vport.oper_mtu

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Send a datagram: directly within this process, to a multicast group, or as a frame.

        Without a GID of sender or receiver drop it ("no GID"). Beyond the sender's MTU drop it;
        beyond the receiver's, the receiver counts too_long and errors.
        """
        to = packet.to
        assert isinstance(to, RoceDestination)
        if NO_GID in (origin.gid, to.gid or NO_GID):
            source.roce.dropped["no GID"] += 1
            return
        if self._is_too_long(source.nic_vport, packet, origin):
            source.roce.dropped[_TOO_LONG] += 1
            return
        if to.is_multicast:
            if source.is_sniffed and to.gid in source.mcgs:
                sniffer.copy(source, source.sniffer_rx, Frame(frame_of(packet, origin)))
            arrive(source, packet, origin, is_looped=True)
        else:
            address = source.link.address_to(to)
            node = self.node(address)
            if node is not None and not self.needs_packets(address, node):
                if self._is_too_long(node.nic_vport, packet, origin):
                    node.nic_vport.received.too_long += 1
                    node.nic_vport.received.errors += 1
                else:
                    arrive(node, packet, origin, is_looped=node is source)
                return
        self.transmit(source, frame_of(packet, origin), origin.qpn, to.sl)
