"""Decides which packets of a TCP stream belong together, for LRO and for header split.

A packet continues another if its sequence number follows the other's payload and its headers are
equal. The comparison excludes sequence number, lengths, checksums, PSH and FIN; it includes
acknowledgment, window, options with timestamps, TOS, TTL and congestion marks. The packet is not
longer than the first one: the kernel assumes that all but the last are equally long
(skb_shinfo.gso_size). IPv4 identifiers are equal, or grow by one each.

Source: core/en_rx.c: mlx5e_lro_update_hdr, mlx5e_shampo_update_hdr, which keep the first packet's
headers; net/ipv4/tcp_offload.c: tcp_gro_receive, for the packets that a merged one may represent.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from emu.device.objects.eth.reservations import Flow
from emu.device.port.eth.headers import TCP, Headers

IP_BYTES: Final = {4: 20, 6: 40}
"""Length of an IP header without options, by version."""
FIN: Final = 0x01
PSH: Final = 0x08
FLAGS_AT: Final = 13

_ACK: Final = 0x10
_CONGESTION: Final = 0xC0
"""CWR and ECE, which must equal those of the first packet."""
_IPV4: Final = 4
_OFFSET_AT: Final = 12
_SEQUENCE_AT: Final = 4
_IDENTIFIER_AT: Final = 4
_u16, _u32 = Struct(">H"), Struct(">I")


def header_of(headers: Headers) -> int:
    """Return the number of bytes before a TCP packet's payload."""
    return headers.l4 + (headers.frame[headers.l4 + _OFFSET_AT] >> 4) * 4


def flow_of(headers: Headers, header: int) -> Flow | None:
    """Return the flow state that the next packet must continue; None for an unmergeable packet.

    None unless plain TCP: no IP options, ACK set, no flags besides PSH, FIN, CWR and ECE.
    ``header`` is the number of bytes before the payload. The caller has checked the checksums.
    """
    data, l3, at, version = headers.frame, headers.l3, headers.l4, headers.version
    if headers.protocol != TCP or at - l3 != IP_BYTES[version]:
        return None
    flags = data[at + FLAGS_AT] & ~(PSH | FIN)
    if flags & ~_CONGESTION != _ACK:
        return None
    size = headers.end - header
    if version == _IPV4:
        # Excluded: IP length, identifier and checksum; TCP sequence number, flags and checksum.
        ip = data[: l3 + 2] + data[l3 + 6 : l3 + 10] + data[l3 + 12 : at + 4]
        identifier = _u16.unpack_from(data, l3 + _IDENTIFIER_AT)[0]
    else:
        ip, identifier = data[: l3 + 4] + data[l3 + 6 : at + 4], 0
    tcp = data[at + 8 : at + FLAGS_AT] + data[at + 14 : at + 16] + data[at + 18 : header]
    sequence = _u32.unpack_from(data, at + _SEQUENCE_AT)[0] + size & 0xFFFFFFFF
    return Flow(ip + tcp, flags, sequence, size, identifier, None)


def continued(last: Flow | None, now: Flow | None) -> Flow | None:
    """Return the flow state after ``now`` if that packet continues ``last``; otherwise None."""
    if (
        last is None
        or now is None
        or now.constant != last.constant
        or now.flags != last.flags
        or now.size > last.size
        or now.sequence - now.size & 0xFFFFFFFF != last.sequence
    ):
        return None
    step = now.identifier - last.identifier & 0xFFFF
    if step != last.step and (last.step is not None or step > 1):
        return None
    return Flow(last.constant, last.flags, now.sequence, last.size, now.identifier, step)
