"""Packets of the InfiniBand transport as the engine handles them, for every link layer.

A packet begins with its base transport header and ends with its invariant CRC; the headers in front
belong to the link layer (``emu.device.port.ib.framing``). ``parse_transport`` checks that the
transport's headers are consistent: version, opcode, lengths (IBTA 9.6.1.1, 9.6.1.2). The engine
checks them against the queue pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from emu.device.objects.queues.message import Message, MsgOp
from layouts.prm import Prm
from layouts.wire import bth as wire
from layouts.wire.bth import (
    ACK_REQUEST,
    BTH,
    ICRC_BYTES,
    MIGRATED,
    PAD_MASK,
    PAD_SHIFT,
    PSN_MASK,
    QPN_MASK,
    SOLICITED,
    TVER_MASK,
    PacketKind,
    Service,
)
from layouts.wire.packet_ops import PACKET_OPS, WITH_PAYLOAD, PacketOp

MAX_PAYLOAD: Final = 4096
_ECN_MASK = _CONGESTION_EXPERIENCED = 3
"""ECN field of the IP header (RFC 3168)."""

_BTH_BYTES: Final = BTH.size
_read_bth: Final = BTH.unpack_from
PSN_AT: Final = 8
"""Offset of the word with the PSN in a base transport header."""
MAX_FRONTS: Final = 64
"""Maximum number of cached fronts of frames to a destination; connections use few."""
FrontKey = tuple[int, int, bool, bool, int]
"""All of a packet on which the front of its frame depends: opcode, destination queue pair, SE and
MigReq bits, bytes of payload.
"""
SMALLEST_BYTES: Final = _BTH_BYTES + ICRC_BYTES
MAX_HEADER_BYTES: Final = SMALLEST_BYTES + max(
    op.header_bytes for op in PACKET_OPS.values() if op.kind in WITH_PAYLOAD
)
"""Maximum bytes of transport headers around a payload, with the invariant CRC."""
MAX_BYTES: Final = MAX_HEADER_BYTES + MAX_PAYLOAD
"""Maximum bytes of a packet, without the link layer's headers."""


@dataclass(frozen=True, slots=True)
class GlobalHeader:
    """The fields of a global route header."""

    sgid: bytes
    dgid: bytes
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 0
    is_ip: bool = False
    """Whether the header is an IP header (RoCE v2)."""


class BadPacketError(ValueError):
    """Bytes that are not a valid packet; the text gives the reason."""


def precedes(psn: int, other: int) -> bool:
    """Return whether a PSN precedes another, by less than half of the PSN space."""
    return 0 < (other - psn & wire.PSN_MASK) < wire.PSN_HALF


class Packet:
    """A packet. Fields of an extension header exist when the opcode has the header."""

    op: PacketOp
    qpn: int
    psn: int
    ack_request: bool
    solicited: bool
    is_migrated: bool
    """MigReq: False while the sender may migrate to its alternate path."""
    srqn: int
    immediate: int | None = None
    inv_rkey: int | None = None

    # Set in received packets:
    payload: memoryview
    dlid: int
    slid: int
    sl: int
    pkey: int
    grh: GlobalHeader | None
    # RETH, atomic headers, AETH, DETH:
    va: int
    rkey: int
    length: int
    swap_add: int
    compare: int
    swap_add_mask: int
    compare_mask: int
    original: int
    syndrome: int
    msn: int
    qkey: int
    src_qpn: int

    def of(self, op: PacketOp, qpn: int, psn: int) -> Self:
        """Set opcode, queue pair and PSN of a new packet, and what most packets have; return it.

        No ``__init__``, because CPython calls a method in half of the time. Values that each packet
        reads are no class attributes, which CPython finds ten times slower than an object's.
        """
        self.op, self.qpn, self.psn = op, qpn, psn
        self.ack_request = self.solicited = False
        self.is_migrated = True
        self.srqn, self.grh = 0, None
        return self

    @property
    def is_multicast(self) -> bool:
        """Whether a received packet is for a multicast group."""
        return wire.MULTICAST_LID <= self.dlid < wire.PERMISSIVE_LID

    @property
    def is_marked(self) -> bool:
        """Whether a received packet of RoCE v2 has a congestion mark."""
        header = self.grh
        return (
            header is not None
            and header.is_ip
            and header.tclass & _ECN_MASK == _CONGESTION_EXPERIENCED
        )

    def __repr__(self) -> str:
        return f"{self.op} to qp {self.qpn:#x}, psn {self.psn:#x}"


MSG_OPS: Final = {
    PacketKind.SEND: MsgOp.SEND,
    PacketKind.WRITE: MsgOp.WRITE,
    PacketKind.READ: MsgOp.READ,
    PacketKind.COMPARE_SWAP: MsgOp.COMPARE_SWAP,
    PacketKind.FETCH_ADD: MsgOp.FETCH_ADD,
    PacketKind.MASKED_COMPARE_SWAP: MsgOp.MASKED_COMPARE_SWAP,
    PacketKind.MASKED_FETCH_ADD: MsgOp.MASKED_FETCH_ADD,
}
"""Operation of a message, by the kind of its packets."""

KINDS: Final = {op: kind for kind, op in MSG_OPS.items()}
"""Kind of the packets, by the operation of their message."""


def request_packet(
    message: Message, service: Service | None, qpn: int, psn: int, is_first: bool, is_last: bool
) -> Packet:
    """Return a packet of a message with its header fields; immediate data only in the last one."""
    ending: type[Prm] | None = None
    if is_last:
        if message.immediate is not None:
            ending = wire.imm_dt
        elif message.inv_rkey is not None:
            ending = wire.ieth
    packet = Packet().of(OPS[service, KINDS[message.op], is_first, is_last, ending], qpn, psn)
    if is_first:
        packet.va, packet.rkey, packet.length = message.va, message.rkey, message.length
    if ending is not None:
        packet.immediate, packet.inv_rkey = message.immediate, message.inv_rkey
    if is_last and message.solicited:
        packet.solicited = True
    if message.srqn:
        packet.srqn = message.srqn
    return packet


FrontT = TypeVar("FrontT")
_Decoder = Callable[[Packet, memoryview, int], None]
"""Reads headers at an offset of a frame."""
_Encoder = Callable[[Packet], bytes]
"""Returns the bytes of headers."""


def parse_transport(frame: memoryview, at: int) -> Packet:
    """Return the packet from the base transport header at ``at`` to the invariant CRC.

    Its payload is a view of ``frame``, which must be long enough for that header and the CRC. The
    caller sets the link layer's fields and checks the CRC. Raises BadPacketError for an unknown
    opcode, a version other than 0, or lengths that do not fit the opcode.
    """
    flags: int
    dest_qp: int
    a_psn: int
    code, flags, pkey, dest_qp, a_psn = _read_bth(frame, at)
    form = _FORMS.get(code)
    if form is None:
        raise BadPacketError(f"opcode {code:#x}: unknown")
    op, start, most, decode = form
    packet = Packet().of(op, dest_qp & QPN_MASK, a_psn & PSN_MASK)
    packet.pkey = pkey
    if a_psn & ACK_REQUEST:
        packet.ack_request = True
    start, end = at + start, len(frame) - ICRC_BYTES
    if flags != MIGRATED:  # few packets
        if flags & TVER_MASK:
            raise BadPacketError(f"version {flags & TVER_MASK}: unknown")
        packet.solicited, packet.is_migrated = bool(flags & SOLICITED), bool(flags & MIGRATED)
        end -= flags >> PAD_SHIFT & PAD_MASK
    if not 0 <= end - start <= most:
        raise BadPacketError(f"{op} with {end - start} bytes of payload")
    if decode is not None:
        decode(packet, frame, at + _BTH_BYTES)
    packet.payload = frame[start:end]
    return packet


def transport_front(packet: Packet, pkey: int, length: int) -> bytes:
    """Return a packet's base transport header up to the PSN; ``length`` is that of its payload.

    The word with the PSN, extension headers (``EXTENSIONS``), payload, padding and invariant CRC
    follow.
    """
    flags = (-length & PAD_MASK) << PAD_SHIFT
    if packet.solicited:
        flags |= SOLICITED
    if packet.is_migrated:
        flags |= MIGRATED
    return BTH.pack(packet.op.code, flags, pkey, packet.qpn, 0)[:PSN_AT]


def keep_front(fronts: dict[FrontKey, FrontT], key: FrontKey, front: FrontT) -> FrontT:
    """Cache the front of frames to a destination, in place of all others beyond MAX_FRONTS.

    Return the front.
    """
    if len(fronts) >= MAX_FRONTS:
        fronts.clear()
    fronts[key] = front
    return front


def transport_bytes(op: PacketOp, length: int) -> int:
    """Return the bytes of a packet with ``length`` bytes of payload, without the link layer's.

    Padding and invariant CRC are included.
    """
    return SMALLEST_BYTES + op.header_bytes + length + (-length & PAD_MASK)


# Parsing and building of the extension headers.


def _get_reth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.va, packet.rkey, packet.length = wire.RETH.unpack_from(frame, at)


def _get_aeth(packet: Packet, frame: memoryview, at: int) -> None:
    word: int
    (word,) = wire.AETH.unpack_from(frame, at)
    packet.syndrome, packet.msn = word >> wire.SYNDROME_SHIFT, word & wire.MSN_MASK


def _get_atomic_eth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.va, packet.rkey, packet.swap_add, packet.compare = wire.ATOMIC_ETH.unpack_from(frame, at)


def _get_masked_atomic_eth(packet: Packet, frame: memoryview, at: int) -> None:
    """Read the header of a masked atomic; ``length`` is the size of the operand."""
    (
        packet.va, packet.rkey, packet.swap_add, packet.compare, packet.length,
        packet.swap_add_mask, packet.compare_mask,
    ) = wire.MASKED_ATOMIC_ETH.unpack_from(frame, at)  # fmt: skip


def _get_atomic_ack_eth(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.original,) = wire.ATOMIC_ACK_ETH.unpack_from(frame, at)


def _get_imm_dt(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.immediate,) = wire.IMM_DT.unpack_from(frame, at)


def _get_ieth(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.inv_rkey,) = wire.IETH.unpack_from(frame, at)


def _get_xrceth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.srqn = wire.XRCETH.unpack_from(frame, at)[0] & wire.QPN_MASK


def _get_deth(packet: Packet, frame: memoryview, at: int) -> None:
    word: int
    packet.qkey, word = wire.DETH.unpack_from(frame, at)
    packet.src_qpn = word & wire.QPN_MASK


def _get_cnp(packet: Packet, frame: memoryview, at: int) -> None:
    """Ignore the header, which is reserved."""


_DECODERS: Final[dict[type[Prm], _Decoder]] = {
    wire.reth: _get_reth,
    wire.aeth: _get_aeth,
    wire.atomic_eth: _get_atomic_eth,
    wire.masked_atomic_eth: _get_masked_atomic_eth,
    wire.atomic_ack_eth: _get_atomic_ack_eth,
    wire.imm_dt: _get_imm_dt,
    wire.ieth: _get_ieth,
    wire.xrceth: _get_xrceth,
    wire.deth: _get_deth,
    wire.cnp: _get_cnp,
}

_HEADERS: Final[dict[type[Prm], _Encoder]] = {
    wire.reth: lambda p: wire.RETH.pack(p.va, p.rkey, p.length),
    wire.aeth: lambda p: wire.AETH.pack(p.syndrome << wire.SYNDROME_SHIFT | p.msn),
    wire.atomic_eth: lambda p: wire.ATOMIC_ETH.pack(p.va, p.rkey, p.swap_add, p.compare),
    wire.masked_atomic_eth: lambda p: wire.MASKED_ATOMIC_ETH.pack(
        p.va, p.rkey, p.swap_add, p.compare, p.length, p.swap_add_mask, p.compare_mask
    ),
    wire.atomic_ack_eth: lambda p: wire.ATOMIC_ACK_ETH.pack(p.original),
    wire.imm_dt: lambda p: wire.IMM_DT.pack(p.immediate),
    wire.ieth: lambda p: wire.IETH.pack(p.inv_rkey),
    wire.xrceth: lambda p: wire.XRCETH.pack(p.srqn),
    wire.deth: lambda p: wire.DETH.pack(p.qkey, p.src_qpn),
    wire.cnp: lambda p: bytes(wire.cnp.size),
}


def _decoder(headers: tuple[type[Prm], ...]) -> _Decoder | None:
    """Return a function that reads extension headers, which follow each other; None for none."""
    if len(headers) < 2:
        return _DECODERS[headers[0]] if headers else None

    def decode(packet: Packet, frame: memoryview, at: int) -> None:
        for header in headers:
            _DECODERS[header](packet, frame, at)
            at += header.size

    return decode


def _encoder(headers: tuple[type[Prm], ...]) -> _Encoder:
    """Return a function that builds extension headers, which follow each other."""
    if len(headers) == 1:
        return _HEADERS[headers[0]]
    return lambda packet: b"".join([_HEADERS[header](packet) for header in headers])


def _ending(op: PacketOp) -> type[Prm] | None:
    """Return the header of immediate data or of a key to invalidate, or None."""
    last = op.headers[-1] if op.headers else None
    return last if last in (wire.imm_dt, wire.ieth) else None


OPS: Final[dict[tuple[Service | None, PacketKind, bool, bool, type[Prm] | None], PacketOp]] = {
    (op.service, op.kind, op.is_first, op.is_last, _ending(op)): op for op in PACKET_OPS.values()
}
"""Opcodes by service, kind, whether first and last in the message, and ending header.

The ending header is that of immediate data or of a key to invalidate, or None.
"""

_FORMS: Final[dict[int, tuple[PacketOp, int, int, _Decoder | None]]] = {
    code: (
        op,
        _BTH_BYTES + op.header_bytes,
        MAX_PAYLOAD if op.kind in WITH_PAYLOAD else 0,
        _decoder(op.headers),
    )
    for code, op in PACKET_OPS.items()
}
"""How packets are parsed: opcode, bytes of its headers, maximum payload, and the reader of its
extension headers.
"""

EXTENSIONS: Final[dict[int, _Encoder]] = {
    code: _encoder(op.headers) for code, op in PACKET_OPS.items()
}
"""Functions that build the extension headers of a packet, by its opcode."""
