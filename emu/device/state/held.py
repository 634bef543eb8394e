"""Packets held at a responder until a page, or the packets before them, arrive.

Their number is limited. The requester retransmits dropped packets, so the limits only fit the needs
of a busy device. One limit applies to each queue pair and one to the whole function; the function's
ledger has to have capacity as well.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from emu.device.objects.ledger import Ledger
from emu.device.port.packet import Packet, precedes

HELD: Final = "held packets"
"""The ledger's account."""

MAX_HELD: Final = 256
"""Maximum number of packets of one queue pair: twice a requester's packets in flight, all in
trains.
"""
MAX_HELD_BYTES = 16 << 20
"""Maximum number of bytes of all queue pairs of a function."""
_OVERHEAD_BYTES: Final = 1 << 10
"""Cost of a packet in addition to its payload, in bytes."""


class HeldCapacity:
    """The bytes left for all queue pairs of a function."""

    __slots__ = ("_ledger", "left")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.left = MAX_HELD_BYTES

    def admit(self, packet: Packet) -> bool:
        """Charge a packet and copy its payload, which may be a view; return whether it fits.

        False, without any change, when the function's MAX_HELD_BYTES or the limit of its ledger or
        the parent function's would be exceeded.
        """
        cost = _cost(packet)
        if cost > self.left or not self._ledger.has_room(cost):
            return False
        packet.payload = memoryview(bytes(packet.payload))
        self._charge(cost)
        return True

    def readmit(self, packet: Packet) -> None:
        """Charge a packet again that has just been released, without checking limits."""
        self._charge(_cost(packet))

    def release(self, packet: Packet) -> None:
        """Credit a packet that is no longer held."""
        self._charge(-_cost(packet))

    def _charge(self, size: int) -> None:
        self.left -= size
        self._ledger.hold(HELD, size)


class HeldPackets:
    """The held packets of one queue pair, in order."""

    __slots__ = ("_capacity", "packets")

    def __init__(self, capacity: HeldCapacity) -> None:
        self._capacity = capacity
        self.packets: deque[Packet] = deque()

    def add(self, packet: Packet) -> bool:
        """Hold a packet behind the others, with a copy of its payload; return whether it is held.

        False, without any change, at MAX_HELD packets or beyond the function's limits.
        """
        if len(self.packets) >= MAX_HELD or not self._capacity.admit(packet):
            return False
        self.packets.append(packet)
        return True

    def pop(self) -> Packet:
        """Remove, uncharge and return the oldest packet. Raises IndexError when none is held."""
        packet = self.packets.popleft()
        self._capacity.release(packet)
        return packet

    def put_back(self, packet: Packet) -> None:
        """Hold the packet that ``pop`` returned again, as the oldest."""
        self._capacity.readmit(packet)
        self.packets.appendleft(packet)

    def clear(self) -> None:
        """Drop all packets."""
        while self.packets:
            self.pop()


class EarlyPackets:
    """The packets of one queue pair that arrived before their predecessors, by PSN."""

    __slots__ = ("_capacity", "packets")

    def __init__(self, capacity: HeldCapacity) -> None:
        self._capacity = capacity
        self.packets: dict[int, Packet] = {}

    def add(self, packet: Packet) -> None:
        """Hold a packet by its PSN, with a copy of its payload.

        Without notice nothing is held for a PSN that is there already, at MAX_HELD packets, and
        beyond the function's limits: the requester retransmits.
        """
        if packet.psn in self.packets or len(self.packets) >= MAX_HELD:
            return
        if self._capacity.admit(packet):
            self.packets[packet.psn] = packet

    def pop(self, psn: int) -> Packet | None:
        """Remove, uncharge and return the packet with this PSN; None if it is not held."""
        packet = self.packets.pop(psn, None)
        if packet is not None:
            self._capacity.release(packet)
        return packet

    def forget_before(self, psn: int) -> None:
        """Drop packets whose PSN precedes ``psn`` in the circular order, and uncharge them."""
        for old in [one for one in self.packets if precedes(one, psn)]:
            self.pop(old)

    def clear(self) -> None:
        """Drop all packets."""
        for psn in list(self.packets):
            self.pop(psn)


def _cost(packet: Packet) -> int:
    return len(packet.payload) + _OVERHEAD_BYTES
