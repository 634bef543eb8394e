"""The destination of a RoCE connection, and the headers of its packets.

An address is a path as a number: the index of the source GID, the peer's MAC address and its GID.

Sources: IBTA annexes A16 and A17; mlx5_ifc.h: ads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from emu.device.port.congestion import Congestion
from emu.device.port.eth.congestion import ECN_MASK, NOT_CAPABLE
from emu.device.port.eth.roce.datagram import tci_of
from emu.device.port.eth.roce.framing import Framer, RoceHeaders
from emu.device.port.eth.roce.gids import GID_BYTES, MAC_BYTES, GidTable
from emu.device.port.packet import Packet
from layouts.enums.roce import RoceVersion

if TYPE_CHECKING:
    from layouts.objects.qp import ads

PKEY: Final = 0xFFFF
"""The only P_Key (IBTA A17.4.6)."""
DEFAULT_SPORT: Final = 0xC000
_ECT0: Final = 2
"""ECN field of the IP header: the sender supports ECN (RFC 3168)."""
GID_BITS: Final = GID_BYTES * 8
"""Bit position of the MAC address in an address; the GID is below."""
_MAC_BITS: Final = MAC_BYTES * 8
_GID_MASK: Final = (1 << GID_BITS) - 1
_MAC_MASK: Final = (1 << _MAC_BITS) - 1
INDEX_SHIFT: Final = GID_BITS + _MAC_BITS
"""Bit position of the source GID index in an address."""


def address_of(index: int, mac: bytes, gid: bytes) -> int:
    """Return the number of an address: source GID index, destination MAC address and GID."""
    return index << INDEX_SHIFT | int.from_bytes(mac + gid, "big")


def parts_of(address: int) -> tuple[int, bytes, bytes]:
    """Return the source GID index, the MAC address and the GID in an address."""
    mac, gid = address >> GID_BITS & _MAC_MASK, address & _GID_MASK
    return address >> INDEX_SHIFT, mac.to_bytes(MAC_BYTES, "big"), gid.to_bytes(GID_BYTES, "big")


class RoceRoute:
    """The headers of a connection's packets, rebuilt when the GID table has changed.

    While the port reacts to congestion, its connections' packets are marked as ECN-capable.
    """

    __slots__ = ("_changes", "_congestion", "_framer", "_gids", "_path", "address")

    def __init__(self, gids: GidTable, congestion: Congestion, path: ads, address: int) -> None:
        """Create the route; ``path`` is a view of ads."""
        self._gids = gids
        self._congestion = congestion
        self._path = path
        self._changes = -1
        self._framer: Framer | None = None
        self.address = address

    def frame(self, packet: Packet, payload: Sequence[memoryview] = (), length: int = 0) -> bytes:
        """Return the frame of a packet; empty while the source GID is empty.

        Headers are built anew after a change of the GID table or of the congestion control's
        status.
        """
        changes = self._gids.changes + self._congestion.changes  # both only grow
        if self._changes != changes:
            headers = self.headers()
            self._framer = None if headers is None else Framer(headers, self.pkey)
            self._changes = changes
        return self._framer.frame(packet, payload, length) if self._framer is not None else b""

    @property
    def pkey(self) -> int:
        """The P_Key of the packets."""
        return 0 if self._path.pkey_index else PKEY

    def headers(self) -> RoceHeaders | None:
        """Return the headers in front of the packets; None while the source GID is empty.

        A RoCE v2 packet is marked as ECN-capable while the reaction point is enabled for its
        priority.
        """
        path = self._path
        index, mac, gid = parts_of(self.address)
        source = self._gids[index]
        if source.is_empty:
            return None
        tclass = int(path.tclass)
        is_ip = source.version == RoceVersion.VERSION_2
        if (
            is_ip
            and tclass & ECN_MASK == NOT_CAPABLE
            and self._congestion.rp_enabled[path.eth_prio]
        ):
            tclass |= _ECT0
        return RoceHeaders(
            mac, source.mac, source.gid, gid, tci_of(source.vlan, path.eth_prio), tclass,
            path.flow_label, path.hop_limit, path.udp_sport or DEFAULT_SPORT,
            source.version,
        )  # fmt: skip
