"""Datagrams on the subnet: where one goes, what it carries, and where it comes from.

Source: IBTA volume 1, 8.3 (GRH), 9.8.3 (unreliable datagram), 10.2.5 and 10.9.8 (Q_Keys), 13.5.4
(the return path of a management datagram). Nothing here depends on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.port.ib import partitions
from emu.port.ib.port import IbPort

GRH_BYTES = 40
_LRH_BYTES = 8
_NEXT_HEADER_IBA = 0x1B
_TRANSPORT_HEADERS = 12 + 8 + 4
"""BTH, DETH and the invariant CRC count into a GRH's payload length."""
MULTICAST_LID = 0xC000
PERMISSIVE_LID = 0xFFFF
GSI_QKEY = 0x8001_0000
PRIVILEGED_QKEY = 1 << 31


@dataclass(frozen=True, slots=True)
class Destination:
    """An address vector, decoded."""

    qpn: int
    qkey: int
    lid: int
    sl: int
    path_bits: int
    gid: bytes | None = None
    """Set when the packet carries a GRH."""
    sgid_index: int = 0
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 0


@dataclass(frozen=True, slots=True)
class Datagram:
    """One packet on its way."""

    to: Destination
    data: Sequence[memoryview]
    length: int
    immediate: int | None
    solicited: bool

    @property
    def octets(self) -> int:
        """Bytes on the wire from local route header to invariant CRC (IBTA 5.2, 7.8.3)."""
        headers = _LRH_BYTES + _TRANSPORT_HEADERS + (4 if self.immediate is not None else 0)
        grh = GRH_BYTES if self.to.gid is not None else 0
        return headers + grh + (self.length + 3 & ~3)

    @property
    def is_multicast(self) -> bool:
        """Whether it goes to a multicast group."""
        return MULTICAST_LID <= self.to.lid < PERMISSIVE_LID


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a datagram comes from, as its headers say."""

    lid: int
    qpn: int
    pkey: int
    qkey: int
    gid: bytes


def answer_to(to: Destination, origin: Origin) -> Destination:
    """The destination of the response to a management datagram: the return path (IBTA 13.5.4)."""
    return Destination(
        qpn=origin.qpn,
        qkey=GSI_QKEY,
        lid=origin.lid,
        sl=to.sl,
        path_bits=0,
        gid=origin.gid if to.gid is not None else None,
        tclass=to.tclass,
        flow_label=to.flow_label,
        hop_limit=to.hop_limit,
    )


def may_manage(port: IbPort, origin: Origin) -> bool:
    """Whether QP1 accepts a datagram with these keys (IBTA 10.2.5, 10.9.8)."""
    return origin.qkey == GSI_QKEY and any(
        partitions.match(mine, origin.pkey) for mine in port.pkeys
    )


def grh_of(datagram: Datagram, origin: Origin) -> bytes:
    """The 40 bytes in front of the payload: the global route header (IBTA 8.3)."""
    to = datagram.to
    first = 6 << 28 | to.tclass << 20 | to.flow_label
    payload = datagram.length + _TRANSPORT_HEADERS
    return (
        first.to_bytes(4, "big")
        + payload.to_bytes(2, "big")
        + bytes((_NEXT_HEADER_IBA, to.hop_limit))
        + origin.gid
        + (to.gid or bytes(16))
    )
