"""Hostile peers: members of a fabric, and owners of a connected queue pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from rig import MODEL, MappedMemory

from attacks.guest import large_key
from attacks.keys import PACKET, scattered
from attacks.watch import Watch, WatchedBar, pattern
from emu.device.function.function import Function
from emu.device.port.datagram import GSI_QKEY, Datagram, Destination, Origin
from emu.device.port.ib.datagram_packets import frame_of
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import DEFAULT_PKEY, PKEY_TABLE_ENTRIES, SM_LID
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.driver import Driver
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.transport.fabric import Fabric
from emu.driver.transport.raw_peer import RawPeer
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.server.net.fabric import port_frames, protocol
from emu.server.net.fabric.protocol import HEADER, FrameKind, Identity
from firmware_cmds import TABLE
from layouts.wire.mads import MAD_BYTES, Method, MgmtClass
from layouts.wire.sa import RmppFlags, RmppType, SaAttr, sa_mad

GIB = 1 << 30
PORTS = 50
ROUNDS = 500
WRITES = 32
FRAMES = 4 << 20
"""Number of bytes that a member sends at once."""


class WatchedFabric(Fabric):
    """Fabric whose members are all in this process; rounds are watched and never block."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(f"unix:{watch.sockets()}/fabric")
        self._watch = watch

    def step(self) -> None:
        """Run one round of the loop."""
        for member in self.members:
            for node in member.nodes:
                self._watch.round(node.function.run)
        self._watch.round(lambda: self.loop.step(0))


class Hub:
    """Hub with a function, and a member that can send anything."""

    def __init__(self, watch: Watch, ports: int = 1) -> None:
        self.fabric = WatchedFabric(watch)
        self.hub = self.fabric.join()
        watch.knows(self.hub.node.function)
        self.peer = RawPeer.member(self.fabric, *[Identity()] * ports)

    def flood(self, data: bytes) -> None:
        """Send while the hub runs; its answers are not read."""
        self.peer.send(data)
        for _ in range(100):
            self.fabric.step()

    def datagram(self, data: bytes, lid: int, qpn: int, qkey: int) -> bytes:
        """Return a frame that carries a datagram from the member."""
        own = self.peer.identities[0].lid
        to = Destination(qpn, qkey, lid, 0, 0, None)
        packet = frame_of(Datagram(to, (memoryview(data),), len(data), None, False),
                          Origin(own, 1, DEFAULT_PKEY, qkey, bytes(16)))  # fmt: skip
        return protocol.frame(FrameKind.PACKET, packet)


@pattern("a flood of small packets that nobody wants")
def small_packets(watch: Watch) -> Iterator[None]:
    hub = Hub(watch)
    frame = hub.datagram(b"", hub.hub.node.lid, 0x777, 1)
    yield
    hub.flood(frame * (FRAMES // len(frame)))


@pattern("a flood of PORT frames with 128 P_Keys each")
def port_news(watch: Watch) -> Iterator[None]:
    hub = Hub(watch, PORTS)
    ports = b"".join(
        protocol.frame(FrameKind.PORT, port_frames.port(_port(own.lid, own.guid)))
        for own in hub.peer.identities
    )
    yield
    hub.flood(ports * (FRAMES // len(ports)))


@pattern("a member with 900 ports, all of which change again and again")
def changing_ports(watch: Watch) -> Iterator[None]:
    hub = Hub(watch, 900)
    others = [RawPeer.member(hub.fabric) for _ in range(4)]
    ports = [
        b"".join(
            protocol.frame(
                FrameKind.PORT, port_frames.port(replace(_port(own.lid, own.guid), mtu=mtu))
            )
            for own in hub.peer.identities
        )
        for mtu in (1024, 2048)
    ]
    yield
    hub.flood(b"".join(ports) * 2)
    for other in others:
        other.sock.close()


def _port(lid: int, guid: int) -> EndPort:
    pkeys = tuple(0x8000 | number + 1 for number in range(PKEY_TABLE_ENTRIES))
    return EndPort(lid=lid, port_guid=guid, node_guid=guid, pkeys=pkeys, node_description=bytes(64))


@pattern("a thousand GetTable requests of the path records of a full subnet")
def tables(watch: Watch) -> Iterator[None]:
    hub = Hub(watch, 1000)
    peer = hub.peer
    for own in peer.identities:
        peer.say(FrameKind.PORT, port_frames.port(_port(own.lid, own.guid)))
    frames = []
    for attr in (SaAttr.PATH_REC, SaAttr.NODE_REC, SaAttr.PORT_INFO_REC):
        for tid in range(333):
            mad = sa_mad.new(
                mad_hdr={
                    "base_version": 1, "mgmt_class": MgmtClass.SUBN_ADM, "class_version": 2,
                    "method": Method.GET_TABLE, "attr_id": attr, "tid": tid + 1,
                },
                rmpp_hdr={
                    "rmpp_version": 1, "rmpp_type": RmppType.DATA, "rmpp_flags": RmppFlags.ACTIVE,
                },
            )  # fmt: skip
            data = bytes(mad.buf)
            assert len(data) == MAD_BYTES
            frames.append(hub.datagram(data, SM_LID, 1, GSI_QKEY))
    yield
    hub.flood(b"".join(frames))


@pattern("HELLO with 1,023 functions, by 60 processes one after the other")
def crowd(watch: Watch) -> Iterator[None]:
    hub = Hub(watch)
    yield
    for _ in range(60):
        peer = RawPeer.connected(hub.fabric)
        peer.say(FrameKind.HELLO, protocol.hello([Identity()] * 1023))
        for _ in range(10):
            hub.fabric.step()
        peer.close()


@pattern("frames of one byte at a time")
def drops(watch: Watch) -> Iterator[None]:
    hub = Hub(watch)
    frame = hub.datagram(bytes(2048), hub.hub.node.lid, 0x777, 1)
    assert len(frame) > HEADER.size
    yield
    for at in range(len(frame)):
        hub.peer.send(frame[at : at + 1])


class Victim:
    """Two functions with packets between them; only the right one's rounds are watched."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        clock = HandClock()
        self.wire = _Sink()
        guests = []
        for lid in (1, 2):
            memory, irqs = MappedMemory(96 << 20), IrqList()
            options = HcaOptions(guid=lid, lid=lid)
            function = Function(MODEL, options, TABLE, memory, irqs, clock, self.wire)
            bar = WatchedBar(watch.unwatched(), [function])
            guests.append(Node(function, Driver(bar, memory, irqs).probe()))
        self.attacker, self.victim = guests
        watch.knows(self.victim.function)
        self.left, self.right = self.attacker.queue_pair(), self.victim.queue_pair()
        connect(self.left, self.right, mtu=5)

    def take(self) -> list[bytes]:
        """Return the frames that the attacker has sent; drop frames from then on."""
        self.attacker.settle()
        frames = list(self.wire.frames)
        self.wire.frames.clear()
        self.wire.sinks = True
        return frames

    def receive(self, frames: list[bytes]) -> None:
        """Deliver frames to the victim and run it for a while; its answers are dropped."""
        for frame in frames:
            self.watch.round(partial(self.wire.arrive, frame))
        self.run()

    def receive_at_once(self, frames: list[bytes]) -> None:
        """Deliver frames like ``receive``, all in one round."""

        def arrive() -> None:
            for frame in frames:
                self.wire.arrive(frame)

        self.watch.round(arrive)
        self.run()

    def run(self) -> None:
        """Run the victim for a while."""
        for _ in range(ROUNDS):
            self.watch.round(self.victim.function.run)


class _Sink(PacketWire):
    """Drops all frames once ``sinks`` is set."""

    sinks = False

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0) -> bool:
        if self.sinks:
            return True
        return bool(super().transmit(source, frame, sqn))


@pattern("an RDMA READ of 1 GiB from the wire, and its duplicates")
def long_read(watch: Watch) -> Iterator[None]:
    victim = Victim(watch)
    here, there = large_key(victim.attacker), large_key(victim.victim)
    victim.left.read((there, 0), (GIB, here, 0))
    frames = victim.take()
    yield
    victim.receive(frames[:1])
    for _ in range(3):
        victim.receive(frames[:1] * 100)


@pattern("the packets of an RDMA WRITE of 16 MiB, in any order")
def disorder(watch: Watch) -> Iterator[None]:
    victim = Victim(watch)
    here, there = large_key(victim.attacker), large_key(victim.victim)
    victim.left.write((there, 0), (16 << 20, here, 0))
    frames = victim.take()
    yield
    victim.receive(frames[::-1])
    victim.receive(frames * 3)


@pattern("packets of 1 KiB into lists of single bytes, four deep")
def deep_packets(watch: Watch) -> Iterator[None]:
    victim = Victim(watch)
    here, there = victim.attacker.region(PACKET), scattered(victim.victim, PACKET // 4)
    for _ in range(WRITES):
        victim.left.write((there, 0), here.sge(0, PACKET // 4))
    frames = victim.take()
    yield
    victim.receive_at_once(frames)
