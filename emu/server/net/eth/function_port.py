"""The port of a segment that a function's cable is plugged into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from emu.device.engine.eth.roce import arrive_train
from emu.device.engine.eth.rx_credits import MANY, emptiest, expire_credits
from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.frame import Frame
from emu.device.port.train import Train
from emu.device.ports import Buffer, CarryTrain
from emu.server.net.eth.link_packets import link_packets
from emu.server.net.eth.port import SegmentPort
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.link.direction import LinkDirection

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


IGNORED_NS = 10_000_000_000
"""Time during which no sender waits for a function that had no receive requests for longer than
``FlowControl.patience_ns``."""


class FrameWatcher(Protocol):
    """Observes the frames at the port, and forwards them by ``carry``."""

    def sent(self, port: FunctionPort, frame: Frame, carry: Callable[[], None]) -> None:
        """Observe a frame that the function sends, and call ``carry``, which forwards the frame."""

    def received(self, hca: Hca, frame: Frame, carry: Callable[[], None]) -> None:
        """Observe a frame that the function receives, and call ``carry``, which delivers it."""


class FunctionPort(SegmentPort):
    """Implements :class:`emu.device.port.eth.wire.EthWire` for one function."""

    def __init__(self, name: str, switch: SegmentSwitch) -> None:
        super().__init__(name)
        self._switch = switch
        self._hca: Hca | None = None
        self.watcher: FrameWatcher | None = None
        self.shows_messages = False
        """Whether RoCE messages to functions of this process become frames for observers."""
        self.tx_link: LinkDirection | None = None
        """Link for the frames that the function sends, if any."""
        self.rx_link: LinkDirection | None = None
        """Link for the frames that the function receives, if any."""
        self._full_since_ns = self._ignored_until_ns = 0
        self._sender: FunctionPort | None = None
        """Port whose functions may have credits of this one."""
        switch.add(self)

    @property
    def is_up(self) -> bool:
        """Whether the function's link is up."""
        return self._hca is not None and self._hca.nic_vport.is_up

    # -- the function's side

    @property
    def wants_packets(self) -> bool:
        """Whether RoCE messages to functions of this process become frames."""
        return self.tx_link is not None or self.rx_link is not None or self.shows_messages

    @property
    def changes(self) -> int:
        """Number that grows with every change of the segment's ports or of the addresses behind
        them.
        """
        return self._switch.changes

    def nodes(self) -> Iterable[Hca]:
        """Yield the attached functions of this process on the same segment, this one included."""
        for port in self._switch.ports:
            if isinstance(port, FunctionPort) and port._hca is not None:
                yield port._hca

    def attach(self, node: Hca) -> None:
        """Connect the function, in place of its old state after a reset; forget its addresses.

        Credits for the receive queues of the old state expire.
        """
        self._hca = node
        self._switch.forget(self)
        self._expire_credits()

    def port_changed(self, node: Hca) -> None:
        """Forget learned addresses after the function's port changed its state or addresses.

        Do nothing for a function that another has replaced.
        """
        if node is self._hca:
            self._switch.forget(self)

    def transmit(self, source: Hca, frame: Frame) -> None:
        """Send a frame into the segment, through the link and past the watcher, if any.

        Count "down" for a replaced function or one whose port is down.
        """
        if source is not self._hca or not source.nic_vport.is_up:
            self.dropped["down"] += 1
            return
        if self.watcher is None and self.tx_link is None:  # most ports
            self._switch.forward(self, frame)
        elif self.watcher is None:
            self._send_into_segment(frame)
        else:
            self.watcher.sent(self, frame, partial(self._send_into_segment, frame))

    def _send_into_segment(self, frame: Frame) -> None:
        """Send a frame into the segment, or its single frames through the link if there is one."""
        if self.tx_link is None:
            self._switch.forward(self, frame)
        else:
            carry = partial(self._switch.forward, self)
            self.tx_link.take_all(link_packets(frame, carry), len(frame.data))

    def train_to(self, mac: bytes) -> CarryTrain | None:
        """Return the sender of trains to an address; None when frames must be sent singly.

        Causes are a watcher, a link, a port that is down, and an address without a usable port.
        """
        hca = self._hca
        if self.watcher is not None or self.tx_link is not None or hca is None:
            return None
        return self._switch.train_to(self, mac) if hca.nic_vport.is_up else None

    def is_pausing_to(self, mac: bytes) -> bool:
        """Return whether senders to an address should pause: the link or the port there is full."""
        if self.tx_link is not None and self.tx_link.is_pausing:
            return True
        port = self._switch.port_of(mac)
        return port is not None and port.is_pausing

    def when_ready_to(self, mac: bytes, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when senders to an address need not pause.

        Only one cause is awaited, the link or the port; the caller asks :meth:`is_pausing_to`
        again. An unknown address calls at once.
        """
        if self.tx_link is not None and self.tx_link.is_pausing:
            self.tx_link.when_ready(callback)
            return
        port = self._switch.port_of(mac)
        if port is None:
            callback()
        else:
            port.when_ready(callback)

    def credits_to(self, mac: bytes, packets: int, flow: FlowControl, priority: int) -> int:
        """Return the number of frames that the function at an address accepts, 0 to pause.

        Return MANY unless the address is another function of this process, and both sides use flow
        control for ``priority``. Credits of other functions for that port expire: together they
        could send more than its receive queues take.
        """
        port = self._switch.port_of(mac)
        if not isinstance(port, FunctionPort) or port is self:
            return MANY
        hca = port._hca
        if hca is None or hca.health.has_failed or not flow.waits_for(hca.eth.flow, priority):
            return MANY
        port._expire_credits()
        port._sender = self
        return port.credits(self._switch.now_ns(), packets)

    def _expire_credits(self) -> None:
        """Make the functions that may have credits of this port poll before they send again."""
        sender, self._sender = self._sender, None
        if sender is not None and sender._hca is not None:
            expire_credits(sender._hca.adapter)

    # -- the segment's side

    def credits(self, now_ns: int, packets: int = 1) -> int:
        """Return the function's number of free receive requests; MANY if it sends no pause frames.

        The result is 0 below ``packets``, or below half of the queue if that is less. A change to
        or from 0 counts a pause frame in the function's flow control. After the patience at 0,
        count a storm and return MANY for IGNORED_NS.
        """
        if not self.is_up or now_ns < self._ignored_until_ns or self._hca is None:
            return MANY
        flow = self._hca.eth.flow
        if not flow.holds_up:
            return MANY
        found, size = emptiest(self._hca)
        if found < min(packets, size // 2):
            found = 0
        since = self._full_since_ns
        if not since:
            if not found:
                self._full_since_ns = now_ns
                flow.count_pause_sent()
        elif found:
            self._full_since_ns = 0
            flow.count_resume_sent(now_ns - since)
        elif now_ns - since > flow.patience_ns:
            self._full_since_ns = 0
            flow.count_storm(now_ns - since)
            self._ignored_until_ns = now_ns + IGNORED_NS
            return MANY
        return found

    def deliver(self, frame: Frame) -> None:
        """Send a frame to the function, or its single frames through the link if there is one."""
        if self.rx_link is None:
            self._deliver_to_function(frame)
        else:
            self.rx_link.take_all(link_packets(frame, self._deliver_to_function), len(frame.data))

    @property
    def takes_trains(self) -> bool:
        """Whether no link and no watcher needs single frames."""
        return self.watcher is None and self.rx_link is None

    def deliver_train(self, pieces: Sequence[Buffer], train: Train | None = None) -> bool:
        """Deliver a train to the function, and return True: senders never pause here.

        Count "down" without a function or for a failed one. An exception stops only that function.
        """
        hca = self._hca
        if hca is None or hca.health.has_failed:
            self.dropped["down"] += 1
            return True
        self.sent += 1
        try:
            arrive_train(hca, train or memoryview(b"".join(pieces)))
        except Exception:
            hca.health.fail()
        return True

    def _deliver_to_function(self, frame: Frame) -> None:
        """Deliver a frame to the function, past the watcher if there is one.

        Count "down" without a function or for a failed one. An exception stops only that function.
        """
        hca = self._hca
        if hca is None or hca.health.has_failed:
            self.dropped["down"] += 1
            return
        self.sent += 1
        try:
            if self.watcher is None:
                hca.switch.receive(frame)
            else:
                self.watcher.received(hca, frame, partial(hca.switch.receive, frame))
        except Exception:
            hca.health.fail()
