"""A wire in the test's hand: what functions send waits until the test lets it through."""

from __future__ import annotations

from collections import deque

from emu.device.engine import lifecycle
from emu.device.engine.rc.packets.intake import receive
from emu.device.engine.ud import delivery
from emu.device.port.ib.datagram_packets import datagram_of, frame_of
from emu.device.port.ib.framing import parse
from emu.server.net.poller import PACKETS_PER_ROUND
from layouts.bth import Service


class PacketWire:
    """Implements ``emu.device.ports.Wire`` with packets between all its functions.

    ``tap`` sees every frame on its way and gives the frames that arrive instead: none to lose it,
    two to double it. ``room`` is how many frames fit before senders have to wait.
    """

    def __init__(self):
        self.nodes = {}
        self.frames = deque()
        self.tap = lambda frame: [frame]
        self.room = 1 << 30
        self.sent = 0
        self._waiting = []

    def attach(self, hca):
        self.nodes[hca.port.lid] = hca

    def port_changed(self, hca):
        pass

    def node(self, lid):
        return None

    def reaches(self, lid):
        return lid in self.nodes

    def transmit(self, source, frame, _sqn=0):
        self.sent += 1
        self.frames.append(frame)
        return len(self.frames) < self.room

    def when_room(self, lid, callback):
        self._waiting.append(callback)

    def datagram(self, source, packet, origin):
        self.transmit(source, frame_of(packet, origin))

    def deliver(self):
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

    def arrive(self, frame):
        """A frame reaches whoever it is for."""
        packet = parse(memoryview(frame))
        for lid, hca in list(self.nodes.items()):
            if packet.dlid != lid and not packet.is_multicast:
                continue
            if packet.op.service is Service.UD:
                delivery.arrive(hca, *datagram_of(packet))
            else:
                receive(hca, packet, len(frame))

    def run(self):
        """Let through what is on its way now, as much as in a round; False when nothing was."""
        waiting = min(len(self.frames), PACKETS_PER_ROUND)
        for _ in range(waiting):
            self.deliver()
        return waiting > 0

    def settle(self, most=100_000):
        """Run functions and deliver frames until nothing moves any more."""
        for _ in range(most):
            for hca in self.nodes.values():
                hca.round.begin()
            busy = [lifecycle.run(hca) for hca in list(self.nodes.values())]
            if not self.deliver() and not any(busy):
                return
        raise AssertionError("the wire never falls silent")
