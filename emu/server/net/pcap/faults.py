"""The interface of a function in a capture, and the faults that fired at the function.

A fault that acts on a packet is the comment of that packet: of one that is dropped before the wire,
which the capture records by itself, of one that is sent later, or of one that has just arrived.
Every other fault is an entry of the journal at its own time, and so is one whose packet is not
found, as after a switch or a backlog.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from emu.device.state.observers import UNREADABLE, ObserverErrors
from emu.server.net.pcap import blocks
from emu.server.net.pcap.file import PcapFile, Place

if TYPE_CHECKING:
    from emu.device.faults.event import FaultPacket

_MAX_PENDING: Final = 64
"""Maximum number of packets per function that rules have held back or changed and that have not
been sent; the fault of the oldest one becomes an entry of the journal."""
_MAX_COMMENTS: Final = 8
"""Maximum number of faults in the comment of a packet; further ones are entries of the journal."""


@dataclass(slots=True)
class _Arrived:
    """A received packet whose processing may make rules fire."""

    carried: object
    comments: list[str]


@dataclass(slots=True)
class _Last:
    """The last packet that an InfiniBand port has received."""

    carried: object
    place: Place
    time_ns: int
    data: bytes
    comments: list[str]


class CaptureInterface:
    """A function in the file; its packets are InfiniBand's."""

    def __init__(self, file: PcapFile, number: int, name: str = "") -> None:
        self.file = file
        self.number = number
        self.errors = ObserverErrors("capture")
        self._name = name
        self._pending: deque[tuple[str, bytes, FaultPacket]] = deque()
        """Comment, entry and packet of the faults whose packets have not been sent yet."""
        self._arrived: list[_Arrived] = []
        """Ethernet frames that the function is receiving; the innermost is last."""
        self._last: _Last | None = None

    def encode(self, time_ns: int, data: bytes) -> bytes:
        """Return a packet in the form of the interface's link type."""
        return blocks.erf(time_ns, data)

    def packet(self, time_ns: int, data: bytes, is_sent: bool, text: str) -> bytes:
        """Return the block of a packet with ``text`` as comment."""
        return blocks.packet(self.number, time_ns, self.encode(time_ns, data), is_sent, text)

    # -- packets

    def begin(self, carried: object, *, is_sent: bool) -> list[str]:
        """Return the comments of a packet that begins its path; :meth:`end` must follow.

        Until then, faults that act on a received packet are added to its list.
        """
        if is_sent:
            return self._sent(carried)
        comments: list[str] = []
        self._arrived.append(_Arrived(carried, comments))
        return comments

    def end(self, *, is_sent: bool) -> None:
        """End the path of the packet that began last in this direction."""
        if not is_sent:
            self._arrived.pop()

    def record(self, carried: object, data: bytes, *, is_sent: bool) -> None:
        """Add the block of a packet with its faults; count it as lost in a file without space."""
        self._last = None
        if not self.file.may_queue(len(data)):
            return
        now = time.time_ns()
        comments = self._sent(carried) if is_sent else []
        place = self.file.add(self.packet(now, data, is_sent, "; ".join(comments)))
        if not is_sent:
            self._last = _Last(carried, place, now, data, comments)

    def failed(self, place: str) -> bytes:
        """Log the exception in handling; return a journal entry in place of the packet."""
        self.errors.note(place)
        return blocks.journal_entry(time.time_ns(), self._named(f"a {place} {UNREADABLE}"))

    def close(self) -> None:
        """Write the faults whose packets were not sent as entries; the file stays open."""
        for _text, entry, _packet in self._pending:
            self.file.add(entry)
        self._pending.clear()

    # -- faults

    def fault(
        self, text: str, packet: FaultPacket | None, *, is_dropped: bool, vf: str = ""
    ) -> None:
        """Record a fault that fired at the function: with its packet, or as an entry of its own.

        ``is_dropped`` means that the rule keeps the packet from the wire. ``vf`` is the name of a
        virtual function behind the interface, at which the fault fired instead. Do nothing once
        the file is closed. An exception is logged, and the fault is an entry of the journal.
        """
        if not self.file.is_open:
            return
        now, said = time.time_ns(), f"{vf}: {text}" if vf else text
        entry = blocks.journal_entry(now, said if vf else self._named(text))
        try:
            is_recorded = packet is not None and self._of_packet(said, entry, packet, is_dropped)
        except Exception:
            self.errors.note("fault")
            is_recorded = False
        if not is_recorded:
            self.file.add(entry)

    def _of_packet(self, text: str, entry: bytes, packet: FaultPacket, is_dropped: bool) -> bool:
        """Record a fault with its packet; return False if the packet is not found."""
        if not packet.is_sent:
            return self._received(text, packet.carried)
        if not is_dropped:
            self._hold(text, entry, packet)
            return True
        data = packet.frame_bytes()
        if not data:
            return False
        if self.file.may_queue(len(data)):
            self.file.add(self.packet(time.time_ns(), data, True, text))
        return True

    def _hold(self, text: str, entry: bytes, packet: FaultPacket) -> None:
        """Keep a fault until its packet is sent."""
        if len(self._pending) >= _MAX_PENDING:
            _text, oldest, _packet = self._pending.popleft()
            self.file.add(oldest)
        self._pending.append((text, entry, packet))

    def _sent(self, carried: object) -> list[str]:
        """Return the faults that act on a packet that is being sent, and forget them."""
        if not self._pending:
            return []
        found = [one for one in self._pending if one[2].carried is carried]
        for one in found:
            self._pending.remove(one)
        return [text for text, _entry, _packet in found]

    def _received(self, text: str, carried: object) -> bool:
        """Add a fault to the packet that is being received; return False if that is another."""
        if self._arrived:
            frame = self._arrived[-1]
            if not _is_same(frame.carried, carried) or len(frame.comments) >= _MAX_COMMENTS:
                return False
            frame.comments.append(text)
            return True
        last = self._last
        if last is None or not _is_same(last.carried, carried):
            return False
        if len(last.comments) >= _MAX_COMMENTS:
            return False
        said = "; ".join([*last.comments, text])
        if not self.file.replace_last(
            last.place, self.packet(last.time_ns, last.data, False, said)
        ):
            return False
        last.comments.append(text)
        return True

    def _named(self, text: str) -> str:
        return f"{self._name}: {text}" if self._name else text


def _is_same(packet: object, carried: object) -> bool:
    """Return whether a packet is ``carried``, or a view of it."""
    owner = packet.obj if isinstance(packet, memoryview) else packet
    return owner is carried
