"""Large receive offload: packets of one TCP stream become one packet of a striding queue.

The packets of a super-frame come together; those that come one by one are held for a while by
``..sessions``. The merged packet has the first one's headers and the payload of all. The driver
corrects its length, its checksums, and takes acknowledgment, window and TTL from the completion
(core/en_rx.c: mlx5e_lro_update_hdr), which assumes IP headers without options.

Source: PRM "Large receive offload"; tirc.packet_merge_mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from emu.device.engine.eth.merging.flows import FIN, FLAGS_AT, IP_BYTES, PSH
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.tir import Merging
from emu.device.port.eth.checksum import MODULUS, total
from emu.device.port.eth.frame import MIN_BYTES
from emu.device.port.eth.headers import TCP, Headers
from emu.device.port.eth.segment import segment
from layouts.rings.eth_cqe import LRO, LRO_AT, LRO_NUM_SEG_AT, LRO_PSH

MAX_SEGMENTS: Final = 0xFF
"""Packets of one completion: lro_num_seg has 8 bits."""
MAX_BYTES: Final = 0xFFFF
"""Of the merged packet: byte_cnt has 16 bits."""
IPV4: Final = 4
_TTL_AT: Final = {4: 8, 6: 7}
_IDENTIFIER_AT: Final = 4
_SEQUENCE_AT: Final = 4
_ACK_AT: Final = 8
_WINDOW_AT: Final = 14
_ACK: Final = 0x10
_u16, _u32 = Struct(">H"), Struct(">I")
_LRO_END: Final = LRO_AT + LRO.size


class Merged(NamedTuple):
    """Packets that became one, and what their completion says of them."""

    headers: Headers
    segments: int
    check_sum: int
    """Of the payload alone."""
    words: bytes
    """cqe64.lro."""

    def fill(self, entry: bytes) -> bytes:
        """The completion of a plain packet, made into that of this one."""
        front, back = entry[:LRO_AT], entry[_LRO_END:LRO_NUM_SEG_AT]
        return front + self.words + back + bytes((self.segments,)) + entry[LRO_NUM_SEG_AT + 1 :]


def as_one(headers: Headers, payload: int, segments: int, *, has_psh: bool) -> Merged:
    """A packet of several: the first one's headers, and the payload of all behind ``payload``.

    ``has_psh``: the last one has PSH.
    """
    data = headers.frame
    words = LRO.pack(
        LRO_PSH if has_psh else 0,
        data[headers.l3 + _TTL_AT[headers.version]],
        _u16.unpack_from(data, headers.l4 + _WINDOW_AT)[0],
        _u32.unpack_from(data, headers.l4 + _ACK_AT)[0],
    )
    return Merged(headers, segments, total(data[payload : headers.end]) % MODULUS, words)


def longer(headers: Headers, data: bytes) -> Headers:
    """The headers of a packet in front of other bytes, which end it."""
    return Headers(
        data.ljust(MIN_BYTES, b"\0"), headers.ethertype, headers.l3, headers.version,
        headers.protocol, headers.l4, len(data),
    )  # fmt: skip


def expect(rq: Rq, header: int, merging: Merging) -> None:
    """A queue may get packets as long as this allows, behind so many bytes of headers."""
    if rq.strides is not None:
        longest = min(header + merging.most_ip_payload, rq.strides.most_bytes, MAX_BYTES)
        rq.most_merged = max(rq.most_merged, longest)


class TcpStream:
    """The packets of a TCP super-frame that can be merged."""

    def __init__(self, headers: Headers, header: int, size: int) -> None:
        """``header`` bytes in front of the payload, ``size`` bytes of it in each packet."""
        self._headers, self._header, self._size = headers, header, size
        data = headers.frame
        self._flags = data[headers.l4 + FLAGS_AT]
        self.packets = -(-(len(data) - header) // size)
        self.mergeable = self.packets - bool(self._flags & FIN)
        """How many, from the first one on: the last one stays apart when it ends the stream."""

    @staticmethod
    def can_be(headers: Headers) -> bool:
        """Whether the packets are plain TCP, without IP options, and without flags of their own.

        A super-frame has a transport header.
        """
        if headers.protocol != TCP:
            return False
        if headers.l4 - headers.l3 != IP_BYTES[headers.version]:
            return False
        flags = headers.frame[headers.l4 + FLAGS_AT]
        return flags & ~(PSH | FIN) == _ACK

    def merged(self, merging: Merging, room: int) -> Iterator[Merged | Headers]:
        """What a queue gets whose requests have ``room`` bytes; what stands alone as it is."""
        front = self._header - self._headers.l3 - IP_BYTES[self._headers.version]
        together = min(
            (merging.most_ip_payload - front) // self._size,
            (min(room, MAX_BYTES) - self._header) // self._size,
            MAX_SEGMENTS,
        )
        together = max(together, 1)
        at = 0
        while at < self.packets:
            count = min(together, self.mergeable - at) if at < self.mergeable else 1
            yield self._merge(at, count) if count > 1 else self._single(at)
            at += count

    def _single(self, index: int) -> Headers:
        """A packet by itself."""
        is_last = index == self.packets - 1
        return longer(self._headers, self._packet(index, self._flags if is_last else _ACK))

    def _merge(self, index: int, count: int) -> Merged:
        start = self._header + index * self._size
        payload = self._headers.frame[start : start + count * self._size]
        head = self._packet(index, _ACK)[: self._header]
        has_psh = bool(self._flags & PSH) and index + count == self.packets
        headers = longer(self._headers, head + payload)
        return as_one(headers, self._header, count, has_psh=has_psh)

    def _packet(self, index: int, flags: int) -> bytes:
        """The packet with this index, as it would be on a wire."""
        headers, size = self._headers, self._size
        header = bytearray(headers.frame[: self._header])
        at = headers.l4 + _SEQUENCE_AT
        sequence = _u32.unpack_from(header, at)[0] + index * size
        _u32.pack_into(header, at, sequence & 0xFFFFFFFF)
        if headers.version == IPV4:
            at = headers.l3 + _IDENTIFIER_AT
            _u16.pack_into(header, at, _u16.unpack_from(header, at)[0] + index & 0xFFFF)
        header[headers.l4 + FLAGS_AT] = flags
        start = self._header + index * size
        return segment(bytes(header), headers.frame[start : start + size], size)[0]
