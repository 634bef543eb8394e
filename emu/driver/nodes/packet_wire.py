"""Wire that a test controls: sent frames wait until the test delivers them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from emu.device.engine import lifecycle
from emu.device.engine.rc.packets.connection import receive, receive_train
from emu.device.engine.ud import delivery
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib.datagram_packets import datagram_of, frame_of
from emu.device.port.ib.framing import parse, parse_train
from emu.device.port.packet import Packet
from emu.device.ports import Buffer, CarryTrain
from emu.device.rounds.sizes import PACKETS_PER_ROUND
from emu.device.state.hca import Hca
from layouts.wire.bth import LRH, PKT_LEN_MASK, Service


class PacketWire:
    """Wire that carries packets between all its functions, never whole messages.

    ``tap`` gets every frame in flight and returns the frames to deliver instead: none to lose it,
    two to duplicate it. ``room`` is the number of frames in flight at which senders have to wait.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Hca] = {}
        self.frames: deque[bytes] = deque()
        self.tap: Callable[[bytes], Iterable[bytes]] = lambda frame: [frame]
        self.room = 1 << 30
        self.takes_trains = False
        """Whether packets may be sent as trains, which are frames as well."""
        self.sent = 0
        """Number of frames sent."""
        self._waiting: list[Callable[[], None]] = []

    def attach(self, node: Hca, /) -> None:
        """Attach the function under its LID, or record its state after a reset."""
        self.nodes[node.ib.lid] = node

    def port_changed(self, node: Hca, /) -> None:
        """Ignore the change: no other function is notified."""

    def node(self, address: int, /) -> Hca | None:
        """Return None: no function is reached directly."""
        return None

    def needs_packets(self, address: int, node: Hca | None, /) -> bool:
        """Return whether messages to this LID must be packets: the wire has a node with it."""
        return address in self.nodes

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0, /) -> bool:
        """Keep the frame; return False when the wire is full."""
        return self._keep(frame)

    def _keep(self, frame: bytes) -> bool:
        """Queue the frame and count it.

        Return False when ``room`` is reached, but keep the frame even then.
        """
        self.sent += 1
        self.frames.append(frame)
        return len(self.frames) < self.room

    def train_to(self, source: Hca, address: int, mtu: int, /) -> CarryTrain | None:
        """Return a sink that keeps a train; None if trains are off."""
        return self._carry_train if self.takes_trains else None

    def _carry_train(self, pieces: Sequence[Buffer]) -> bool:
        return self._keep(b"".join(pieces))

    def when_ready(self, address: int, callback: Callable[[], None], /) -> None:
        """Call back when a frame has been delivered and the wire has space."""
        self._waiting.append(callback)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin, /) -> None:
        """Send the datagram as a packet."""
        self.transmit(source, frame_of(packet, origin))

    def deliver(self) -> bool:
        """Deliver the oldest frame, or those that ``tap`` returns instead.

        Return False when none waits. When fewer than ``room`` frames are left, calls and clears the
        callbacks of :meth:`when_ready`.
        """
        if not self.frames:
            return False
        for frame in self.tap(self.frames.popleft()):
            self.arrive(frame)
        if len(self.frames) < self.room:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()
        return True

    def arrive(self, frame: bytes) -> None:
        """Deliver a frame at once to the function with its DLID; a multicast frame to all.

        The sender of a multicast frame is included. A train is delivered to its DLID as well. For
        an unknown DLID a train raises KeyError, and any other frame is lost without an error.
        Raises BadPacketError for a malformed frame. Does not use ``tap``.
        """
        if is_train(frame):
            train = parse_train(memoryview(frame))
            hca = self.nodes[train.first.dlid]
            receive_train(hca, train, len(frame) - len(train.payload) + train.mtu)
            return
        packet = parse(memoryview(frame))
        if packet.dlid in self.nodes:
            self._give(self.nodes[packet.dlid], packet, len(frame))
        elif packet.is_multicast:
            for hca in list(self.nodes.values()):
                self._give(hca, packet, len(frame))

    def _give(self, hca: Hca, packet: Packet, octets: int) -> None:
        """Deliver a packet of ``octets`` bytes to a function."""
        if packet.op.service is Service.UD:
            delivery.arrive(hca, *datagram_of(packet))
        else:
            receive(hca, packet, octets)

    def poll(self) -> bool:
        """Deliver what is in flight now, at most PACKETS_PER_ROUND frames, as the loop does.

        Return False when nothing was.
        """
        waiting = min(len(self.frames), PACKETS_PER_ROUND)
        budgets = {id(hca.budget): hca.budget for hca in self.nodes.values()}.values()
        for budget in budgets:
            budget.is_gathering = waiting > 0
        for _ in range(waiting):
            self.deliver()
        for budget in budgets:
            budget.release()
        return waiting > 0

    def settle(self, limit: int = 100_000) -> None:
        """Run functions and deliver frames, one each round, until all are idle.

        Raises AssertionError after ``limit`` rounds. Does not advance the clock, so timers stay
        pending.
        """
        for _ in range(limit):
            for hca in self.nodes.values():
                hca.budget.begin()
            busy = [lifecycle.run(hca) for hca in list(self.nodes.values())]
            if not self.deliver() and not any(busy):
                return
        raise AssertionError("the wire never becomes idle")


def is_train(frame: bytes | memoryview) -> bool:
    """Return whether a frame of an mlx5emu process is a train: longer than its headers say."""
    words: int = LRH.unpack_from(frame)[3] & PKT_LEN_MASK
    return words * 4 < len(frame)
