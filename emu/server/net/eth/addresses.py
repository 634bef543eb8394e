"""The addresses that a segment has learned: behind which port a MAC address is.

Each port has room for a limited number, so that a flood of addresses behind one port makes no other
port's address unknown. An address that has not been heard of for a while is forgotten when somebody
asks for it, so that no timer is needed.
"""

from __future__ import annotations

from collections.abc import Collection

from emu.server.net.eth.port import SegmentPort

MAX_PER_PORT = 1024
AGE_NS = 300_000_000_000
"""IEEE 802.1Q 8.8.3: the recommended ageing time."""


class AddressEntry:
    """Where an address is, and since when it has not been heard of."""

    __slots__ = ("heard_ns", "port")

    def __init__(self, port: SegmentPort, now_ns: int) -> None:
        self.port = port
        self.heard_ns = now_ns


class Addresses:
    """A bounded table of MAC addresses (6 bytes)."""

    def __init__(self, most_per_port: int = MAX_PER_PORT) -> None:
        self._limit = most_per_port
        self._places: dict[bytes, AddressEntry] = {}
        self._of_port: dict[SegmentPort, dict[bytes, None]] = {}
        """The addresses behind each port, the first learned first."""

    def __len__(self) -> int:
        return len(self._places)

    def find(self, address: bytes, now_ns: int) -> SegmentPort | None:
        """The port behind which an address is; None when that is unknown."""
        place = self._places.get(address)
        if place is None:
            return None
        if now_ns - place.heard_ns > AGE_NS:
            self._forget(address, place)
            return None
        return place.port

    def place(self, address: bytes) -> AddressEntry | None:
        """What is known about a source address, old or not."""
        return self._places.get(address)

    def learn(self, address: bytes, port: SegmentPort, now_ns: int) -> None:
        """The address has been heard of behind a port where it was not before."""
        old = self._places.get(address)
        if old is not None:
            self._forget(address, old)
        behind = self._of_port.setdefault(port, {})
        if len(behind) >= self._limit:
            del self._places[next(iter(behind))], behind[next(iter(behind))]
        behind[address] = None
        self._places[address] = AddressEntry(port, now_ns)

    def forget(self, port: SegmentPort) -> None:
        """The port has gone down: nothing is behind it any more."""
        for address in self._of_port.pop(port, ()):
            del self._places[address]

    def behind(self, port: SegmentPort) -> Collection[bytes]:
        """The addresses behind a port, the first learned first."""
        return self._of_port.get(port, {}).keys()

    def _forget(self, address: bytes, place: AddressEntry) -> None:
        del self._places[address]
        del self._of_port[place.port][address]
