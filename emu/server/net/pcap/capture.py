"""``--pcap``: records the packets at the port of each function.

A frame between two functions of a process appears at both ports. A comment states that the frame
was dropped and why, and which fault has fired for it (``faults.py``). An exception here is logged
and delays no packet; an entry of the journal replaces the packet in the file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from emu.device.port.eth.frame import Frame
from emu.device.port.ib.datagram_packets import frame_of
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.pcap.faults import CaptureInterface
from emu.server.net.pcap.file import Place

if TYPE_CHECKING:
    from emu.device.port.datagram import Datagram, Origin
    from emu.device.ports import Buffer
    from emu.device.state.hca import Hca

_MAX_COUNTERS = 64
"""Maximum number of counter sets examined for each frame; a driver has a few."""


class EthernetInterface(CaptureInterface):
    """Implements :class:`emu.server.net.eth.function_port.FrameWatcher`."""

    def encode(self, _time_ns: int, data: bytes) -> bytes:
        """Return the frame itself."""
        return data

    def sent(self, port: FunctionPort, frame: Frame, carry: Callable[[], None]) -> None:
        """Forward a frame that the function sends by ``carry``, and record it with its outcome.

        The record names the reasons that counted a drop during ``carry``, and precedes the packets
        that ``carry`` causes. Exceptions of ``carry`` pass through; the frame is recorded anyway.
        """
        self._record(frame, port.dropped, carry, is_sent=True)

    def received(self, hca: Hca, frame: Frame, carry: Callable[[], None]) -> None:
        """Forward a frame that the function receives by ``carry``, and record it with its outcome.

        The record names the reasons that counted a drop during ``carry``, and precedes the packets
        that ``carry`` causes. Exceptions of ``carry`` pass through; the frame is recorded anyway.
        """
        self._record(frame, _Discarded(hca), carry, is_sent=False)

    def _record(
        self, frame: Frame, dropped: Counter[str] | _Discarded, carry: Callable[[], None],
        *, is_sent: bool,
    ) -> None:  # fmt: skip
        """Reserve the frame's position in the file, forward the frame, and fill the position.

        Packets that ``carry`` causes thus come behind it. Exceptions of ``carry`` pass through
        after the frame is recorded. An unreadable counter is logged, and the frame is recorded
        without a reason.
        """
        place, now = self.file.reserve(), time.time_ns()
        comments = self.begin(frame.data, is_sent=is_sent)
        before: Mapping[str, int] = {}
        try:
            before = dict(dropped.items())
        except Exception:
            self.errors.note("counters")
        try:
            carry()
        finally:
            self.end(is_sent=is_sent)
            self._put(place, now, frame, before, dropped, comments, is_sent)

    def _put(
        self, place: Place, now: int, frame: Frame, before: Mapping[str, int],
        dropped: Counter[str] | _Discarded, comments: list[str], is_sent: bool,
    ) -> None:  # fmt: skip
        """Fill the frame's position in the file, with an entry of the journal if that fails."""
        try:
            block = self._block(now, frame, before, dropped, comments, is_sent)
        except Exception:
            block = self.failed("frame")
        self.file.put(place, block)

    def _block(
        self, now: int, frame: Frame, before: Mapping[str, int],
        dropped: Counter[str] | _Discarded, comments: list[str], is_sent: bool,
    ) -> bytes:  # fmt: skip
        """Return the frame's block with faults and drop reasons as comment; empty without space."""
        if not self.file.may_queue(len(frame.data)):
            return b""
        why = [name for name, count in dropped.items() if count > before.get(name, 0)]
        text = "; ".join([*comments, *([f"dropped: {', '.join(why)}"] if why else [])])
        return self.packet(now, frame.data, is_sent, text)


class _Discarded:
    """Frames that a function has dropped, by reason."""

    def __init__(self, hca: Hca) -> None:
        self._hca = hca

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield reason and count of the drops of the port, its vPort and its receive queues.

        At most _MAX_COUNTERS queue counters are summed.
        """
        vport, counters = self._hca.nic_vport, self._hca.counters
        yield "bad, or longer than the MTU", vport.received.errors
        yield "link down", vport.received.discards
        yield "no flow entry", vport.steering_discards
        yield "receive request too small", vport.wqe_too_small
        some = islice(counters, _MAX_COUNTERS)
        yield "no receive request", sum(one.values.get("out_of_buffer", 0) for one in some)


class SubnetWatcher:
    """Implements :class:`net.ib.local.PacketWatcher` for the InfiniBand functions of a process."""

    def __init__(self, *, wants_messages: bool) -> None:
        """Create a watcher; with ``wants_messages``, messages inside the process become packets."""
        self.wants_messages = wants_messages
        self._interfaces: dict[int, CaptureInterface] = {}

    def add(self, lid: int, interface: CaptureInterface) -> None:
        """Add the interface of the function with this LID."""
        self._interfaces[lid] = interface

    def packet(self, lid: int, frame: Buffer, *, is_sent: bool) -> None:
        """Record a packet at the port with this LID; ignore unknown ports and a closed file."""
        self._record(lid, frame, lambda: frame, is_sent)

    def datagram(self, lid: int, packet: Datagram, origin: Origin, *, is_sent: bool) -> None:
        """Record a datagram, as the packet with its headers, at the port with this LID.

        Unknown ports and a closed file are ignored.
        """
        self._record(lid, packet, lambda: frame_of(packet, origin), is_sent)

    def _record(
        self, lid: int, carried: object, frame: Callable[[], Buffer], is_sent: bool
    ) -> None:
        """Add the block of a packet, or an entry of the journal if an exception occurs.

        ``carried`` is the object that the wire carries. Never raises; do nothing for an unknown
        port, a closed file, or a file without space, which counts the packet as lost.
        """
        interface = self._interfaces.get(lid)
        if interface is None or not interface.file.is_open:
            return
        try:
            interface.record(carried, bytes(frame()), is_sent=is_sent)
        except Exception:
            interface.file.add(interface.failed("packet"))
