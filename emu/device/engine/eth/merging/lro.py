"""Large receive offload (LRO): merges packets of one TCP stream for a striding queue.

A super-frame's packets arrive together; ``..sessions`` holds packets that arrive one by one. The
merged packet has the first one's headers and the payload of all. The driver corrects its length and
checksums, and takes acknowledgment, window and TTL from the CQE. The driver assumes IP headers
without options (core/en_rx.c: mlx5e_lro_update_hdr).

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
"""Number of packets per CQE: lro_num_seg has 8 bits."""
MAX_BYTES: Final = 0xFFFF
"""Length of the merged packet: byte_cnt has 16 bits."""
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
    """A merged packet, and the LRO fields of its CQE."""

    headers: Headers
    segments: int
    check_sum: int
    """Over the payload alone."""
    words: bytes
    """cqe64.lro."""

    def fill(self, entry: bytes) -> bytes:
        """Return a plain packet's CQE with this packet's LRO fields and lro_num_seg."""
        front, back = entry[:LRO_AT], entry[_LRO_END:LRO_NUM_SEG_AT]
        return front + self.words + back + bytes((self.segments,)) + entry[LRO_NUM_SEG_AT + 1 :]


def as_one(headers: Headers, payload: int, segments: int, *, has_psh: bool) -> Merged:
    """Return several packets as one: ``headers`` are the first one's, with the payload of all.

    ``payload`` is the payload's offset. ``has_psh``: the last packet has PSH.
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
    """Return a packet's headers over ``data``, its new frame and end.

    A merged packet has no padding: the driver takes its IP length from the CQE's byte_cnt.
    """
    return Headers(
        data, headers.ethertype, headers.l3, headers.version, headers.protocol, headers.l4,
        len(data),
    )  # fmt: skip


def expect(rq: Rq, header: int, merging: Merging) -> None:
    """Raise ``rq.most_merged``, the longest merged packet so far expected by a striding queue.

    ``header`` is the number of header bytes. Other queues are unchanged.
    """
    if rq.strides is not None:
        longest = min(header + merging.most_ip_payload, rq.strides.most_bytes, MAX_BYTES)
        rq.most_merged = max(rq.most_merged, longest)


class TcpStream:
    """The packets of a TCP super-frame that can be merged."""

    def __init__(self, headers: Headers, header: int, size: int) -> None:
        """Set up a stream; ``header`` bytes precede each packet's ``size`` bytes of payload."""
        self._headers, self._header, self._size = headers, header, size
        data = headers.frame
        self._flags = data[headers.l4 + FLAGS_AT]
        self.packets = -(-(len(data) - header) // size)
        self.mergeable = self.packets - bool(self._flags & FIN)
        """Number of packets that can be merged, from the first on: a last packet with FIN stays
        separate."""

    @staticmethod
    def can_be(headers: Headers) -> bool:
        """Return whether a super-frame's packets can be merged: plain TCP without IP options.

        ACK must be the only flag besides PSH and FIN. A super-frame always has a transport header.
        """
        if headers.protocol != TCP:
            return False
        if headers.l4 - headers.l3 != IP_BYTES[headers.version]:
            return False
        flags = headers.frame[headers.l4 + FLAGS_AT]
        return flags & ~(PSH | FIN) == _ACK

    def merged(self, merging: Merging, space: int) -> Iterator[Merged | Headers]:
        """Yield the packets in order, merged where possible, for WQEs of ``space`` bytes.

        A group has at most MAX_SEGMENTS packets and respects ``merging.most_ip_payload``. A single
        packet and a last one with FIN are yielded as plain Headers.
        """
        front = self._header - self._headers.l3 - IP_BYTES[self._headers.version]
        together = min(
            (merging.most_ip_payload - front) // self._size,
            (min(space, MAX_BYTES) - self._header) // self._size,
            MAX_SEGMENTS,
        )
        together = max(together, 1)
        at = 0
        while at < self.packets:
            count = min(together, self.mergeable - at) if at < self.mergeable else 1
            yield self._merge(at, count) if count > 1 else self._single(at)
            at += count

    def _single(self, index: int) -> Headers:
        """Return an unmerged packet, padded if it is short."""
        is_last = index == self.packets - 1
        headers = longer(self._headers, self._packet(index, self._flags if is_last else _ACK))
        headers.frame = headers.frame.ljust(MIN_BYTES, b"\0")
        return headers

    def _merge(self, index: int, count: int) -> Merged:
        """Return ``count`` packets from number ``index`` on as one merged packet."""
        start = self._header + index * self._size
        payload = self._headers.frame[start : start + count * self._size]
        head = self._packet(index, _ACK)[: self._header]
        has_psh = bool(self._flags & PSH) and index + count == self.packets
        headers = longer(self._headers, head + payload)
        return as_one(headers, self._header, count, has_psh=has_psh)

    def _packet(self, index: int, flags: int) -> bytes:
        """Return the packet with this index as sent on a wire, with own numbers and checksums."""
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
