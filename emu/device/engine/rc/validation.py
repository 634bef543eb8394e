"""Validation of request packets: PSN, opcode sequence, opcode and length (IBTA 9.7.4.1).

The checks need neither a memory key nor a receive WQE. A message of this process runs the checks
that can fail; ``agreement.py`` excludes the others. For a failed check the caller sends the NAK of
the specification and stops the responder (``emu.device.engine.rc.checks``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from emu.device.engine.rc.checks import RxCheck, invalid_request
from emu.device.objects.queues.message import MASKED_ATOMIC_SIZES, Message
from emu.device.objects.queues.outcome import Outcome
from emu.device.objects.queues.qp import Qp
from emu.device.port.packet import KINDS, MAX_PAYLOAD, MSG_OPS, OPS, Packet
from layouts.wire.bth import PSN_HALF, PSN_MASK, PacketKind, Service

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_SOME_BYTES: Final = memoryview(bytes(MAX_PAYLOAD))
_SENDS: Final = PacketKind.SEND
_WRITES: Final = PacketKind.WRITE
_READS: Final = PacketKind.READ
_MASKED_ATOMICS: Final = frozenset({PacketKind.MASKED_COMPARE_SWAP, PacketKind.MASKED_FETCH_ADD})


class PsnCheck(Enum):
    """Position of a request packet's PSN."""

    EXPECTED = "expected"
    GAP = "after a gap: packets before it are missing"
    DUPLICATE = "before the expected one"


EXPECTED, GAP, DUPLICATE = PsnCheck


def check_psn(qp: Qp, psn: int) -> PsnCheck:
    """Return where a request's PSN is: expected, after a gap, or a duplicate.

    Counts out_of_sequence or duplicate_request, and sends no NAK. IBTA 9.7.4.1; rxe_resp.c:
    check_psn. For reliable services only: UC accepts any PSN for the first packet of a message
    (9.9.2.1.1).
    """
    ahead = psn - qp.epsn & PSN_MASK
    if not ahead:
        return EXPECTED
    if ahead < PSN_HALF:
        qp.count("out_of_sequence")
        return GAP
    qp.count("duplicate_request")
    return DUPLICATE


def op_seq_error(qp: Qp, packet: Packet, message: Message | None, _before: int) -> str:
    """Return "" if a packet continues its message, else the reason for the refusal.

    ``message`` is the message whose last packet is still missing: the packet must be a middle or
    last one of the same operation. Without a message it must be a first packet. IBTA 9.7.4.1.2;
    rxe_resp.c: check_op_seq.
    """
    op = packet.op
    if op.is_first if message is None else not op.is_first and MSG_OPS[op.kind] is message.op:
        return ""
    return f"{packet!r} does not continue the message before it"


def length_error(qp: Qp, packet: Packet, message: Message | None, before: int) -> str:
    """Return "" if the packet's length is valid, else the reason for the refusal.

    All packets but the last must be a full MTU, and a WRITE must match its RETH. Messages must be
    possible by log_msg_max, and a masked atomic's operands must fit their size. ``before``
    is the number of bytes of ``message`` received so far. IBTA 9.7.4.1.6, C9-92 to C9-94;
    rxe_resp.c: rxe_resp_check_length.
    """
    op, kind, size = packet.op, packet.op.kind, len(packet.payload)
    if kind is not _WRITES and kind is not _SENDS:
        if kind is _READS and not is_possible(qp, packet.length):
            return _too_long(packet)
        return _operands_error(packet) if kind in _MASKED_ATOMICS else ""
    mtu, is_first, is_last = qp.mtu_bytes, op.is_first, op.is_last
    if size > mtu or (size < mtu if not is_last else not size and not is_first):
        return f"{packet!r} has a payload of {size} bytes"
    total = size if is_first else before + size
    if kind is _SENDS:
        is_wrong = not is_possible(qp, total)
    else:
        if is_first and not is_possible(qp, packet.length):
            return _too_long(packet)
        announced = packet.length if is_first or message is None else message.length
        is_wrong = total != announced if is_last else total >= announced
    return f"{packet!r} makes a message of {total} bytes" if is_wrong else ""


def _too_long(packet: Packet) -> str:
    return f"{packet.op.kind.name} of {packet.length} bytes is too long"


def _operands_error(packet: Packet) -> str:
    """Return "" if a masked atomic's operands fit the size in its header, else the reason.

    A size that no atomic has is refused as well.
    """
    size = packet.length
    largest = max(packet.swap_add, packet.compare, packet.swap_add_mask, packet.compare_mask)
    if size not in MASKED_ATOMIC_SIZES or largest >> 8 * size:
        return f"{packet!r} has operands of {size} bytes, {largest:#x}"
    return ""


PACKET_CHECKS: Final[
    tuple[tuple[RxCheck, Callable[[Qp, Packet, Message | None, int], str]], ...]
] = (
    (RxCheck.OP_SEQ, op_seq_error),
    (RxCheck.LENGTH, length_error),
)
"""Checks of a packet with the expected PSN, in the order of the specification.

Each returns "" or the reason for the refusal, and has no effect. The arguments are the queue pair,
the packet, the message that it continues, and the bytes of that message so far. The checks that
follow are part of the execution, as their effects depend on the operation.
"""


def check_whole_length(hca: Hca, qp: Qp, message: Message, mtu_bytes: int) -> Outcome | None:
    """Check the length of a whole message by the first of its packets of ``mtu_bytes`` each.

    Returns None, or the outcome of ``invalid_request``. No packet is received or sent.
    """
    kind = KINDS[message.op]
    is_placing = kind in (_SENDS, _WRITES)
    is_last = not is_placing or message.length <= mtu_bytes
    packet = Packet().of(OPS[Service.RC, kind, True, is_last, None], qp.handle, 0)
    packet.length = message.length
    packet.swap_add = packet.compare = packet.swap_add_mask = packet.compare_mask = 0
    packet.payload = _SOME_BYTES[: min(message.length, mtu_bytes) if is_placing else 0]
    why = length_error(qp, packet, None, 0)
    return invalid_request(hca, qp, RxCheck.LENGTH, why) if why else None


def is_possible(qp: Qp, length: int) -> bool:
    """Return whether a message may have this length: log_msg_max, and below half of all PSNs."""
    return length <= qp.max_message and packets_of(length, qp.mtu_bytes) < PSN_HALF


def packets_of(length: int, mtu_bytes: int) -> int:
    """Return the number of packets of a message, at least one."""
    return -(-length // mtu_bytes) or 1
