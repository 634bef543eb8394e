"""Packets as the engine handles them, and their bytes on the wire.

``parse`` checks everything that the headers say about each other before a packet means anything:
lengths, versions, the opcode (IBTA 9.6.1.1, 9.6.1.2). What they say about a queue pair is the
transport's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.engine.views import Views
from layouts import bth as wire
from layouts.bth import Kind, PacketOp, Service
from layouts.enums import QpType
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.hca import Hca
    from emu.objects import Qp

MAX_PAYLOAD = 4096
_SMALLEST = wire.lrh.size + wire.bth.size + wire.ICRC_BYTES

MAX_BYTES = (
    _SMALLEST
    + wire.grh.size
    + max(op.header_bytes for op in wire.PACKET_OPS.values())
    + MAX_PAYLOAD
)
"""The longest packet there can be."""


SERVICES = {
    QpType.RC: Service.RC,
    QpType.UC: Service.UC,
    QpType.XRC: Service.XRC,
    QpType.UD: Service.UD,
    QpType.QP0: Service.UD,
    QpType.QP1: Service.UD,
}
"""The service whose packets each type of queue pair takes."""


class BadPacketError(ValueError):
    """Bytes that are no packet; the text says why."""


@dataclass(frozen=True, slots=True)
class GlobalHeader:
    """What a global route header says."""

    sgid: bytes
    dgid: bytes
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 0


@dataclass(frozen=True, slots=True)
class Route:
    """How packets find their way, and what every one of a connection carries."""

    dlid: int
    slid: int
    sl: int
    pkey: int
    grh: GlobalHeader | None

    @classmethod
    def of(cls, hca: Hca, qp: Qp) -> Route:
        """The primary path of a connected queue pair."""
        path, port = qp.ctx.primary_address_path, hca.port
        grh = None
        if path.grh:
            sgid = port.gid(path.src_addr_index)
            grh = GlobalHeader(sgid, path.rgid_rip, path.tclass, path.flow_label, path.hop_limit)
        return cls(qp.rlid, port.lid, path.sl, port.pkey(qp.pkey_index), grh)


class Packet:
    """One packet. The fields of an extension header are there when the opcode has the header."""

    __slots__ = (
        "ack_request", "compare", "dlid", "grh", "immediate", "inv_rkey", "length", "msn", "op",
        "original", "payload", "pkey", "psn", "qkey", "qpn", "rkey", "sl", "slid", "solicited",
        "src_qpn", "srqn", "swap_add", "syndrome", "va",
    )  # fmt: skip

    # Of a packet that has come in:
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
    original: int
    syndrome: int
    msn: int
    qkey: int
    src_qpn: int

    def __init__(self, op: PacketOp, qpn: int, psn: int) -> None:
        self.op = op
        self.qpn = qpn
        self.psn = psn
        self.ack_request = self.solicited = False
        self.srqn = 0
        self.immediate: int | None = None
        self.inv_rkey: int | None = None

    @property
    def is_multicast(self) -> bool:
        """Whether a packet that has come in is for a group."""
        return wire.MULTICAST_LID <= self.dlid < wire.PERMISSIVE_LID

    def __repr__(self) -> str:
        return f"{self.op} to qp {self.qpn:#x}, psn {self.psn:#x}"


def parse(frame: memoryview) -> Packet:
    """The packet in ``frame``, whose payload stays a view of it. Raises BadPacketError."""
    if not _SMALLEST <= len(frame) <= MAX_BYTES:
        raise BadPacketError(f"{len(frame)} bytes are no packet")
    vl_lver, sl_lnh, dlid, pkt_len, slid = wire.LRH.unpack_from(frame)
    if vl_lver & wire.LVER_MASK or (pkt_len & wire.PKT_LEN_MASK) * 4 != len(frame):
        raise BadPacketError(f"local header does not fit {len(frame)} bytes")
    at, grh = wire.lrh.size, None
    if sl_lnh & wire.LNH_MASK == wire.LNH_GLOBAL:
        grh = _parse_global(frame, at)
        at += wire.grh.size
    elif sl_lnh & wire.LNH_MASK != wire.LNH_LOCAL:
        raise BadPacketError("not a packet of the InfiniBand transport")
    packet = _parse_transport(frame, at)
    packet.dlid, packet.slid, packet.sl = dlid, slid, sl_lnh >> wire.SL_SHIFT
    packet.grh = grh
    return packet


def _parse_global(frame: memoryview, at: int) -> GlobalHeader:
    if len(frame) < _SMALLEST + wire.grh.size:
        raise BadPacketError("too short for a global header")
    word, pay_len, next_header, hop_limit, sgid, dgid = wire.GRH.unpack_from(frame, at)
    if word >> 28 != wire.GRH_VERSION or next_header != wire.GRH_NEXT_IBA:
        raise BadPacketError("global header is not one of version 6 before a transport header")
    if pay_len != len(frame) - at - wire.grh.size:
        raise BadPacketError(f"global header says {pay_len} bytes")
    return GlobalHeader(sgid, dgid, word >> 20 & 0xFF, word & 0xFFFFF, hop_limit)


def _parse_transport(frame: memoryview, at: int) -> Packet:
    code, flags, pkey, dest_qp, a_psn = wire.BTH.unpack_from(frame, at)
    op = wire.PACKET_OPS.get(code)
    if op is None or flags & wire.TVER_MASK:
        raise BadPacketError(f"opcode {code:#x}, version {flags & wire.TVER_MASK}: unknown")
    packet = Packet(op, dest_qp & wire.QPN_MASK, a_psn & wire.PSN_MASK)
    packet.pkey = pkey
    packet.ack_request = a_psn & wire.ACK_REQUEST != 0
    packet.solicited = flags & wire.SOLICITED != 0
    at += wire.bth.size
    end = len(frame) - wire.ICRC_BYTES - (flags >> wire.PAD_SHIFT & wire.PAD_MASK)
    size = end - at - op.header_bytes
    if size < 0 or size > MAX_PAYLOAD or (size and op.kind not in wire.WITH_PAYLOAD):
        raise BadPacketError(f"{op} with {size} bytes of payload")
    for header in op.headers:
        _DECODERS[header](packet, frame, at)
        at += header.size
    packet.payload = frame[at:end]
    return packet


def build(packet: Packet, route: Route, payload: Views = (), length: int = 0) -> bytes:
    """The packet's bytes, with ``length`` bytes of ``payload``."""
    op = packet.op
    pad = -length & wire.PAD_MASK
    flags = wire.MIGRATED | pad << wire.PAD_SHIFT | (wire.SOLICITED if packet.solicited else 0)
    a_psn = packet.psn | wire.ACK_REQUEST if packet.ack_request else packet.psn
    inner = wire.bth.size + op.header_bytes + length + pad + wire.ICRC_BYTES
    return b"".join(
        (
            _front(route, inner),
            wire.BTH.pack(op.code, flags, route.pkey, packet.qpn, a_psn),
            *[_ENCODERS[header](packet) for header in op.headers],
            *payload,
            _ENDS[pad],
        )
    )


_ENDS = tuple(bytes(pad + wire.ICRC_BYTES) for pad in range(4))
"""Padding and invariant CRC."""


def _front(route: Route, inner: int) -> bytes:
    """The local and the global header in front of ``inner`` bytes."""
    grh, sl = route.grh, route.sl << wire.SL_SHIFT
    if grh is None:
        words = (wire.lrh.size + inner) >> 2
        return wire.LRH.pack(0, sl | wire.LNH_LOCAL, route.dlid, words, route.slid)
    words = (wire.lrh.size + wire.grh.size + inner) >> 2
    first = wire.GRH_VERSION << 28 | grh.tclass << 20 | grh.flow_label
    return wire.LRH.pack(0, sl | wire.LNH_GLOBAL, route.dlid, words, route.slid) + wire.GRH.pack(
        first, inner, wire.GRH_NEXT_IBA, grh.hop_limit, grh.sgid, grh.dgid
    )


# The extension headers, both ways.


def _get_reth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.va, packet.rkey, packet.length = wire.RETH.unpack_from(frame, at)


def _get_aeth(packet: Packet, frame: memoryview, at: int) -> None:
    (word,) = wire.AETH.unpack_from(frame, at)
    packet.syndrome, packet.msn = word >> wire.SYNDROME_SHIFT, word & wire.MSN_MASK


def _get_atomic_eth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.va, packet.rkey, packet.swap_add, packet.compare = wire.ATOMIC_ETH.unpack_from(frame, at)


def _get_atomic_ack_eth(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.original,) = wire.ATOMIC_ACK_ETH.unpack_from(frame, at)


def _get_imm_dt(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.immediate,) = wire.IMM_DT.unpack_from(frame, at)


def _get_ieth(packet: Packet, frame: memoryview, at: int) -> None:
    (packet.inv_rkey,) = wire.IETH.unpack_from(frame, at)


def _get_xrceth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.srqn = wire.XRCETH.unpack_from(frame, at)[0] & wire.QPN_MASK


def _get_deth(packet: Packet, frame: memoryview, at: int) -> None:
    packet.qkey, word = wire.DETH.unpack_from(frame, at)
    packet.src_qpn = word & wire.QPN_MASK


_DECODERS: dict[Prm, Callable[[Packet, memoryview, int], None]] = {
    wire.reth: _get_reth,
    wire.aeth: _get_aeth,
    wire.atomic_eth: _get_atomic_eth,
    wire.atomic_ack_eth: _get_atomic_ack_eth,
    wire.imm_dt: _get_imm_dt,
    wire.ieth: _get_ieth,
    wire.xrceth: _get_xrceth,
    wire.deth: _get_deth,
}

_ENCODERS: dict[Prm, Callable[[Packet], bytes]] = {
    wire.reth: lambda p: wire.RETH.pack(p.va, p.rkey, p.length),
    wire.aeth: lambda p: wire.AETH.pack(p.syndrome << wire.SYNDROME_SHIFT | p.msn),
    wire.atomic_eth: lambda p: wire.ATOMIC_ETH.pack(p.va, p.rkey, p.swap_add, p.compare),
    wire.atomic_ack_eth: lambda p: wire.ATOMIC_ACK_ETH.pack(p.original),
    wire.imm_dt: lambda p: wire.IMM_DT.pack(p.immediate),
    wire.ieth: lambda p: wire.IETH.pack(p.inv_rkey),
    wire.xrceth: lambda p: wire.XRCETH.pack(p.srqn),
    wire.deth: lambda p: wire.DETH.pack(p.qkey, p.src_qpn),
}


def _ending(op: PacketOp) -> Prm | None:
    """The header of immediate data or of a key to invalidate."""
    last = op.headers[-1] if op.headers else None
    return last if last in (wire.imm_dt, wire.ieth) else None


OPS: dict[tuple[Service, Kind, bool, bool, Prm | None], PacketOp] = {
    (op.service, op.kind, op.is_first, op.is_last, _ending(op)): op
    for op in wire.PACKET_OPS.values()
}
"""Opcodes by meaning: service, kind, whether it begins and whether it ends its message, and the
header of immediate data or of a key to invalidate, or None."""
