"""Wire opcodes: meaning and headers behind the BTH of each (IBTA table 38)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from layouts.prm import Prm
from layouts.wire.bth import (
    PacketKind,
    Service,
    aeth,
    atomic_ack_eth,
    atomic_eth,
    cnp,
    deth,
    ieth,
    imm_dt,
    masked_atomic_eth,
    reth,
    xrceth,
)


class Position(IntFlag):
    """Position of a packet in its message."""

    MIDDLE = 0
    FIRST = 1
    LAST = 2
    ONLY = FIRST | LAST


RESPONSES = frozenset(
    {PacketKind.READ_RESPONSE, PacketKind.ACKNOWLEDGE, PacketKind.ATOMIC_ACKNOWLEDGE}
)
"""Kinds of packets that are sent to the requester."""

WITH_PAYLOAD = frozenset({PacketKind.SEND, PacketKind.WRITE, PacketKind.READ_RESPONSE})
"""Kinds of packets that carry bytes of the message."""


@dataclass(frozen=True, slots=True)
class PacketOp:
    """Wire opcode."""

    code: int
    service: Service
    kind: PacketKind
    position: Position
    headers: tuple[type[Prm], ...]
    """Extension headers, in the order in which they follow the BTH."""
    header_bytes: int = field(init=False)
    """Number of bytes of the extension headers."""
    is_first: bool = field(init=False)
    """Whether the packet begins its message."""
    is_last: bool = field(init=False)
    """Whether the packet ends its message."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "header_bytes", sum(header.size for header in self.headers))
        object.__setattr__(self, "is_first", Position.FIRST in self.position)
        object.__setattr__(self, "is_last", Position.LAST in self.position)

    def __str__(self) -> str:
        extra = "".join(f" {header.__name__}" for header in self.headers)
        return f"{self.service.name} {self.kind.name} {self.position.name}{extra}"


_S, _W, _R = PacketKind.SEND, PacketKind.WRITE, PacketKind.READ_RESPONSE
_FIRST, _MIDDLE, _LAST, _ONLY = Position.FIRST, Position.MIDDLE, Position.LAST, Position.ONLY

_CONNECTED: tuple[tuple[int, PacketKind, Position, tuple[type[Prm], ...]], ...] = (
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
    (0x0C, PacketKind.READ, _ONLY, (reth,)),
    (0x0D, _R, _FIRST, (aeth,)),
    (0x0E, _R, _MIDDLE, ()),
    (0x0F, _R, _LAST, (aeth,)),
    (0x10, _R, _ONLY, (aeth,)),
    (0x11, PacketKind.ACKNOWLEDGE, _ONLY, (aeth,)),
    (0x12, PacketKind.ATOMIC_ACKNOWLEDGE, _ONLY, (aeth, atomic_ack_eth)),
    (0x13, PacketKind.COMPARE_SWAP, _ONLY, (atomic_eth,)),
    (0x14, PacketKind.FETCH_ADD, _ONLY, (atomic_eth,)),
    (0x16, _S, _LAST, (ieth,)),
    (0x17, _S, _ONLY, (ieth,)),
)
"""Low five bits, meaning and headers of the connected services (table 38)."""

_MASKED = ((0x13, PacketKind.MASKED_COMPARE_SWAP), (0x14, PacketKind.MASKED_FETCH_ADD))
_MASKED_RC, _MASKED_XRC = 0xC0, 0xE0
"""Masked atomics: our own opcodes, among those that manufacturers may use (0xC0 to 0xFF, table 38).

Their low five bits are those of the plain ones. Other adapters know neither them nor the header.
"""

_UC_CODES = range(0x0C)
"""Opcodes of UC: sends and writes, without send with invalidate."""


def _rows() -> Iterator[PacketOp]:
    """Yield every known opcode: RC, UC, XRC, UD, CNP and this project's masked atomics."""
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
    yield PacketOp(Service.CNP << 5 | 0x01, Service.CNP, PacketKind.CNP, _ONLY, (cnp,))


PACKET_OPS: Mapping[int, PacketOp] = {op.code: op for op in _rows()}
"""Every known opcode by its number."""
