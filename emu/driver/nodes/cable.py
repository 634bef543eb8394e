"""Cable that a test controls, between functions that do not see each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NO_LIMIT
from emu.device.ports import Buffer, CarryTrain
from emu.device.state.hca import Hca
from emu.driver.world.cable import arrive, arrive_train
from emu.driver.world.clock import HandClock


class Cable:
    """Wire that the caller controls: frames wait until :meth:`run` delivers them.

    The functions on it do not see each other, as if they were in different processes. ``tap`` gets
    every frame in flight and returns the frames to deliver instead.
    """

    changes = 0
    wants_packets = False

    def __init__(
        self,
        frames: deque[tuple[Cable, Frame | bytes]] | None = None,
        cables: list[Cable] | None = None,
    ) -> None:
        """Create an end; both ends of a cable have the same ``frames`` and ``cables``."""
        self.hca: Hca | None = None
        self.frames: deque[tuple[Cable, Frame | bytes]] = deque() if frames is None else frames
        self.cables: list[Cable] = [] if cables is None else cables
        self.cables.append(self)
        self.tap: Callable[[bytes], Iterable[bytes]] = lambda frame: [frame]
        self.sent: list[bytes] = []
        self.takes_trains = False
        """Whether packets of RoCE may be sent as trains."""
        self.room = 1 << 30
        """Number of frames in flight at which senders should wait."""
        self.waiting: list[Callable[[], None]] = []

    def other(self) -> Cable:
        """Return the other end of the same cable."""
        return Cable(self.frames, self.cables)

    def nodes(self) -> Iterable[Hca]:
        """Return the function at this end alone."""
        return [] if self.hca is None else [self.hca]

    def attach(self, node: Hca, /) -> None:
        """Attach the function at this end, or record its state after a reset."""
        self.hca = node
        self.changes += 1

    def port_changed(self, node: Hca, /) -> None:
        """Record the port's new state, like ``attach``."""
        self.changes += 1

    def is_pausing_to(self, mac: bytes, /) -> bool:
        """Return whether ``room`` frames are in flight, whoever the receiver is."""
        return len(self.frames) >= self.room

    def when_ready_to(self, mac: bytes, callback: Callable[[], None], /) -> None:
        """Call back in the next :meth:`run`."""
        self.waiting.append(callback)

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int, /) -> int:
        """Return no limit: the cable keeps all frames."""
        return NO_LIMIT

    def train_to(self, mac: bytes, /) -> CarryTrain | None:
        """Return a sink that keeps a train for the next :meth:`run`; None if trains are off."""
        return self._keep_train if self.takes_trains else None

    def _keep_train(self, pieces: Sequence[Buffer]) -> bool:
        self.frames.append((self, b"".join(pieces)))
        return len(self.frames) < self.room

    def transmit(self, source: Hca, frame: Frame, /) -> None:
        """Keep the frame for the next :meth:`run`."""
        self.sent.append(frame.data)
        self.frames.append((self, frame))

    def poll(self) -> bool:
        """Deliver everything that is in flight now to the other ends.

        Return False when nothing was. Frames pass the sender's ``tap``; trains do not. Then calls
        all callbacks of :meth:`when_ready_to`, even when frames wait. Frames that delivery causes
        stay for the next call.
        """
        waiting = len(self.frames)
        for _ in range(waiting):
            source, frame = self.frames.popleft()
            if isinstance(frame, bytes):
                for cable in self.cables:
                    if cable is not source and cable.hca is not None:
                        arrive_train(cable.hca, memoryview(frame))
                continue
            for data in source.tap(frame.data):
                for cable in self.cables:
                    if cable is not source and cable.hca is not None:
                        arrive(cable.hca, replace(frame, data=data))
        for cable in self.cables:
            callbacks, cable.waiting = cable.waiting, []
            for callback in callbacks:
                callback()
        return waiting > 0


class DueTimers:
    """Timers that are due, run together with the functions."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock

    def poll(self) -> bool:
        """Run the due timers without advancing the time.

        Return whether the number of pending calls changed.
        """
        before = self._clock.waiting()
        self._clock.advance(0)
        return self._clock.waiting() != before
