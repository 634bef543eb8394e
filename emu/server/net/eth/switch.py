"""An Ethernet segment inside one process: a switch that learns addresses from what passes it.

Its ports are functions and uplinks: sockets, a passt, a TAP device, other processes of a fabric.
A frame to a known address goes to one port, any other to all but its own. Two functions and no
more are connected as by a cable: all that one sends reaches the other, whatever its addresses, as
programs expect that send frames back as they are. VLAN tags are carried, and not looked at.
Super-frames and frames with unfinished checksums pass as they are; each port makes of them what its
peer can take.

Source: IEEE 802.1Q 8.6 to 8.8 (forwarding, learning, ageing).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice

from emu.device.engine.eth.rx_credits import MANY
from emu.device.port.eth.flow_control import CONTROL_ADDRESS
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import ETHERNET_BYTES
from emu.device.port.eth.roce.trains import frames_of
from emu.device.port.train import Train
from emu.device.ports import Buffer, CarryTrain, Clock
from emu.server.net.eth.addresses import AddressEntry, Addresses
from emu.server.net.eth.loops import BLOCKED_NS, RECENT_NS
from emu.server.net.eth.port import SegmentPort

log = logging.getLogger(__name__)

MAX_SHOWN = 256
"""Addresses of a port that a status shows."""
_NO_ADDRESS = bytes(6)
_CABLE = 2
"""Ports of a segment that connects no more than that: a cable, by which MAC control frames pass."""
_NS_PER_S = 1_000_000_000


class SegmentSwitch:
    """A segment; implements :class:`emu.server.net.eth.port.Segment`."""

    def __init__(self, clock: Clock, name: str = "segment 0") -> None:
        self.name = name
        self.now_ns = clock.now_ns
        self._ports: dict[SegmentPort, None] = {}
        self._is_cable = False
        """Whether it connects two functions and nothing else."""
        self._addresses = Addresses()
        self.changes = 0
        """Grows when something is plugged in or out, goes down or changes its addresses."""

    @property
    def ports(self) -> Sequence[SegmentPort]:
        """What is plugged in."""
        return tuple(self._ports)

    def add(self, port: SegmentPort) -> None:
        """Plug something in."""
        self._ports[port] = None
        self._count_ports()
        self.changes += 1

    def remove(self, port: SegmentPort) -> None:
        """Pull something out, and forget the addresses behind it."""
        self._ports.pop(port, None)
        self._count_ports()
        self.forget(port)

    def _count_ports(self) -> None:
        self._is_cable = len(self._ports) == _CABLE and not any(
            port.is_uplink for port in self._ports
        )

    def forget(self, port: SegmentPort) -> None:
        """A port has gone down or has new addresses: learn anew what is behind it."""
        self._addresses.forget(port)
        self.changes += 1

    def spare(self) -> int:
        """How many frames a peer that can wait should send for now."""
        now = self.now_ns()
        return min((port.spare(now) for port in self._ports), default=MANY)

    def way(self, address: bytes) -> SegmentPort | None:
        """The port behind which a MAC address is; None while that is unknown."""
        return self._addresses.find(address, self.now_ns())

    def forward(self, source: SegmentPort, frame: Frame) -> None:
        """Carry a frame that came in at a port to the port or ports that lead to its receiver."""
        data, now, guard = frame.data, self.now_ns(), source.guard
        if not ETHERNET_BYTES <= len(data) <= MAX_BYTES:
            source.dropped["bad length"] += 1
            return
        if guard is not None and guard.is_blocked(now):
            source.dropped["loop"] += 1
            return
        place = self._addresses.place(data[6:12])
        if place is not None and place.port is source:
            place.heard_ns = now
        elif not self._learn(data[6:12], place, source, now):
            return
        source.received += 1
        if not data[0] & 1:
            port = self._addresses.find(data[:6], now)
            if port is source:
                if not self._is_cable:
                    return
            elif port is not None:
                self._let_out(port, frame, now)
                return
        self._flood(source, frame, now)

    def train_to(self, source: SegmentPort, address: bytes) -> CarryTrain | None:
        """What carries trains from a port to a MAC address that is known; None if nothing does."""
        port = self._way_of_trains(source, address)
        return None if port is None else partial(self._let_train_out, source, port)

    def _way_of_trains(self, source: SegmentPort, address: bytes) -> SegmentPort | None:
        port = self.way(address)
        if port is None or port is source or not (port.is_up and port.takes_trains):
            return None
        now = self.now_ns()
        for one in (source, port):
            if one.guard is not None and one.guard.is_blocked(now):
                return None
        return port

    @staticmethod
    def _let_train_out(source: SegmentPort, port: SegmentPort, pieces: Sequence[Buffer]) -> bool:
        source.received += 1
        return port.deliver_train(pieces)

    def forward_train(self, source: SegmentPort, train: Train) -> bool:
        """Carry a train that came in at a port; True as one, False as its frames.

        It is cut where it cannot go as one.
        """
        place = self._addresses.place(train.head[6:12])
        if place is not None and place.port is source:
            port = self._way_of_trains(source, train.head[:6])
            if port is not None:
                place.heard_ns = self.now_ns()
                source.received += 1
                port.deliver_train(train.pieces, train)
                return True
        for one in frames_of(train):
            self.forward(source, Frame(one))
        return False

    def _flood(self, source: SegmentPort, frame: Frame, now: int) -> None:
        if frame.data[:6] == CONTROL_ADDRESS and len(self._ports) > _CABLE:
            source.dropped["pause"] += 1
        elif source.guard is not None and not source.guard.may_flood(now):
            source.dropped["flood"] += 1
        else:
            for port in tuple(self._ports):
                if port is not source:
                    self._let_out(port, frame, now)

    @staticmethod
    def _let_out(port: SegmentPort, frame: Frame, now: int) -> None:
        if not port.is_up:
            port.dropped["down"] += 1
        elif port.guard is not None and port.guard.is_blocked(now):
            port.dropped["loop"] += 1
        else:
            port.deliver(frame)

    def _learn(
        self, address: bytes, place: AddressEntry | None, source: SegmentPort, now: int
    ) -> bool:
        """An address is new behind a port; False when its frame must go no further."""
        if address[0] & 1 or address == _NO_ADDRESS:
            if self._is_cable:
                return True
            source.dropped["bad source"] += 1
            return False
        if place is not None and source.is_uplink and now - place.heard_ns < RECENT_NS:
            source.dropped["moved"] += 1
            self._suspect(source if not source.is_fabric else place.port, now)
            return False
        self._addresses.learn(address, source, now)
        return True

    def _suspect(self, uplink: SegmentPort, now: int) -> None:
        """A frame has come back by this uplink, or by the fabric from it."""
        if uplink.guard is not None and not uplink.is_fabric and uplink.guard.moved(now):
            log.warning(
                "%s: %s leads back to another port: it is ignored for %d s; connect the segment to"
                " a network by one uplink only",
                self.name, uplink.name, BLOCKED_NS // _NS_PER_S,
            )  # fmt: skip

    def about(self) -> dict[str, object]:
        """Ports, counts and addresses, as values."""
        return {
            "segment": self.name,
            "addresses": len(self._addresses),
            "ports": [port.about() | self._behind(port) for port in self._ports],
        }

    def _behind(self, port: SegmentPort) -> dict[str, object]:
        """How many addresses are behind a port, and some of them."""
        behind = self._addresses.behind(port)
        shown = [address.hex(":") for address in islice(behind, MAX_SHOWN)]
        return {"known": len(behind), "addresses": shown}
