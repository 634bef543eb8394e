"""``--pcap``: shows the file what passes the port of each function.

A frame appears where it passes: one between two functions of a process at both of them. A comment
says that it was dropped and why, and which faults have fired at the function since its last packet.
An exception here is logged and does not keep a packet from its way: a remark stands in its place.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from emu.device.port.eth.frame import Frame
from emu.device.port.ib.datagram_packets import frame_of
from emu.device.state.observers import UNREADABLE, ObserverErrors
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.pcap import blocks
from emu.server.net.pcap.file import PcapFile, Place

if TYPE_CHECKING:
    from emu.device.port.datagram import Datagram, Origin
    from emu.device.ports import Buffer
    from emu.device.state.hca import Hca

_MAX_COUNTERS = 64
"""Counter sets that are looked at for each frame: a driver has a few, programs may have more."""
_MAX_FAULTS = 8
"""Faults that the comment of one packet names."""


class Interface:
    """One function in the file."""

    def __init__(self, file: PcapFile, number: int) -> None:
        self.file = file
        self.number = number
        self.errors = ObserverErrors("capture")
        self._faults: list[str] = []
        self._left_out = 0

    def fault(self, text: str) -> None:
        """A fault has fired at the function."""
        if len(self._faults) < _MAX_FAULTS:
            self._faults.append(text)
        else:
            self._left_out += 1

    def comment(self, text: str) -> str:
        """The comment of the next packet: this text, and the faults before it."""
        if not self._faults:
            return text
        more = [f"and {self._left_out} more"] if self._left_out else []
        said = "; ".join([*self._faults, *more, *([text] if text else [])])
        self._faults, self._left_out = [], 0
        return said

    def failed(self, place: str) -> bytes:
        """Log the exception that is being handled; return a block that stands for the packet."""
        self.errors.note(place)
        return blocks.remark(self.number, time.time_ns(), f"a {place} {UNREADABLE}")

    def close(self) -> None:
        """Faults after the last packet."""
        if said := self.comment(""):
            self.file.add(blocks.remark(self.number, time.time_ns(), said))


class EthernetInterface(Interface):
    """Implements :class:`emu.server.net.eth.function_port.FrameWatcher`."""

    def sent(self, port: FunctionPort, frame: Frame, carry: Callable[[], None]) -> None:
        """The function sends a frame."""
        self._pass(frame, port.dropped, carry, is_sent=True)

    def received(self, hca: Hca, frame: Frame, carry: Callable[[], None]) -> None:
        """The function gets a frame."""
        self._pass(frame, _Discarded(hca), carry, is_sent=False)

    def _pass(
        self, frame: Frame, dropped: Counter[str] | _Discarded, carry: Callable[[], None],
        *, is_sent: bool,
    ) -> None:  # fmt: skip
        place, now = self.file.reserve(), time.time_ns()
        before: Mapping[str, int] = {}
        try:
            before = dict(dropped.items())
        except Exception:
            self.errors.note("counters")
        try:
            carry()
        finally:
            self._put(place, now, frame, before, dropped, is_sent)

    def _put(
        self, place: Place, now: int, frame: Frame, before: Mapping[str, int],
        dropped: Counter[str] | _Discarded, is_sent: bool,
    ) -> None:  # fmt: skip
        """Fill the frame's place in the file, with a remark if that fails."""
        try:
            block = self._block(now, frame, before, dropped, is_sent)
        except Exception:
            block = self.failed("frame")
        self.file.put(place, block)

    def _block(
        self, now: int, frame: Frame, before: Mapping[str, int],
        dropped: Counter[str] | _Discarded, is_sent: bool,
    ) -> bytes:  # fmt: skip
        if not self.file.has_room(len(frame.data)):
            return b""
        why = [name for name, count in dropped.items() if count > before.get(name, 0)]
        text = self.comment(f"dropped: {', '.join(why)}" if why else "")
        return blocks.packet(self.number, now, frame.data, is_sent, text)


class _Discarded:
    """What a function has not taken, by reason."""

    def __init__(self, hca: Hca) -> None:
        self._hca = hca

    def items(self) -> Iterator[tuple[str, int]]:
        """The counts of the port and its virtual port."""
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
        """``wants_messages``: whether messages inside the process are made packets, to be seen."""
        self.wants_messages = wants_messages
        self._interfaces: dict[int, Interface] = {}

    def add(self, lid: int, interface: Interface) -> None:
        """The function with this LID."""
        self._interfaces[lid] = interface

    def packet(self, lid: int, frame: Buffer, *, is_sent: bool) -> None:
        """A packet passes the port with this LID."""
        self._add(lid, lambda: frame, is_sent)

    def datagram(self, lid: int, packet: Datagram, origin: Origin, *, is_sent: bool) -> None:
        """A datagram passes the port with this LID."""
        self._add(lid, lambda: frame_of(packet, origin), is_sent)

    def _add(self, lid: int, frame: Callable[[], Buffer], is_sent: bool) -> None:
        """Add a packet, or a remark if that fails."""
        interface = self._interfaces.get(lid)
        if interface is None or not interface.file.is_open:
            return
        try:
            block = _block(interface, bytes(frame()), is_sent)
        except Exception:
            block = interface.failed("packet")
        if block:
            interface.file.add(block)


def _block(interface: Interface, frame: bytes, is_sent: bool) -> bytes:
    """The block of an InfiniBand packet; nothing if the file has no room for it."""
    if not interface.file.has_room(len(frame)):
        return b""
    now = time.time_ns()
    return blocks.packet(
        interface.number, now, blocks.erf(now, frame), is_sent, interface.comment("")
    )
