"""Atomic operations of connected services (PRM "Atomic segment")."""

from __future__ import annotations

from struct import Struct

from emu.device.engine.mr.rights import LOCAL_WRITE
from emu.device.engine.wqe.registry import RELIABLE, Work, wqe_op
from emu.device.engine.wqe.segments import after_receiver, listed, need_segment, remote_address
from emu.device.objects import Qp
from emu.device.objects.message import Message, MsgOp
from emu.device.objects.send_queue import BadWqeError, Wqe
from emu.device.state.hca import Hca
from layouts.enums import Opcode
from layouts.wqe import ATOMIC, MASKED_ATOMIC

ATOMIC_BYTES = 8
_WORDS = Struct(">Q"), Struct("<Q")
_FETCH_ADD, _COMPARE_SWAP = MsgOp.FETCH_ADD, MsgOp.COMPARE_SWAP


def atomic_word(hca: Hca) -> Struct:
    """An atomic's operand in memory, by the endianness mode that the driver has chosen."""
    return _WORDS[hca.caps.atomic.atomic_req_8B_endianness_mode & 1]


def _atomic(hca: Hca, qp: Qp, wqe: Wqe, op: MsgOp, *, masked: bool) -> Message:
    """ctrl, [xrc or av], raddr, atomic (16 or 32 bytes), data: 8 bytes for the old value."""
    message = Message(op, ATOMIC_BYTES)
    at = remote_address(wqe, message, after_receiver(hca, qp, wqe, message))
    layout = MASKED_ATOMIC if masked else ATOMIC
    need_segment(wqe, at + layout.size)
    message.swap_add, message.compare, *masks = layout.unpack_from(wqe.buf, at)
    if masks:
        message.swap_add_mask, message.compare_mask = masks
    if op is _FETCH_ADD and not masked:
        message.compare = 0
    message.reply = listed(hca, qp, wqe, message, at + layout.size, LOCAL_WRITE)
    if message.length != ATOMIC_BYTES:
        raise BadWqeError("the answer to an atomic takes 8 bytes")
    return message


@wqe_op(Opcode.ATOMIC_CS, RELIABLE)
def atomic_cs(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Compare and swap."""
    return _atomic(hca, qp, wqe, _COMPARE_SWAP, masked=False)


@wqe_op(Opcode.ATOMIC_FA, RELIABLE)
def atomic_fa(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Fetch and add."""
    return _atomic(hca, qp, wqe, _FETCH_ADD, masked=False)
