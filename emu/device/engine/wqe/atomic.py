"""Atomic operations of connected services (PRM "Atomic segment").

Masked atomics have operands of 4 or 8 bytes, selected by opmod. The segments are UCX's (ib_mlx5.h:
uct_ib_mlx5_atomic_masked_cswap32_seg and those after it; rc_mlx5.inl).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from emu.device.engine.wqe.messages import listed, need_segment, remote_address
from emu.device.engine.wqe.registry import RELIABLE, Work, wqe_op
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.state.caps import Caps
from emu.device.state.hca import Hca
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import (
    ATOMIC,
    EXTENDED_ATOMIC,
    MASKED_ATOMIC,
    MASKED_CS_4,
    MASKED_FA,
    MASKED_FA_4,
)

ATOMIC_BYTES: Final = 8
"""Size in bytes of an operand without masks."""

_WORDS: Final[Mapping[int, tuple[Struct, Struct]]] = {
    4: (Struct(">I"), Struct("<I")),
    8: (Struct(">Q"), Struct("<Q")),
}
_MASKED: Final[Mapping[MsgOp, Mapping[int, tuple[int, Struct]]]] = {
    MsgOp.MASKED_COMPARE_SWAP: {
        EXTENDED_ATOMIC: (4, MASKED_CS_4), EXTENDED_ATOMIC | 1: (8, MASKED_ATOMIC),
    },
    MsgOp.MASKED_FETCH_ADD: {
        EXTENDED_ATOMIC: (4, MASKED_FA_4), EXTENDED_ATOMIC | 1: (8, MASKED_FA),
    },
}  # fmt: skip
"""Operand size and segment, by operation and opmod."""


_PLAIN: Final = (MsgOp.COMPARE_SWAP, MsgOp.FETCH_ADD)


def atomic_word(caps: Caps, size: int) -> Struct:
    """Return the layout of an atomic's operand in memory, by the driver's endianness mode."""
    return _WORDS[size][caps.atomic.atomic_req_8B_endianness_mode & 1]


def reply_word(caps: Caps, size: int) -> Struct:
    """Return the layout of the old value in the requester's memory.

    The driver's mode applies to 8 bytes; other sizes are big-endian. Source: UCX,
    uct_ib_mlx5_devx_md_open: ext_atomic_arg_sizes_be.
    """
    return atomic_word(caps, size) if size == ATOMIC_BYTES else in_completion(size)


def in_completion(size: int) -> Struct:
    """Return the layout of the old value in a completion: always big-endian.

    Source: UCX, rc_mlx5_iface.c, which overrides the handlers of little-endian replies for it;
    libmlx5 copies the bytes unchanged (qp.c: mlx5_copy_to_send_wqe).
    """
    return _WORDS[size][0]


def _atomic(hca: Hca, qp: Qp, wqe: Wqe, op: MsgOp, size: int, layout: Struct) -> Message:
    """Parse ctrl, [xrc or av], raddr, atomic (16 or 32 bytes), data; return the message.

    ``size`` bytes of old value are stored. Raises BadWqeError for a short WQE or too short data
    segments, AccessError for an absent page. Without masks, data segments may be longer; only
    ``size`` bytes are written, like on real cards (rdma-unit-test: introspection_mlx5.h,
    FetchAddInvalidSize).
    """
    message = Message()
    message.op, message.length = op, size
    at = remote_address(hca.link, qp, wqe, message)
    need_segment(wqe, at + layout.size)
    message.swap_add, message.compare, *masks = layout.unpack_from(wqe.buf, at)
    if masks:
        message.swap_add_mask, message.compare_mask = masks
    if op is MsgOp.FETCH_ADD:
        message.compare = 0
    elif op is MsgOp.MASKED_FETCH_ADD:
        message.swap_add_mask = message.compare_mask = 0
    message.old_value = reply_word(hca.caps, size)
    limit = hca.budget.steps + STEPS_PER_ACCESS  # an atomic cannot be moved in segments
    message.reply = listed(hca, qp, wqe, message, at + layout.size, LOCAL_WRITE, limit)
    if message.length != size:
        if op not in _PLAIN or message.length < size:
            raise BadWqeError(f"the response to an atomic needs {size} bytes, not {message.length}")
        message.length = size
    return message


def _masked(hca: Hca, qp: Qp, wqe: Wqe, op: MsgOp) -> Message:
    """Parse a masked atomic, whose opmod selects 4 or 8 bytes; return the message.

    Raises BadWqeError for any other opmod, and the errors of ``_atomic``.
    """
    masked = _MASKED[op].get(wqe.opmod)
    if masked is None:
        raise BadWqeError(f"no masked atomic has opmod {wqe.opmod}")
    return _atomic(hca, qp, wqe, op, *masked)


@wqe_op(Opcode.ATOMIC_CS, RELIABLE)
def atomic_cs(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a compare and swap."""
    return _atomic(hca, qp, wqe, MsgOp.COMPARE_SWAP, ATOMIC_BYTES, ATOMIC)


@wqe_op(Opcode.ATOMIC_FA, RELIABLE)
def atomic_fa(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a fetch and add."""
    return _atomic(hca, qp, wqe, MsgOp.FETCH_ADD, ATOMIC_BYTES, ATOMIC)


@wqe_op(Opcode.ATOMIC_MASKED_CS, RELIABLE)
def atomic_masked_cs(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a masked compare and swap, with a mask for each operand."""
    return _masked(hca, qp, wqe, MsgOp.MASKED_COMPARE_SWAP)


@wqe_op(Opcode.ATOMIC_MASKED_FA, RELIABLE)
def atomic_masked_fa(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a masked fetch and add, which adds in fields."""
    return _masked(hca, qp, wqe, MsgOp.MASKED_FETCH_ADD)
