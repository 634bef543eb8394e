"""InfiniBand's link layer headers, which precede a transport packet on the wire.

Source: IBTA volume 1, 7.7 (local route header) and 8.3 (global route header). ``parse`` checks
these headers against each other and against the frame's length; ``emu.device.port.packet`` parses
the rest. Frames have no variant CRC, because sockets do not corrupt data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from emu.device.port import packet as transport
from emu.device.port.datagram import Datagram, Origin
from emu.device.port.packet import (
    EXTENSIONS,
    PSN_AT,
    BadPacketError,
    FrontKey,
    GlobalHeader,
    Packet,
    keep_front,
    parse_transport,
    transport_bytes,
    transport_front,
)
from emu.device.port.train import MAX_PACKETS, Train, front_of, train_of
from layouts.wire import bth as wire
from layouts.wire.bth import (
    ACK_REQUEST,
    ICRC_BYTES,
    LNH_GLOBAL,
    LNH_LOCAL,
    LNH_MASK,
    LRH,
    LVER_MASK,
    PAD_MASK,
    PKT_LEN_MASK,
    SL_SHIFT,
)

_LRH_BYTES: Final = LRH.size
_read_lrh: Final = LRH.unpack_from
_SMALLEST: Final = _LRH_BYTES + transport.SMALLEST_BYTES

_ENDS: Final = tuple(bytes(pad + ICRC_BYTES) for pad in range(4))
"""Padding and invariant CRC."""
_DEST_QP_AT: Final = 4
"""Offset of the congestion bits, and of the destination queue pair, in a BTH."""

_HEAD_BYTES: Final = wire.LRH.size + wire.GRH.size + wire.BTH.size + 8
"""Bytes of a train's front with all headers."""
MAX_BYTES: Final = wire.LRH.size + wire.GRH.size + transport.MAX_BYTES
"""Maximum bytes of a packet's frame."""
MAX_TRAIN_BYTES: Final = MAX_BYTES + (MAX_PACKETS - 1) * transport.MAX_PAYLOAD
"""Maximum bytes of a train's frame."""


@dataclass(frozen=True, slots=True)
class IbRoute:
    """The destination of a connection's packets, and their common header fields."""

    dlid: int
    slid: int
    sl: int
    pkey: int
    grh: GlobalHeader | None
    _fronts: dict[FrontKey, bytes] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """Bytes up to the PSN of the frames so far, by all that they depend on."""

    @property
    def address(self) -> int:
        """The peer's LID, which is its address on the wire."""
        return self.dlid

    def frame(self, packet: Packet, payload: Sequence[memoryview] = (), length: int = 0) -> bytes:
        """Return the packet's bytes with all of ``payload`` and an invariant CRC of 0.

        ``length`` must be the total bytes of ``payload``, which is not checked: padding and the
        lengths in the headers follow from it.
        """
        code = packet.op.code
        key = code, packet.qpn, packet.solicited, packet.is_migrated, length
        front = self._fronts.get(key)
        if front is None:
            front = keep_front(self._fronts, key, self._front(packet, length))
        psn = packet.psn | ACK_REQUEST if packet.ack_request else packet.psn
        extensions, end = EXTENSIONS[code](packet), _ENDS[-length & PAD_MASK]
        return b"".join((front, psn.to_bytes(4, "big"), extensions, *payload, end))

    def _front(self, packet: Packet, length: int) -> bytes:
        """Return the headers up to the PSN of a packet with ``length`` bytes of payload."""
        front, size = b"", transport_bytes(packet.op, length)
        sl_lnh = self.sl << SL_SHIFT | LNH_LOCAL
        if self.grh is not None:
            front = _global(self.grh, size)
            sl_lnh = self.sl << SL_SHIFT | LNH_GLOBAL
        words = _LRH_BYTES + len(front) + size >> 2
        local = LRH.pack(0, sl_lnh, self.dlid, words, self.slid)
        return local + front + transport_front(packet, self.pkey, length)


def parse(frame: memoryview) -> Packet:
    """Return the packet in ``frame``, whose payload is a view of it.

    Raises BadPacketError for a length that contradicts the headers, for headers that are not
    InfiniBand's, and as :func:`parse_transport` does. The invariant CRC is not checked.
    """
    length = len(frame)
    if length < _SMALLEST:
        raise BadPacketError(f"{length} bytes are not a packet")
    vl_lver: int
    sl_lnh: int
    pkt_len: int
    vl_lver, sl_lnh, dlid, pkt_len, slid = _read_lrh(frame)
    if vl_lver & LVER_MASK or (pkt_len & PKT_LEN_MASK) * 4 != length:
        raise BadPacketError(f"local header has a wrong version or length for {length} bytes")
    if sl_lnh & LNH_MASK == LNH_LOCAL:
        packet = parse_transport(frame, _LRH_BYTES)
    elif sl_lnh & LNH_MASK == LNH_GLOBAL:
        header = _parse_global(frame, _LRH_BYTES)
        packet = parse_transport(frame, _LRH_BYTES + wire.GRH.size)
        packet.grh = header
    else:
        raise BadPacketError("not a packet of the InfiniBand transport")
    packet.dlid, packet.slid, packet.sl = dlid, slid, sl_lnh >> SL_SHIFT
    return packet


def _parse_global(frame: memoryview, at: int) -> GlobalHeader:
    """Return the global route header at ``at``.

    Raises BadPacketError for a wrong version, next header or length.
    """
    if len(frame) < _SMALLEST + wire.GRH.size:
        raise BadPacketError("too short for a global header")
    word, pay_len, next_header, hop_limit, sgid, dgid = wire.GRH.unpack_from(frame, at)
    if word >> 28 != wire.GRH_VERSION or next_header != wire.GRH_NEXT_IBA:
        raise BadPacketError("global header has a wrong version or next header")
    if pay_len != len(frame) - at - wire.GRH.size:
        raise BadPacketError(f"payload length in the global header is wrong: {pay_len} bytes")
    return GlobalHeader(sgid, dgid, word >> 20 & 0xFF, word & 0xFFFFF, hop_limit)


def parse_train(frame: memoryview) -> Train:
    """Return the train in ``frame``, whose headers are those of its first packet.

    The payload is a view of the frame. Raises BadPacketError for malformed headers and unless the
    first packet is from a message's middle, with others behind it.
    """
    if not _SMALLEST < len(frame) <= MAX_TRAIN_BYTES:
        raise BadPacketError(f"{len(frame)} bytes are not a train")
    head = bytes(frame[:_HEAD_BYTES])
    length = _own_length(head)
    return train_of(parse(front_of(head, length)), frame, head, length)


def frames_of(train: Train) -> Iterator[bytes]:
    """Yield the frame of each packet in a train, with its own PSN and an invariant CRC of 0."""
    front, icrc = bytearray(train.head), _ENDS[0]
    at = _transport_at(front) + PSN_AT
    for packet in train.packets():
        word = packet.psn | ACK_REQUEST if packet.ack_request else packet.psn
        front[at : at + 4] = word.to_bytes(4, "big")
        yield b"".join((front, packet.payload, icrc))


def _own_length(frame: bytes | memoryview) -> int:
    """Return a frame's length from its local route header."""
    words: int = LRH.unpack_from(frame)[3] & PKT_LEN_MASK
    return words * 4


def _transport_at(frame: bytes | bytearray) -> int:
    """Return the offset of the base transport header."""
    is_local = frame[1] & wire.LNH_MASK == wire.LNH_LOCAL
    return wire.LRH.size + (0 if is_local else wire.GRH.size)


def with_fecn(frame: bytes) -> bytes:
    """Return the packet with forward congestion notification set, which no CRC covers."""
    at = _transport_at(frame) + _DEST_QP_AT
    return frame[:at] + bytes((frame[at] | wire.FECN >> 24,)) + frame[at + 1 :]


def grh_of(datagram: Datagram, origin: Origin) -> bytes:
    """Return the global route header of a datagram, for a receive buffer: that of its frame."""
    to = datagram.to
    length = datagram.octets - to.header_bytes
    first = wire.GRH_VERSION << 28 | to.tclass << 20 | to.flow_label
    return wire.GRH.pack(
        first, length, wire.GRH_NEXT_IBA, to.hop_limit, origin.gid, to.gid or bytes(16)
    )


def _global(grh: GlobalHeader, length: int) -> bytes:
    """Return the global route header in front of ``length`` bytes of transport packet."""
    first = wire.GRH_VERSION << 28 | grh.tclass << 20 | grh.flow_label
    return wire.GRH.pack(first, length, wire.GRH_NEXT_IBA, grh.hop_limit, grh.sgid, grh.dgid)
