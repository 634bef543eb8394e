"""The points of Ethernet frames and of the receive WQEs that they fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from emu.device.engine.eth import queues, receive
from emu.device.engine.eth.receive import FRAME_RX_POINT
from emu.device.engine.eth.requests import RECEIVE_POINT
from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.faults.delivery_actions import Delayable, Losable, Reorderable, Repeatable
from emu.device.faults.event import Event, EventField, FaultPacket, RuleInjector
from emu.device.faults.parameters import AT, DATA
from emu.device.faults.registry import action, point
from emu.device.faults.rule import Rule
from emu.device.objects.eth.rq import Rq
from emu.device.objects.queues.receive_queue import RecvWqe
from emu.device.port.eth.fcs import Damaged, fcs_of
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import FrameError, parse
from emu.device.port.eth.plain import plain
from emu.device.port.eth.traffic import GROUP_BIT

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca

_FIELDS = (
    EventField("length", int, is_recorded=True), EventField("gso_size", int, is_recorded=True),
    EventField("ethertype", int, is_recorded=True), EventField("protocol", int, is_recorded=True),
    EventField("source_port", int), EventField("destination_port", int),
    EventField("multicast", int),
)  # fmt: skip


class _OfFrame(Losable[None], Delayable[None], Repeatable[None], Reorderable[None]):
    """A frame, or a super-frame, for which ``gso_size`` is not 0."""

    __slots__ = (
        "destination_port", "ethertype", "frame", "gso_size", "length", "multicast", "protocol",
        "source_port",
    )  # fmt: skip
    is_sent: ClassVar[bool]

    def __init__(self, faults: RuleInjector, frame: Frame) -> None:
        super().__init__(faults)
        self.frame = frame
        data = frame.data
        self.length, self.gso_size = len(data), frame.gso_size
        self.multicast = data[0] & GROUP_BIT if data else 0
        try:
            headers = parse(data, whole=False)
        except FrameError:
            self.ethertype = self.protocol = 0
            ports = b""
        else:
            self.ethertype, self.protocol = headers.ethertype, headers.protocol
            ports = headers.ports
        self.source_port = int.from_bytes(ports[:2], "big")
        self.destination_port = int.from_bytes(ports[2:], "big")

    @property
    def packet(self) -> FaultPacket:
        """The frame."""
        return self

    @property
    def carried(self) -> object:
        """Bytes of the frame."""
        return self.frame.data

    def frame_bytes(self) -> bytes:
        """Return the frame, a super-frame as a whole."""
        return self.frame.data

    def _changed(
        self,
        change: Callable[[bytearray], None],
        finish: Callable[[Frame], Frame] = lambda frame: frame,
    ) -> None:
        """Continue with changed bytes, whose checksums are not validated any more.

        ``change`` alters the bytes in place. A super-frame is cut into packets, of which only the
        first one changes and passes through ``finish``. Queue, source vPort and registers stay.
        """
        try:
            first, *others = plain(self.frame)
        except FrameError:
            first, others = self.frame.data, []
        frame = replace(self.frame, gso_size=0, checked=False, filled=False, parsed=None)
        data = bytearray(first)
        change(data)
        self.frame = finish(replace(frame, data=bytes(data)))
        self.go_on()
        for other in others:
            self.frame = replace(frame, data=other)
            self.go_on()

    @action("data replaces the first bytes", needs=[DATA])
    def replace(self, rule: Rule) -> None:
        """Overwrite the first bytes; the length is kept, and checksums are not recomputed."""
        new = bytes.fromhex(rule["data"])

        def change(data: bytearray) -> None:
            part = new[: len(data)]
            data[: len(part)] = part

        self._changed(change)

    @action("the byte at offset `at`, or the last byte, is inverted", takes=[AT])
    def corrupt(self, rule: Rule) -> None:
        """Invert the byte at ``at``, or the last one; checksums in the frame are not recomputed.

        The frame check sequence is valid again: the port does not notice (``damage`` does that).
        """
        self._changed(lambda data: _invert(data, rule))


def _invert(data: bytearray, rule: Rule) -> None:
    """Invert the byte at the rule's ``at``, or the last one; an empty frame is left alone."""
    if data:
        at = len(data) - 1 if rule["at"] is None else min(rule["at"], len(data) - 1)
        data[at] ^= 0xFF


@point(FRAME_TX_POINT, "an Ethernet frame is sent", *_FIELDS)
class FrameLeaves(_OfFrame):
    """A frame that has been counted as sent."""

    __slots__ = ("_by",)
    is_sent: ClassVar[bool] = True

    def __init__(self, faults: RuleInjector, frame: Frame, by: Vhca[Hca]) -> None:
        super().__init__(faults, frame)
        self._by = by

    def go_on(self) -> None:
        """Send it on the wire by its port, in a LAG perhaps that of another function."""
        if (node := self._by.node) is not None:
            node.switch.forward(node, self.frame)


@point(FRAME_RX_POINT, "an Ethernet frame arrives", *_FIELDS)
class FrameArrives(_OfFrame):
    """A received frame before any processing."""

    __slots__ = ()
    is_sent: ClassVar[bool] = False

    def go_on(self) -> None:
        """Queue the frame for reception: the port checks, steers and delivers it."""
        if isinstance(self.frame, Damaged):
            receive.enqueue_damaged(self.faults.hca, self.frame)
        else:
            receive.enqueue(self.faults.hca, self.frame)

    @action(
        "the byte at offset `at`, or the last byte, is inverted; the frame check sequence is wrong",
        takes=[AT],
    )
    def damage(self, rule: Rule) -> None:
        """Invert one byte behind a frame check sequence of the former bytes.

        The port drops the frame and counts an error, unless checks are off (rx-all).
        """
        right = b""

        def change(data: bytearray) -> None:
            nonlocal right
            right = fcs_of(bytes(data))
            _invert(data, rule)

        self._changed(change, lambda frame: Damaged.of(frame, right))


@point(
    RECEIVE_POINT, "a packet is about to fill a receive request of an Ethernet queue",
    EventField("rqn", int), EventField("index", int), EventField("length", int, is_recorded=True),
)  # fmt: skip
class ReceiveRequestEvent(Event[bool]):
    """The receive WQE for a packet; its result is whether the packet may fill it."""

    __slots__ = ("_rq", "_wqe", "index", "length", "rqn")

    def __init__(self, faults: RuleInjector, rq: Rq, wqe: RecvWqe, length: int) -> None:
        super().__init__(faults)
        self._rq = rq
        self._wqe = wqe
        self.rqn, self.index, self.length = rq.handle, wqe.index, length

    def go_on(self) -> bool:
        """Allow the packet to fill it."""
        return True

    @action("the packet is dropped, as if no receive request were posted")
    def drop(self, _rule: Rule) -> bool:
        """Count the packet in ``out_of_buffer``, and leave the WQE to the next one.

        A striding queue keeps its current WQE. Return False.
        """
        if self._rq.strides is None:
            self._rq.queue.give_back(self._wqe)
        self._rq.count("out_of_buffer")
        return False

    @action("the receive request completes in error and its queue stops")
    def fail(self, rule: Rule) -> bool:
        """Complete the WQE in error, as for a key without access rights; return False.

        The queue stops.
        """
        queues.fail_receive(self.faults.hca, self._rq, self._wqe.index, f"fault {rule.name}")
        return False
