"""Ethernet frames built field by field, and checksums of RFC 1071."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack

TCP, UDP = 6, 17
"""IP protocol numbers."""
MACS = bytes.fromhex("021122334455 0266778899aa".replace(" ", ""))


def ones_complement_sum(data: bytes) -> int:
    """Return the ones' complement sum of 16-bit words; an odd last byte is a word's upper half."""
    value = 0
    for at in range(0, len(data), 2):
        word = data[at] << 8 | (data[at + 1] if at + 1 < len(data) else 0)
        value += word
        if value > 0xFFFF:
            value = (value & 0xFFFF) + 1
    return value


def checksum(data: bytes) -> int:
    """Return the Internet checksum, 16 bits."""
    return ones_complement_sum(data) ^ 0xFFFF


@dataclass
class EthPacket:
    """Fields of a packet; :meth:`frame` builds it with correct checksums."""

    tags: tuple[tuple[int, int], ...] = ()
    """VLAN tags: (TPID, TCI) each."""
    version: int = 4
    source: bytes = bytes.fromhex("0a000001")
    destination: bytes = bytes.fromhex("0a000002")
    protocol: int = TCP
    extra: bytes = b""
    """IPv4 options, or IPv6 extension headers without the type of the first one (see ``chain``)."""
    chain: int = TCP
    """Next header of the IPv6 header: ``protocol``, or the first extension's type."""
    fragment: int = 0
    """Flags and fragment offset of IPv4."""
    identifier: int = 0x1234
    tos: int = 0
    ports: bytes = bytes.fromhex("04d2 0050".replace(" ", ""))
    sequence: int = 0x01020304
    flags: int = 0x18
    options: bytes = b""
    payload: bytes = b"payload"
    padding: bytes = b""
    checked: bool = True
    """Whether the transport has a checksum."""

    @property
    def front(self) -> bytes:
        """MAC addresses, tags, EtherType."""
        tags = b"".join(pack(">HH", *tag) for tag in self.tags)
        return MACS + tags + (b"\x08\x00" if self.version == 4 else b"\x86\xdd")

    def pseudo(self, length: int) -> bytes:
        """Return the pseudo-header for ``length`` bytes of transport."""
        if self.version == 4:
            return self.source + self.destination + pack(">BBH", 0, self.protocol, length)
        return self.source + self.destination + pack(">IHBB", length, 0, 0, self.protocol)

    def transport(self) -> bytes:
        """Return transport header and payload, with their checksum.

        The checksum is 0 without ``checked``. Protocols other than TCP and UDP are the payload
        alone.
        """
        value = checksum(self.pseudo(len(self._l4(0))) + self._l4(0)) if self.checked else 0
        if self.protocol == UDP and self.checked:
            value = value or 0xFFFF
        return self._l4(value)

    def _l4(self, value: int) -> bytes:
        """Return the transport header with the checksum ``value``, and the payload."""
        if self.protocol == TCP:
            offset = (20 + len(self.options)) // 4 << 12
            rest = pack(">IIHHHH", self.sequence, 7, offset | self.flags, 1000, value, 0)
            return self.ports + rest + self.options + self.payload
        if self.protocol == UDP:
            return self.ports + pack(">HH", 8 + len(self.payload), value) + self.payload
        return self.payload

    def network(self, length: int) -> bytes:
        """Return IP header and extensions, in front of ``length`` bytes.

        The IPv4 header has its checksum.
        """
        if self.version == 6:
            first = pack(
                ">IHBB", 6 << 28 | self.tos << 20, len(self.extra) + length, self.chain, 64
            )
            return first + self.source + self.destination + self.extra
        ihl = 5 + len(self.extra) // 4
        parts = pack(">BBHHHBB", 4 << 4 | ihl, self.tos, ihl * 4 + length, self.identifier,
                     self.fragment, 64, self.protocol)  # fmt: skip
        rest = self.source + self.destination + self.extra
        return parts + pack(">H", checksum(parts + b"\0\0" + rest)) + rest

    @property
    def l3(self) -> int:
        """Offset of the IP header."""
        return len(self.front)

    @property
    def l4(self) -> int:
        """Offset of the transport header."""
        return self.l3 + len(self.network(0))

    def frame(self) -> bytes:
        """Return the complete frame, without frame check sequence."""
        transport = self.transport()
        return self.front + self.network(len(transport)) + transport + self.padding

    def header(self) -> bytes:
        """Return the inline header of a large send: all bytes before the payload."""
        whole = self.front + self.network(len(self.transport())) + self.transport()
        return whole[: len(whole) - len(self.payload)]
