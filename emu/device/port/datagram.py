"""Unreliable datagrams: destination, contents and origin.

Source: IBTA volume 1, 9.8.3 (unreliable datagram), 10.2.5 and 10.9.8 (Q_Keys). The addresses here
are those of InfiniBand; other link layers have subclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from layouts.wire.bth import ICRC_BYTES as _ICRC_BYTES
from layouts.wire.bth import LRH, MULTICAST_LID, PERMISSIVE_LID, bth, deth, grh

GRH_BYTES: Final = grh.size
"""Bytes reserved in front of the payload in a receive buffer, on every link layer."""
GSI_QKEY: Final = 0x8001_0000
PRIVILEGED_QKEY: Final = 1 << 31

_IMMEDIATE_BYTES: Final = 4
_TRANSPORT_BYTES: Final = bth.size + deth.size + _ICRC_BYTES
"""Bytes of BTH, DETH and the invariant CRC."""


@dataclass(slots=True)
class Destination:
    """A decoded address vector."""

    qpn: int
    qkey: int
    lid: int
    sl: int
    path_bits: int
    gid: bytes | None = None
    """The destination GID if the packet carries a GRH, else None."""
    sgid_index: int = 0
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 0

    @property
    def is_multicast(self) -> bool:
        """Whether the destination is a multicast group."""
        return MULTICAST_LID <= self.lid < PERMISSIVE_LID

    @property
    def header_bytes(self) -> int:
        """Bytes of the link layer's headers, the GRH included."""
        return LRH.size + GRH_BYTES if self.gid is not None else LRH.size


@dataclass(slots=True)
class Datagram:
    """A packet to send or just received."""

    to: Destination
    data: Sequence[memoryview]
    length: int
    immediate: int | None
    solicited: bool

    @property
    def octets(self) -> int:
        """Bytes on the wire from the first header to the invariant CRC (IBTA 5.2, 7.8.3)."""
        headers = _TRANSPORT_BYTES + (_IMMEDIATE_BYTES if self.immediate is not None else 0)
        return self.to.header_bytes + headers + (self.length + 3 & ~3)

    @property
    def is_multicast(self) -> bool:
        """Whether the destination is a multicast group."""
        return self.to.is_multicast

    def copied(self) -> Datagram:
        """Return a copy whose data stays valid when guest memory or a frame changes."""
        return replace(self, data=[memoryview(b"".join(self.data))])


class LargeSend:
    """The datagrams of one large send in order; the first one is the longest."""

    __slots__ = ("datagrams",)

    def __init__(self, datagrams: Sequence[Datagram]) -> None:
        self.datagrams = datagrams

    @property
    def length(self) -> int:
        """Bytes of payload in the longest datagram."""
        return self.datagrams[0].length


@dataclass(slots=True)
class Origin:
    """The sender of a datagram, from its headers."""

    lid: int
    qpn: int
    pkey: int
    qkey: int
    gid: bytes
