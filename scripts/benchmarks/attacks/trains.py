"""Hostile members of a fabric that send trains: many packets of a message in one frame."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from attacks.keys import scattered
from attacks.watch import Watch, pattern
from attacks.wire import Hub
from emu.device.faults.link import PlannedLink
from emu.device.port.ib.framing import IbRoute
from emu.device.port.ib.port import DEFAULT_PKEY
from emu.device.port.packet import OPS, Packet
from emu.device.port.train import MAX_PACKETS
from emu.driver.verbs.queue_pair import QueuePair
from emu.server.net.fabric import protocol
from emu.server.net.fabric.protocol import FrameKind
from emu.server.net.link.direction import LinkDirection
from layouts.wire.bth import ICRC_BYTES, PSN_MASK, PacketKind, Service

SMALL_MTU = 256
TRAINS = 8
"""Number of trains of a message."""
MESSAGES = 32


class Target(Hub):
    """Queue pair of the hub's function, to which the member writes messages of some trains."""

    def __init__(self, watch: Watch, mtu: int = SMALL_MTU) -> None:
        super().__init__(watch)
        self.mtu = mtu
        self.node = self.hub.node
        self.size = (TRAINS * MAX_PACKETS + 2) * mtu
        self.key = self.node.region(self.size, va=0).key
        self.qp = QueuePair(self.node).init()
        self.qp.to_rtr(self.peer.identities[0].lid, 1, 0, mtu=(mtu // 256).bit_length()).to_rts()

    def message(self, number: int, key: int | None = None, trains: int = TRAINS) -> list[bytes]:
        """Return an RDMA WRITE: its first packet, its trains, its last packet."""
        psn, packets = number * (trains * MAX_PACKETS + 2), trains * MAX_PACKETS
        first, last = self._packet(psn, "first"), self._packet(psn + packets + 1, "last")
        first.va, first.length = 0, (packets + 2) * self.mtu
        first.rkey = self.key if key is None else key
        middle = [self._train(psn + 1 + at * MAX_PACKETS) for at in range(trains)]
        ends = [protocol.frame(FrameKind.PACKET, self._frame(one)) for one in (first, last)]
        return [ends[0], *middle, ends[1]]

    def messages(self, key: int | None = None, trains: int = TRAINS) -> list[bytes]:
        """Return many such messages."""
        every = (self.message(number, key, trains) for number in range(MESSAGES))
        return [*chain.from_iterable(every)]

    def _train(self, psn: int) -> bytes:
        frame = self._frame(self._packet(psn, "middle"))
        others = bytes((MAX_PACKETS - 1) * self.mtu)
        return protocol.frame(FrameKind.TRAIN, frame[:-ICRC_BYTES] + others + frame[-ICRC_BYTES:])

    def _packet(self, psn: int, position: str) -> Packet:
        op = OPS[Service.RC, PacketKind.WRITE, position == "first", position == "last", None]
        return Packet().of(op, self.qp.qpn, psn & PSN_MASK)

    def _frame(self, packet: Packet) -> bytes:
        route = IbRoute(self.node.lid, self.peer.identities[0].lid, 0, DEFAULT_PKEY, None)
        return route.frame(packet, [memoryview(bytes(self.mtu))], self.mtu)


@pattern("trains of the longest packets")
def longest(watch: Watch) -> Iterator[None]:
    target = Target(watch, 4096)
    data = b"".join(target.messages())
    yield
    target.flood(data)
    assert target.node.hca.ib.counters()["received_ib_unicast"].octets > len(data) // 2


@pattern("trains of small packets into lists of single bytes, four deep")
def scattered_trains(watch: Watch) -> Iterator[None]:
    target = Target(watch)
    key = scattered(target.node, (MAX_PACKETS + 2) * SMALL_MTU)
    data = b"".join(target.messages(key, 1))
    yield
    target.flood(data)


@pattern("trains that come again, and in the wrong order")
def again(watch: Watch) -> Iterator[None]:
    target = Target(watch)
    frames = target.messages()
    yield
    target.flood(b"".join([*frames[:8], *frames[::-1], *frames * 3]))


@pattern("trains for a queue pair that does not exist")
def nobody(watch: Watch) -> Iterator[None]:
    target = Target(watch)
    data = b"".join(target.messages())
    target.qp.destroy()
    yield
    target.flood(data * 4)


@pattern("trains on a port whose link loses half of their packets")
def linked(watch: Watch) -> Iterator[None]:
    target = Target(watch)
    hca = target.node.hca
    link = LinkDirection("rx", hca.clock, lambda: hca.ledger, PlannedLink(loss=50))
    target.hub.wire.rx_links[target.node.lid] = link
    data = b"".join(target.messages())
    yield
    target.flood(data)
