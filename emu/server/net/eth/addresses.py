"""The forwarding table of a segment: the port behind each learned MAC address.

Each port has capacity for a limited number of addresses, so that a flood of addresses behind a port
evicts no other port's address. A lookup drops an aged entry, so that no timer is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from emu.server.net.eth.port import SegmentPort

MAX_PER_PORT = 1024
AGE_NS = 300_000_000_000
"""IEEE 802.1Q 8.8.3: the recommended ageing time."""


class AddressEntry:
    """Port of an address, and time when it last sent."""

    __slots__ = ("heard_ns", "port")

    def __init__(self, port: SegmentPort, now_ns: int) -> None:
        self.port = port
        self.heard_ns = now_ns


class Addresses:
    """A bounded table of MAC addresses (6 bytes)."""

    def __init__(self) -> None:
        self._entries: dict[bytes, AddressEntry] = {}
        self.entry: Callable[[bytes], AddressEntry | None] = self._entries.get
        """``entry(address)`` returns the entry of a source address, even an aged one; None if
        unknown. The dictionary's own method is used for speed, for each frame.
        """
        self._of_port: dict[SegmentPort, dict[bytes, None]] = {}
        """Addresses behind each port, oldest first."""

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, address: bytes, now_ns: int) -> SegmentPort | None:
        """Return the port of an address; None if the address is unknown.

        An address that has not sent for AGE_NS is removed and counts as unknown.
        """
        entry = self._entries.get(address)
        if entry is None:
            return None
        if now_ns - entry.heard_ns > AGE_NS:
            self._forget(address, entry)
            return None
        return entry.port

    def learn(self, address: bytes, port: SegmentPort, now_ns: int) -> None:
        """Record that an address is now behind ``port``, in place of its former port.

        A port at its limit loses its oldest address.
        """
        old = self._entries.get(address)
        if old is not None:
            self._forget(address, old)
        behind = self._of_port.setdefault(port, {})
        if len(behind) >= MAX_PER_PORT:
            del self._entries[next(iter(behind))], behind[next(iter(behind))]
        behind[address] = None
        self._entries[address] = AddressEntry(port, now_ns)

    def forget(self, port: SegmentPort) -> None:
        """Forget all addresses behind a port; do nothing for a port without any."""
        for address in self._of_port.pop(port, ()):
            del self._entries[address]

    def behind(self, port: SegmentPort) -> Collection[bytes]:
        """Return the addresses behind a port, oldest first."""
        return self._of_port.get(port, {}).keys()

    def _forget(self, address: bytes, entry: AddressEntry) -> None:
        del self._entries[address]
        del self._of_port[entry.port][address]
