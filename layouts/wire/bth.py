"""InfiniBand packets: headers, wire opcodes, and which headers each opcode has.

Source: IBTA volume 1, chapters 7.7 (LRH), 8.3 (GRH), 9.2 to 9.4 (transport headers, opcodes) and
annex A14 (XRC). A packet is LRH, perhaps GRH, BTH, the opcode's extension headers, payload padded
to four bytes, and the invariant CRC. The CRC is carried as zero and not checked: what carries the
packets here does not change them. The variant CRC belongs to a link and is left out.

Fields that share a word stand here as that word, as in the driver's own segments; the masks are
below. The driver has a type for the global header alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the specification's figures.
# fmt: off

lrh = Prm(
    "lrh",
    "vl_lver" / bits(8), "sl_lnh" / bits(8), "dlid" / bits(16), "pkt_len" / bits(16),
    "slid" / bits(16),
)

grh = Prm(
    "grh",
    "version_tclass_flow" / bits(32), "paylen" / bits(16), "next_hdr" / bits(8),
    "hop_limit" / bits(8), "sgid" / octets(16), "dgid" / octets(16),
    c_name="ib_grh",
)

bth = Prm(
    "bth",
    "opcode" / bits(8), "se_m_pad_tver" / bits(8), "p_key" / bits(16), "dest_qp" / bits(32),
    "a_psn" / bits(32),
)

deth = Prm("deth", "q_key" / bits(32), "src_qp" / bits(32))
reth = Prm("reth", "va" / bits(64), "r_key" / bits(32), "dma_len" / bits(32))
aeth = Prm("aeth", "syndrome_msn" / bits(32))

atomic_eth = Prm(
    "atomic_eth",
    "va" / bits(64), "r_key" / bits(32), "swap_add" / bits(64), "compare" / bits(64),
)

masked_atomic_eth = Prm(
    "masked_atomic_eth",
    "va" / bits(64), "r_key" / bits(32), "swap_add" / bits(64), "compare" / bits(64),
    "dma_len" / bits(32), "swap_add_mask" / bits(64), "compare_mask" / bits(64),
)
"""Ours: an AtomicETH, and behind it what a masked atomic has besides.

What ConnectX sends is not public, only that the masks are in the extended header and that the
response is an ordinary atomic's (Linux commit 5e80ba8ff0bd). ``dma_len`` is the size of the
operands, in bytes: they are numbers of so many bytes. In a masked FETCH_ADD ``compare`` has the top
bits of the fields, and the masks are zero.
"""

atomic_ack_eth = Prm("atomic_ack_eth", "original" / bits(64))
imm_dt = Prm("imm_dt", "immediate" / bits(32))
ieth = Prm("ieth", "r_key" / bits(32))
xrceth = Prm("xrceth", "xrc_srq" / bits(32))
cnp = Prm("cnp", rsvd(128))
"""What follows the BTH of a congestion notification packet (A17.9.3)."""

# fmt: on

LRH = lrh.packer("vl_lver", "sl_lnh", "dlid", "pkt_len", "slid")
GRH = grh.packer("version_tclass_flow", "paylen", "next_hdr", "hop_limit", "sgid", "dgid")
BTH = bth.packer("opcode", "se_m_pad_tver", "p_key", "dest_qp", "a_psn")
DETH = deth.packer("q_key", "src_qp")
RETH = reth.packer("va", "r_key", "dma_len")
AETH = aeth.packer("syndrome_msn")
ATOMIC_ETH = atomic_eth.packer("va", "r_key", "swap_add", "compare")
MASKED_ATOMIC_ETH = masked_atomic_eth.packer(
    "va", "r_key", "swap_add", "compare", "dma_len", "swap_add_mask", "compare_mask"
)
ATOMIC_ACK_ETH = atomic_ack_eth.packer("original")
IMM_DT = imm_dt.packer("immediate")
IETH = ieth.packer("r_key")
XRCETH = xrceth.packer("xrc_srq")

ICRC_BYTES = 4
MULTICAST_LID, PERMISSIVE_LID = 0xC000, 0xFFFF

LVER_MASK = 0xF
SL_SHIFT = 4
LNH_MASK, LNH_LOCAL, LNH_GLOBAL = 3, 2, 3
"""LRH: what follows; BTH, or GRH and BTH."""
PKT_LEN_MASK = 0x7FF
"""LRH: length in words of four bytes, from LRH to invariant CRC."""

GRH_VERSION = 6
GRH_NEXT_IBA = 0x1B

SOLICITED, MIGRATED = 1 << 7, 1 << 6
PAD_SHIFT, PAD_MASK = 4, 3
TVER_MASK = 0xF
"""BTH: solicited event, migration state, bytes of padding, transport version."""
FECN, BECN = 1 << 31, 1 << 30
"""BTH: congestion bits, in front of the destination queue pair (IBTA 9.2.2)."""
QPN_MASK = PSN_MASK = MSN_MASK = (1 << 24) - 1
PSN_HALF = 1 << 23
"""A PSN that is at least this far ahead of another one is behind it."""
ACK_REQUEST = 1 << 31
"""BTH: the top bit of the PSN's word."""

SYNDROME_SHIFT = 24
ACK_UNLIMITED = 0x1F
"""AETH: acknowledged, and end-to-end credits are not in use (9.7.5.1.2)."""
SYNDROME_KIND, SYNDROME_VALUE = 0xE0, 0x1F
KIND_ACK, KIND_RNR, KIND_NAK = 0x00, 0x20, 0x60
"""AETH: the three kinds of answers (table 44)."""


class Service(IntEnum):
    """Transport services by the three top bits of an opcode that is not a manufacturer's."""

    RC = 0
    UC = 1
    UD = 3
    CNP = 4
    """No service: congestion notifications of RoCE, between queue pairs of connected services."""
    XRC = 5


class Kind(IntEnum):
    """What a packet is part of."""

    SEND = 0
    WRITE = 1
    READ = 2
    COMPARE_SWAP = 3
    FETCH_ADD = 4
    READ_RESPONSE = 5
    ACKNOWLEDGE = 6
    ATOMIC_ACKNOWLEDGE = 7
    CNP = 8
    MASKED_COMPARE_SWAP = 9
    MASKED_FETCH_ADD = 10


class Position(IntFlag):
    """Where in its message a packet stands."""

    MIDDLE = 0
    FIRST = 1
    LAST = 2
    ONLY = FIRST | LAST


RESPONSES = frozenset({Kind.READ_RESPONSE, Kind.ACKNOWLEDGE, Kind.ATOMIC_ACKNOWLEDGE})
"""What goes back to the requester."""

WITH_PAYLOAD = frozenset({Kind.SEND, Kind.WRITE, Kind.READ_RESPONSE})
"""What carries bytes of the message."""


@dataclass(frozen=True, slots=True)
class PacketOp:
    """One wire opcode."""

    code: int
    service: Service
    kind: Kind
    position: Position
    headers: tuple[Prm, ...]
    """Extension headers, in the order in which they follow the BTH."""
    header_bytes: int = field(init=False)
    """Bytes of the extension headers."""
    is_first: bool = field(init=False)
    """Whether it begins its message."""
    is_last: bool = field(init=False)
    """Whether it ends its message."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "header_bytes", sum(header.size for header in self.headers))
        object.__setattr__(self, "is_first", Position.FIRST in self.position)
        object.__setattr__(self, "is_last", Position.LAST in self.position)

    def __str__(self) -> str:
        extra = "".join(f" {header.prm_name}" for header in self.headers)
        return f"{self.service.name} {self.kind.name} {self.position.name}{extra}"


_S, _W, _R = Kind.SEND, Kind.WRITE, Kind.READ_RESPONSE
_FIRST, _MIDDLE, _LAST, _ONLY = Position.FIRST, Position.MIDDLE, Position.LAST, Position.ONLY

_CONNECTED: tuple[tuple[int, Kind, Position, tuple[Prm, ...]], ...] = (
    (0x00, _S, _FIRST, ()),
    (0x01, _S, _MIDDLE, ()),
    (0x02, _S, _LAST, ()),
    (0x03, _S, _LAST, (imm_dt,)),
    (0x04, _S, _ONLY, ()),
    (0x05, _S, _ONLY, (imm_dt,)),
    (0x06, _W, _FIRST, (reth,)),
    (0x07, _W, _MIDDLE, ()),
    (0x08, _W, _LAST, ()),
    (0x09, _W, _LAST, (imm_dt,)),
    (0x0A, _W, _ONLY, (reth,)),
    (0x0B, _W, _ONLY, (reth, imm_dt)),
    (0x0C, Kind.READ, _ONLY, (reth,)),
    (0x0D, _R, _FIRST, (aeth,)),
    (0x0E, _R, _MIDDLE, ()),
    (0x0F, _R, _LAST, (aeth,)),
    (0x10, _R, _ONLY, (aeth,)),
    (0x11, Kind.ACKNOWLEDGE, _ONLY, (aeth,)),
    (0x12, Kind.ATOMIC_ACKNOWLEDGE, _ONLY, (aeth, atomic_ack_eth)),
    (0x13, Kind.COMPARE_SWAP, _ONLY, (atomic_eth,)),
    (0x14, Kind.FETCH_ADD, _ONLY, (atomic_eth,)),
    (0x16, _S, _LAST, (ieth,)),
    (0x17, _S, _ONLY, (ieth,)),
)
"""Low five bits, meaning and headers of the connected services (table 38)."""

_MASKED = ((0x13, Kind.MASKED_COMPARE_SWAP), (0x14, Kind.MASKED_FETCH_ADD))
_MASKED_RC, _MASKED_XRC = 0xC0, 0xE0
"""Masked atomics: ours, among the opcodes that manufacturers may use (0xC0 to 0xFF, table 38).
Their low five bits are those of the plain ones. Other adapters know neither them nor the header."""

_UC_CODES = range(0x0C)
"""UC sends and writes, and has no send with invalidate."""


def _rows() -> Iterator[PacketOp]:
    for code, kind, position, headers in _CONNECTED:
        yield PacketOp(Service.RC << 5 | code, Service.RC, kind, position, headers)
        if code in _UC_CODES:
            yield PacketOp(Service.UC << 5 | code, Service.UC, kind, position, headers)
        # Every XRC request names the shared receive queue (A14.3.1.1).
        front = () if kind in RESPONSES else (xrceth,)
        yield PacketOp(Service.XRC << 5 | code, Service.XRC, kind, position, (*front, *headers))
    for code, kind in _MASKED:
        header = masked_atomic_eth
        yield PacketOp(_MASKED_RC | code, Service.RC, kind, _ONLY, (header,))
        yield PacketOp(_MASKED_XRC | code, Service.XRC, kind, _ONLY, (xrceth, header))
    for code, headers in ((0x04, (deth,)), (0x05, (deth, imm_dt))):
        yield PacketOp(Service.UD << 5 | code, Service.UD, _S, _ONLY, headers)
    yield PacketOp(Service.CNP << 5 | 0x01, Service.CNP, Kind.CNP, _ONLY, (cnp,))


PACKET_OPS: Mapping[int, PacketOp] = {op.code: op for op in _rows()}
"""Every opcode that is known, by its number."""
