"""Unreliable datagrams in RoCE frames (IBTA annexes A16, A17.4.4 and A17.9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.eth.roce.framing import (
    UDP_BYTES,
    Framer,
    RoceHeaders,
    header_bytes,
    is_ipv4,
    route_header,
)
from emu.device.port.eth.roce.gids import MAC_BYTES, NO_GID, NO_MAC
from emu.device.port.packet import OPS, Packet
from layouts.enums.cqe import CqeRoceL3
from layouts.enums.roce import RoceVersion
from layouts.wire import bth
from layouts.wire.bth import PacketKind, Service

VID_MASK: Final = 0xFFF
PRIORITY_SHIFT: Final = 13

_GROUP: Final = 1
_V1: Final = RoceVersion.VERSION_1
_V2: Final = RoceVersion.VERSION_2
_IPV4_AREA: Final = bytes(20)
"""Precedes an IPv4 header, which takes the second half of the area for a GRH."""


@dataclass(slots=True)
class RoceDestination(Destination):
    """An address vector with Ethernet addresses. ``lid`` and ``path_bits`` are 0."""

    mac: bytes = NO_MAC
    sport: int = 0
    """UDP source port."""
    version: int = _V2
    """RoCE version of the source GID in the address vector."""

    @property
    def is_multicast(self) -> bool:
        """Whether the MAC address is that of a group."""
        return bool(self.mac[0] & _GROUP)

    @property
    def header_bytes(self) -> int:
        """Bytes of Ethernet, IP and UDP header, or of Ethernet and global route header."""
        return header_bytes(self.version, self.gid or NO_GID)


@dataclass(slots=True)
class RoceOrigin(Origin):
    """The sender of a datagram. ``lid`` is 0."""

    mac: bytes = NO_MAC
    tci: int | None = None
    """Priority and VLAN number in the VLAN tag; None without a tag."""
    version: int = _V2


def tci_of(vlan: int | None, priority: int) -> int | None:
    """Return the content of a VLAN tag; None without a VLAN."""
    return None if vlan is None else priority << PRIORITY_SHIFT | vlan


def vlan_of(tci: int | None) -> int | None:
    """Return the VLAN of a frame; a priority tag names none (IEEE 802.1Q 9.6)."""
    return (tci & VID_MASK or None) if tci is not None else None


def _headers(to: Destination, origin: Origin) -> RoceHeaders:
    """Return the headers of a datagram's frame, of the origin's RoCE version."""
    assert isinstance(to, RoceDestination)
    assert isinstance(origin, RoceOrigin)
    return RoceHeaders(
        to.mac, origin.mac, origin.gid, to.gid or NO_GID, origin.tci, to.tclass, to.flow_label,
        to.hop_limit, to.sport, origin.version,
    )  # fmt: skip


def frame_of(datagram: Datagram, origin: Origin) -> bytes:
    """Return the frame that carries a datagram, from the Ethernet header to the invariant CRC.

    The PSN is 0.
    """
    ending = None if datagram.immediate is None else bth.imm_dt
    packet = Packet().of(OPS[Service.UD, PacketKind.SEND, True, True, ending], datagram.to.qpn, 0)
    packet.immediate, packet.solicited = datagram.immediate, datagram.solicited
    packet.qkey, packet.src_qpn = origin.qkey, origin.qpn
    framer = Framer(_headers(datagram.to, origin), origin.pkey)
    return framer.frame(packet, datagram.data, datagram.length)


def datagram_of(packet: Packet, frame: bytes, tci: int | None) -> tuple[Datagram, RoceOrigin]:
    """Return the datagram in a UD packet and its origin; its data is a view of the frame.

    ``packet`` must have a network header. MAC addresses come from ``frame``, the service level is
    0.
    """
    ip, payload = packet.grh, packet.payload
    assert ip is not None
    version = _V2 if ip.is_ip else _V1
    to = RoceDestination(
        qpn=packet.qpn, qkey=packet.qkey, lid=0, sl=0, path_bits=0, gid=ip.dgid, tclass=ip.tclass,
        flow_label=ip.flow_label, hop_limit=ip.hop_limit, mac=frame[:MAC_BYTES],
        version=version,
    )  # fmt: skip
    datagram = Datagram(to, (payload,), len(payload), packet.immediate, packet.solicited)
    mac = frame[MAC_BYTES : 2 * MAC_BYTES]
    keys = packet.pkey, packet.qkey
    return datagram, RoceOrigin(0, packet.src_qpn, *keys, ip.sgid, mac, tci, version)


def area_of(datagram: Datagram, origin: Origin) -> tuple[bytes, CqeRoceL3]:
    """Return the GRH-sized area in front of the payload, and its type for the completion.

    The area has the global route header or the IP header, an IPv4 one in the last 20 bytes
    (core/verbs.c: ib_get_rdma_header_version).
    """
    assert isinstance(origin, RoceOrigin)
    length, headers = datagram.octets - datagram.to.header_bytes, _headers(datagram.to, origin)
    if origin.version == _V1:
        return route_header(headers, length), CqeRoceL3.GRH
    header = route_header(headers, UDP_BYTES + length)
    if is_ipv4(origin.gid):
        return _IPV4_AREA + header, CqeRoceL3.IPV4
    return header, CqeRoceL3.IPV6
