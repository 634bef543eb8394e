"""An Ethernet segment inside a process: a learning switch.

Its ports are functions and uplinks: sockets, a passt, a TAP device, other processes of a fabric.
The switch sends a frame with a known destination to one port, and floods any other. A segment of
exactly two functions is a cable: each receives all frames of the other, without address filtering.
Programs that return frames unchanged need that. VLAN tags are forwarded unparsed. Super-frames and
frames with unfinished checksums are forwarded unchanged; each port converts them for its peer.

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
"""Maximum number of addresses of a port in a status."""
_NO_ADDRESS = bytes(6)
_CABLE = 2
"""Number of ports of a segment that is a cable, which also forwards MAC control frames."""
_NS_PER_S = 1_000_000_000


class SegmentSwitch:
    """A segment; implements :class:`emu.server.net.eth.port.Segment`."""

    def __init__(self, clock: Clock, name: str = "segment 0") -> None:
        self.name = name
        self.now_ns = clock.now_ns
        self._ports: dict[SegmentPort, None] = {}
        self._is_cable = False
        """Whether the segment connects exactly two functions."""
        self._addresses = Addresses()
        self.changes = 0
        """Number that grows when a port is added, removed, goes down or changes its addresses."""

    @property
    def ports(self) -> Sequence[SegmentPort]:
        """The ports."""
        return tuple(self._ports)

    def add(self, port: SegmentPort) -> None:
        """Add a port; ``changes`` grows, and the segment is a cable only with two functions."""
        self._ports[port] = None
        self._count_ports()
        self.changes += 1

    def remove(self, port: SegmentPort) -> None:
        """Remove a port if present, and forget the addresses behind it."""
        self._ports.pop(port, None)
        self._count_ports()
        self.forget(port)

    def _count_ports(self) -> None:
        """Record whether the segment is a cable: exactly two ports, none of them an uplink."""
        self._is_cable = len(self._ports) == _CABLE and not any(
            port.is_uplink for port in self._ports
        )

    def forget(self, port: SegmentPort) -> None:
        """Forget the addresses behind a port that went down or changed its addresses."""
        self._addresses.forget(port)
        self.changes += 1

    def credits(self) -> int:
        """Return the number of frames that a pausable peer should send now: the least of all ports.

        MANY without ports, and where no port limits its senders.
        """
        now = self.now_ns()
        return min((port.credits(now) for port in self._ports), default=MANY)

    def port_of(self, address: bytes) -> SegmentPort | None:
        """Return the port behind which a MAC address was learned; None if unknown or aged."""
        return self._addresses.find(address, self.now_ns())

    def forward(self, source: SegmentPort, frame: Frame) -> None:
        """Learn the frame's source, and send the frame to its destination's port or to all others.

        Drops count at ``source`` as "bad length", "loop", "bad source", "moved", "pause" or
        "flood". A frame to an address behind its own port is ignored, except on a cable.
        """
        data, now, guard = frame.data, self.now_ns(), source.guard
        if not ETHERNET_BYTES <= len(data) <= MAX_BYTES:
            source.dropped["bad length"] += 1
            return
        if guard is not None and guard.is_blocked(now):
            source.dropped["loop"] += 1
            return
        entry = self._addresses.entry(data[6:12])
        if entry is not None and entry.port is source:
            entry.heard_ns = now
        elif not self._learn(data[6:12], entry, source, now):
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
        """Return the sender of trains from a port to a MAC address; None if none is possible.

        The destination must be learned behind another port that is up and takes trains. Neither
        port may be blocked as a loop.
        """
        port = self._train_route(source, address)
        return None if port is None else partial(self._let_train_out, source, port)

    def _train_route(self, source: SegmentPort, address: bytes) -> SegmentPort | None:
        """Return the port for trains to an address; None as for :meth:`train_to`."""
        port = self.port_of(address)
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
        """Forward a train received from a port; return True if the train stays whole.

        Return False after forwarding single frames: unknown source or destination, or a port that
        takes no trains.
        """
        entry = self._addresses.entry(train.head[6:12])
        if entry is not None and entry.port is source:
            port = self._train_route(source, train.head[:6])
            if port is not None:
                entry.heard_ns = self.now_ns()
                source.received += 1
                port.deliver_train(train.pieces, train)
                return True
        for one in frames_of(train):
            self.forward(source, Frame(one))
        return False

    def _flood(self, source: SegmentPort, frame: Frame, now: int) -> None:
        """Send a frame to all ports but its own, within the uplink's limit.

        Count "pause" for a MAC control frame on more than two ports, and "flood" above the limit.
        """
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
        """Deliver a frame to a port; count "down" there if its link is down, "loop" if blocked."""
        if not port.is_up:
            port.dropped["down"] += 1
        elif port.guard is not None and port.guard.is_blocked(now):
            port.dropped["loop"] += 1
        else:
            port.deliver(frame)

    def _learn(
        self, address: bytes, entry: AddressEntry | None, source: SegmentPort, now: int
    ) -> bool:
        """Learn that an address is behind ``source``; return False if the frame must be dropped.

        Count "bad source" for a multicast or zero address, except on a cable. Count "moved" for an
        uplink's frame from an address that another port had used within RECENT_NS.
        """
        if address[0] & 1 or address == _NO_ADDRESS:
            if self._is_cable:
                return True
            source.dropped["bad source"] += 1
            return False
        if entry is not None and source.is_uplink and now - entry.heard_ns < RECENT_NS:
            source.dropped["moved"] += 1
            self._suspect(source if not source.is_fabric else entry.port, now)
            return False
        self._addresses.learn(address, source, now)
        return True

    def _suspect(self, uplink: SegmentPort, now: int) -> None:
        """Count an address that returned by this uplink; log a warning when that blocks the uplink.

        Do nothing for functions and for the fabric's own ports.
        """
        if uplink.guard is not None and not uplink.is_fabric and uplink.guard.moved(now):
            log.warning(
                "%s: %s loops back to another port; blocked for %d s: connect the segment to"
                " a network by one uplink only",
                self.name, uplink.name, BLOCKED_NS // _NS_PER_S,
            )  # fmt: skip

    def about(self) -> dict[str, object]:
        """Return name, number of addresses, and ports with their counts and addresses."""
        return {
            "segment": self.name,
            "addresses": len(self._addresses),
            "ports": [port.about() | self._behind(port) for port in self._ports],
        }

    def _behind(self, port: SegmentPort) -> dict[str, object]:
        """Return the number of addresses behind a port, and up to MAX_SHOWN of them."""
        behind = self._addresses.behind(port)
        shown = [address.hex(":") for address in islice(behind, MAX_SHOWN)]
        return {"known": len(behind), "addresses": shown}
