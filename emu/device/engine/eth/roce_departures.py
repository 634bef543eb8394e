"""RoCE frames that leave by the port: they wait while the way is full, or the vPort's rate used up.

Source: PRM "Congestion control"; core/esw/qos.c, whose rates are for all that a vPort sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.gids import MAC_BYTES
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.port.eth.wire import EthWire
from emu.device.state.cancellable_call import CancellableCall

if TYPE_CHECKING:
    from emu.device.ports import Timer
    from emu.device.state.hca import Hca

MAX_HELD: Final = 1024
"""Frames that are kept for functions of this process, and as many to other processes while the way
there is full. Not everybody waits: datagrams never do."""


class Departures:
    """What one function sends to others by its port."""

    def __init__(self, eth: EthWire[Hca], has_room: Callable[[], None]) -> None:
        """``has_room`` is called when nothing waits any more."""
        self._eth = eth
        self._has_room = has_room
        self.waiting: deque[bytes] = deque()
        """Frames that wait."""
        self._room: list[CancellableCall] = []
        """What the port calls when there is room on the way."""
        self._next: Timer | None = None
        """When the vPort's rate lets the next frame through."""

    def clear(self) -> None:
        """Nothing that waits is wanted any more."""
        self.waiting.clear()
        for room in self._room:
            room.cancel()
        self._room.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def send(self, source: Hca, frame: bytes) -> bool:
        """Put a frame on the port's wire, or keep it; False when the next one should wait.

        Later frames wait behind one that is kept: all have the same priority.
        """
        mac = frame[:MAC_BYTES]
        if not self.waiting and not self.must_wait(source, mac):
            self._put(source, frame)
            return not self.must_wait(source, mac)
        if len(self.waiting) >= MAX_HELD:
            source.roce.dropped["queue full"] += 1
            return False
        self.waiting.append(frame)
        if len(self.waiting) == 1:
            self.await_room(source, mac)
        return False

    def _put(self, source: Hca, frame: bytes) -> None:
        if source.roce_pacing is not None:
            source.roce_pacing.charge(len(frame) + FCS_BYTES, source.clock.now_ns())
        self._eth.transmit(source, Frame(frame))

    def must_wait(self, source: Hca, mac: bytes) -> bool:
        """Whether the way to an address is full, or the vPort's rate used up."""
        return self._eth.is_pausing_to(mac) or self._delay(source) > 0

    @staticmethod
    def _delay(source: Hca, *, wants: bool = False) -> int:
        """In how many nanoseconds the vPort's rate lets the next frame through.

        While nobody ``wants`` to send one, the interface's queues need not wait for it.
        """
        if source.roce_pacing is None:
            return 0
        return source.roce_pacing.delay(source.clock.now_ns(), wants=wants)

    def await_room(self, source: Hca, mac: bytes) -> None:
        """Go on when frames to this address may be sent: the port tells, or a timer."""
        if self._eth.is_pausing_to(mac):
            room = CancellableCall(partial(self._release, source))
            self._room.append(room)
            self._eth.when_room_to(mac, room)
        elif self._next is None:
            delay = self._delay(source, wants=True)
            self._next = source.port_clock.call_later(delay, partial(self._its_time, source))

    def _its_time(self, source: Hca) -> None:
        self._next = None
        self._release(source)

    def _release(self, source: Hca) -> None:
        """Send what was kept, and tell those who wait when nothing is left."""
        self._room = [room for room in self._room if room.is_pending]
        while self.waiting:
            mac = self.waiting[0][:MAC_BYTES]
            if self.must_wait(source, mac):
                self.await_room(source, mac)
                return
            self._put(source, self.waiting.popleft())
        if source.roce_pacing is not None:
            source.roce_pacing.rest()
        self._has_room()
