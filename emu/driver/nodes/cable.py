"""A cable in a test's hand, between functions that do not see each other."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from emu.device.engine.eth.receive import arrive


class Cable:
    """An ``EthWire`` in the test's hand: frames wait until the test lets them through.

    The functions on it do not see each other, as if they were in different processes. ``tap`` sees
    every frame on its way and gives the frames that arrive instead.
    """

    changes = 0
    wants_packets = False

    def __init__(self, clock, frames=None, cables=None):
        self.clock = clock
        self.hca = None
        self.frames = deque() if frames is None else frames
        self.cables = [] if cables is None else cables
        self.cables.append(self)
        self.tap = lambda frame: [frame]
        self.sent = []
        self.room = 1 << 30
        """How many frames fit before senders should wait."""
        self.waiting = []

    def other(self):
        """The other end of the same cable."""
        return Cable(self.clock, self.frames, self.cables)

    def nodes(self):
        return [self.hca]

    def attach(self, hca):
        self.hca = hca
        self.changes += 1

    def port_changed(self, hca):
        self.changes += 1

    def is_pausing_to(self, mac):
        return len(self.frames) >= self.room

    def when_room_to(self, mac, callback):
        self.waiting.append(callback)

    def transmit(self, source, frame):
        self.sent.append(frame.data)
        self.frames.append((self, frame))

    def run(self):
        """Let everything through that is on its way now; False when nothing was."""
        waiting = len(self.frames)
        for _ in range(waiting):
            source, frame = self.frames.popleft()
            for data in source.tap(frame.data):
                for cable in self.cables:
                    if cable is not source:
                        arrive(cable.hca, replace(frame, data=data))
        for cable in self.cables:
            callbacks, cable.waiting = cable.waiting, []
            for callback in callbacks:
                callback()
        return waiting > 0


class DueTimers:
    """Lets run, with the functions, what they want done in the next round."""

    def __init__(self, clock):
        self._clock = clock

    def run(self):
        """Move no time, and run what is due."""
        before = self._clock.waiting()
        self._clock.advance(0)
        return self._clock.waiting() != before
