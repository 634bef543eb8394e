"""Which packets of a TCP stream belong together, for LRO and for header split alike.

One follows another when its sequence number goes on where the other's payload ends, and when its
headers are the same but for that, lengths, checksums, and the flags PSH and FIN: acknowledgment,
window, options with their time stamps, TOS, TTL, congestion marks. It is not longer than the first
one, as the kernel takes all but the last one for equally long (skb_shinfo.gso_size). IPv4's
identifiers stay the same, or grow by one each.

Source: core/en_rx.c: mlx5e_lro_update_hdr, mlx5e_shampo_update_hdr, which keep the first packet's
headers; net/ipv4/tcp_offload.c: tcp_gro_receive, for what a merged packet may stand for.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from emu.device.objects.eth.reservations import Flow
from emu.device.port.eth.headers import TCP, Headers

IP_BYTES: Final = {4: 20, 6: 40}
"""Of an IP header without options."""
FIN: Final = 0x01
PSH: Final = 0x08
FLAGS_AT: Final = 13

_ACK: Final = 0x10
_CONGESTION: Final = 0xC0
"""CWR and ECE, which have to be those of the first packet."""
_IPV4: Final = 4
_OFFSET_AT: Final = 12
_SEQUENCE_AT: Final = 4
_IDENTIFIER_AT: Final = 4
_u16, _u32 = Struct(">H"), Struct(">I")


def header_of(headers: Headers) -> int:
    """Bytes in front of a TCP packet's payload."""
    return headers.l4 + (headers.frame[headers.l4 + _OFFSET_AT] >> 4) * 4


def flow_of(headers: Headers, header: int) -> Flow | None:
    """What a packet with a payload is to the next one; None for one that is not plain TCP.

    ``header`` bytes stand in front of the payload. Its checksums have to be right.
    """
    data, l3, at, version = headers.frame, headers.l3, headers.l4, headers.version
    if headers.protocol != TCP or at - l3 != IP_BYTES[version]:
        return None
    flags = data[at + FLAGS_AT] & ~(PSH | FIN)
    if flags & ~_CONGESTION != _ACK:
        return None
    size = headers.end - header
    if version == _IPV4:
        # Not length, identifier and checksum; sequence number, flags and checksum.
        ip = data[: l3 + 2] + data[l3 + 6 : l3 + 10] + data[l3 + 12 : at + 4]
        identifier = _u16.unpack_from(data, l3 + _IDENTIFIER_AT)[0]
    else:
        ip, identifier = data[: l3 + 4] + data[l3 + 6 : at + 4], 0
    tcp = data[at + 8 : at + FLAGS_AT] + data[at + 14 : at + 16] + data[at + 18 : header]
    sequence = _u32.unpack_from(data, at + _SEQUENCE_AT)[0] + size & 0xFFFFFFFF
    return Flow(ip + tcp, flags, sequence, size, identifier, None)


def continued(last: Flow | None, now: Flow | None) -> Flow | None:
    """The two as one flow, if they belong together."""
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
