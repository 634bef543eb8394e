"""Outgoing RoCE frames: held while the path is full or the vPort's rate is used up.

Source: PRM "Congestion control"; core/esw/qos.c, whose rates cover all frames of a vPort.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.pacing import follow_roce, roce_class
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.gids import MAC_BYTES
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.port.eth.wire import EthWire
from emu.device.state.cancellable_call import CancellableCall

if TYPE_CHECKING:
    from emu.device.ports import Clock, Timer
    from emu.device.state.hca import Hca
    from emu.device.state.parts.rates import Rates

MAX_HELD: Final = 1024
"""Number of frames held for functions of this process, and again for other processes while the path
is full. Not every sender waits: datagrams never do."""


class Departures:
    """Frames that one function sends to others by its port."""

    def __init__(self, eth: EthWire[Hca], on_drained: Callable[[], None]) -> None:
        """Set up an empty backlog; ``on_drained`` is called when it has been drained."""
        self._eth = eth
        self._on_drained = on_drained
        self.waiting: deque[tuple[Frame, int]] = deque()
        """Backlog of frames, with their traffic classes."""
        self._callbacks: list[CancellableCall] = []
        """Callbacks that the port calls when the path has space."""
        self._next: Timer | None = None
        """Timer for the next frame that the vPort's rate allows."""

    def clear(self) -> None:
        """Discard the backlog uncounted, and cancel all callbacks and timers."""
        self.waiting.clear()
        for call in self._callbacks:
            call.cancel()
        self._callbacks.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def send(self, source: Hca, frame: bytes, sqn: int = 0, sl: int | None = None) -> bool:
        """Send a frame of a queue or hold it; return False when the next one should wait.

        ``sl`` is that of a datagram's address vector. Later frames wait behind a held frame,
        whatever their priorities. Beyond MAX_HELD held frames, the frame is dropped and counted as
        "queue full".
        """
        mac, is_paced = frame[:MAC_BYTES], source.rates.roce is not None
        traffic_class = roce_class(source, frame, sqn, sl) if is_paced else 0
        if not self.waiting:
            if is_paced:
                follow_roce(source, traffic_class)
            if not self.must_wait(source.rates, source.clock, mac):
                self._put(source, Frame(frame, sqn=sqn))
                return not self.must_wait(source.rates, source.clock, mac)
        if len(self.waiting) >= MAX_HELD:
            source.roce.dropped["queue full"] += 1
            return False
        self.waiting.append((Frame(frame, sqn=sqn), traffic_class))
        if len(self.waiting) == 1:
            self.await_ready(source, mac)
        return False

    def _put(self, source: Hca, frame: Frame) -> None:
        if source.rates.roce is not None:
            source.rates.roce.charge(len(frame.data) + FCS_BYTES, source.clock.now_ns())
        self._eth.transmit(source, frame)

    def must_wait(self, rates: Rates, clock: Clock, mac: bytes) -> bool:
        """Return whether the path to an address is full, or the vPort's rate is used up."""
        if self._eth.is_pausing_to(mac):
            return True
        return rates.roce is not None and self._delay(rates, clock) > 0

    @staticmethod
    def _delay(rates: Rates, clock: Clock, *, wants: bool = False) -> int:
        """Return the nanoseconds until the vPort's rate allows the next frame; 0 without a rate.

        With ``wants``, the interface's other queues then let RoCE send first.
        """
        if rates.roce is None:
            return 0
        return rates.roce.delay(clock.now_ns(), wants=wants)

    def await_ready(self, source: Hca, mac: bytes) -> None:
        """Schedule the backlog's release: by the port's callback for a full path, else by timer."""
        if self._eth.is_pausing_to(mac):
            call = CancellableCall(partial(self._release, source))
            self._callbacks.append(call)
            self._eth.when_ready_to(mac, call)
        elif self._next is None:
            delay = self._delay(source.rates, source.clock, wants=True)
            self._next = source.port_clock.call_later(delay, partial(self._on_timer, source))

    def _on_timer(self, source: Hca) -> None:
        self._next = None
        self._release(source)

    def _release(self, source: Hca) -> None:
        """Send the held frames while the path permits; call ``on_drained`` when none is left."""
        self._callbacks = [call for call in self._callbacks if call.is_pending]
        while self.waiting:
            frame, traffic_class = self.waiting[0]
            mac = frame.data[:MAC_BYTES]
            follow_roce(source, traffic_class)
            if self.must_wait(source.rates, source.clock, mac):
                self.await_ready(source, mac)
                return
            self.waiting.popleft()
            self._put(source, frame)
        if source.rates.roce is not None:
            source.rates.roce.stop_waiting()
        self._on_drained()
