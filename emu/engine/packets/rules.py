"""Opcode sequence and length checks of request packets (IBTA 9.7.4.1.2, 9.7.4.1.6)."""

from __future__ import annotations

from emu.engine.packets.responses import packets_of
from emu.objects import Qp
from emu.objects.message import Message, MsgOp
from emu.port.packet import Packet
from layouts.bth import PSN_HALF, Kind

MSG_OPS = {
    Kind.SEND: MsgOp.SEND,
    Kind.WRITE: MsgOp.WRITE,
    Kind.READ: MsgOp.READ,
    Kind.COMPARE_SWAP: MsgOp.COMPARE_SWAP,
    Kind.FETCH_ADD: MsgOp.FETCH_ADD,
}
"""The operation of a message, by the kind of its packets."""


def out_of_sequence(packet: Packet, message: Message | None) -> str:
    """Why a packet cannot follow the one before: "" when it can.

    ``message`` is the one whose last packet is still to come: the packet must then be a middle or
    last one of the same operation. Without one it must be a first packet.
    """
    op = packet.op
    if op.is_first is not (message is None) or (
        message is not None and MSG_OPS[op.kind] is not message.op
    ):
        return f"{packet!r} does not continue what went before"
    return ""


def wrong_length(qp: Qp, packet: Packet, message: Message | None, offset: int) -> str:
    """Check length: why a packet is too long or too short, "" when it is neither.

    All packets but the last are a full MTU long, and a WRITE is as long as its RETH says.
    ``offset`` bytes of ``message`` came before.
    """
    op, size = packet.op, len(packet.payload)
    if op.kind is Kind.READ and not is_possible(qp, packet.length):
        return f"READ of {packet.length} bytes"
    if op.kind not in (Kind.SEND, Kind.WRITE):
        return ""
    is_too_short = size < qp.mtu_bytes if not op.is_last else not (size or op.is_first)
    if size > qp.mtu_bytes or is_too_short:
        return f"{packet!r} has {size} bytes"
    total = size if op.is_first else offset + size
    if op.kind is Kind.SEND:
        is_wrong = not is_possible(qp, total)
    else:
        announced = packet.length if op.is_first or not message else message.length
        is_wrong = total != announced if op.is_last else total >= announced
    return f"{packet!r} makes {total} bytes" if is_wrong else ""


def is_possible(qp: Qp, length: int) -> bool:
    """Whether a message may have this length: log_msg_max, and less than half of all PSNs."""
    return length <= 1 << qp.log_msg_max and packets_of(length, qp.mtu_bytes) < PSN_HALF
