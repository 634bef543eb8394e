"""Packets held at a responder, while they wait for a page or for packets before them.

Their number is limited. The requester retransmits what is not held, so it is enough to have the
room that a busy device needs. There is one limit for each queue pair and one for the whole
function, and the function's ledger has to have room for them as well.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emu.device.objects.ledger import Ledger
from emu.device.port.packet import Packet, precedes

HELD: Final = "held packets"
"""The ledger's account."""

MAX_HELD: Final = 256
"""Packets of one queue pair: twice as many as a requester has in flight, all of those in trains."""
MAX_HELD_BYTES = 16 << 20
"""Bytes of all queue pairs of a function together."""
_OVERHEAD_BYTES: Final = 1 << 10
"""What a packet costs in addition to its payload."""


class HeldRoom:
    """The bytes that are left for all queue pairs together."""

    __slots__ = ("_ledger", "left")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.left = MAX_HELD_BYTES

    def admit(self, packet: Packet) -> bool:
        """Charge a packet, and copy its payload, which is lent; False when there is no room."""
        cost = _cost(packet)
        if cost > self.left or self._ledger.used + cost > self._ledger.limit:
            return False
        packet.payload = memoryview(bytes(packet.payload))
        self._charge(cost)
        return True

    def readmit(self, packet: Packet) -> None:
        """Charge a packet again that has just been released."""
        self._charge(_cost(packet))

    def release(self, packet: Packet) -> None:
        """A packet is held no more."""
        self._charge(-_cost(packet))

    def _charge(self, size: int) -> None:
        self.left -= size
        self._ledger.hold(HELD, size)


class HeldPackets:
    """The packets of one queue pair."""

    __slots__ = ("_room", "packets")

    def __init__(self, room: HeldRoom) -> None:
        self._room = room
        self.packets: deque[Packet] = deque()

    def add(self, packet: Packet) -> bool:
        """Keep a packet, with a copy of its payload; False when there is no room."""
        if len(self.packets) >= MAX_HELD or not self._room.admit(packet):
            return False
        self.packets.append(packet)
        return True

    def pop(self) -> Packet:
        """Take the oldest one out."""
        packet = self.packets.popleft()
        self._room.release(packet)
        return packet

    def put_back(self, packet: Packet) -> None:
        """Return the packet that ``pop`` gave, because it has to wait again."""
        self._room.readmit(packet)
        self.packets.appendleft(packet)

    def clear(self) -> None:
        """Forget all of them."""
        while self.packets:
            self.pop()


class EarlyPackets:
    """The packets of one queue pair that came before others that precede them, by PSN."""

    __slots__ = ("_room", "packets")

    def __init__(self, room: HeldRoom) -> None:
        self._room = room
        self.packets: dict[int, Packet] = {}

    def add(self, packet: Packet) -> None:
        """Keep a packet, with a copy of its payload, if there is room and it is not here yet."""
        if packet.psn in self.packets or len(self.packets) >= MAX_HELD:
            return
        if self._room.admit(packet):
            self.packets[packet.psn] = packet

    def pop(self, psn: int) -> Packet | None:
        """Take the packet with this PSN out; None if it has not come."""
        packet = self.packets.pop(psn, None)
        if packet is not None:
            self._room.release(packet)
        return packet

    def forget_before(self, psn: int) -> None:
        """Forget packets that are not awaited any more."""
        for old in [one for one in self.packets if precedes(one, psn)]:
            self.pop(old)

    def clear(self) -> None:
        """Forget all of them."""
        for psn in list(self.packets):
            self.pop(psn)


def _cost(packet: Packet) -> int:
    return len(packet.payload) + _OVERHEAD_BYTES
