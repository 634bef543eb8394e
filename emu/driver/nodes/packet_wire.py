"""A wire in the test's hand: what functions send waits until the test lets it through."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from emu.device.engine import lifecycle
from emu.device.engine.rc.packets.intake import receive, receive_train
from emu.device.engine.ud import delivery
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.ib.datagram_packets import datagram_of, frame_of
from emu.device.port.ib.framing import is_train, parse, parse_train
from emu.device.ports import Buffer, CarryTrain
from emu.device.rounds.sizes import PACKETS_PER_ROUND
from emu.device.state.hca import Hca
from layouts.wire.bth import Service


class PacketWire:
    """A wire that carries packets between all its functions, whole messages never.

    ``tap`` sees every frame on its way and gives the frames that arrive instead: none to lose it,
    two to double it. ``room`` is how many frames fit before senders have to wait.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, Hca] = {}
        self.frames: deque[bytes] = deque()
        self.tap: Callable[[bytes], Iterable[bytes]] = lambda frame: [frame]
        self.room = 1 << 30
        self.takes_trains = False
        """Whether packets may come as trains, which are frames as well."""
        self.sent = 0
        """How many frames have been sent."""
        self._waiting: list[Callable[[], None]] = []

    def attach(self, node: Hca, /) -> None:
        """The function is present under its LID; after a reset, its new state is."""
        self.nodes[node.ib.lid] = node

    def port_changed(self, node: Hca, /) -> None:
        """Nobody is told."""

    def node(self, address: int, /) -> Hca | None:
        """None: no function is reached directly."""
        return None

    def reaches(self, address: int, /) -> bool:
        """Whether frames to this LID arrive."""
        return address in self.nodes

    def transmit(self, source: Hca, frame: bytes, sqn: int = 0, /) -> bool:
        """Keep the frame; False when there is no room for another one."""
        return self._keep(frame)

    def _keep(self, frame: bytes) -> bool:
        self.sent += 1
        self.frames.append(frame)
        return len(self.frames) < self.room

    def train_to(self, source: Hca, address: int, mtu: int, /) -> CarryTrain | None:
        """What keeps a train, if they are wanted."""
        return self._carry_train if self.takes_trains else None

    def _carry_train(self, pieces: Sequence[Buffer]) -> bool:
        return self._keep(b"".join(pieces))

    def when_room(self, address: int, callback: Callable[[], None], /) -> None:
        """Call it when a frame has been let through and there is room."""
        self._waiting.append(callback)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin, /) -> None:
        """Carry it as a packet."""
        self.transmit(source, frame_of(packet, origin))

    def deliver(self) -> bool:
        """Let one frame through; False when none waits."""
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
        """A frame reaches whoever it is for."""
        if is_train(frame):
            train = parse_train(memoryview(frame))
            hca = self.nodes[train.first.dlid]
            receive_train(hca, train, len(frame) - len(train.payload) + train.mtu)
            return
        packet = parse(memoryview(frame))
        for lid, hca in list(self.nodes.items()):
            if packet.dlid != lid and not packet.is_multicast:
                continue
            if packet.op.service is Service.UD:
                delivery.arrive(hca, *datagram_of(packet))
            else:
                receive(hca, packet, len(frame))

    def run(self) -> bool:
        """Let through what is on its way now, as much as in a round; False when nothing was."""
        waiting = min(len(self.frames), PACKETS_PER_ROUND)
        for _ in range(waiting):
            self.deliver()
        return waiting > 0

    def settle(self, limit: int = 100_000) -> None:
        """Run functions and deliver frames until nothing moves any more.

        Raises AssertionError after ``limit`` rounds.
        """
        for _ in range(limit):
            for hca in self.nodes.values():
                hca.budget.begin()
            busy = [lifecycle.run(hca) for hca in list(self.nodes.values())]
            if not self.deliver() and not any(busy):
                return
        raise AssertionError("the wire never falls silent")
