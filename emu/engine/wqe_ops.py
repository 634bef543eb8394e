"""Send opcodes: what each WQE asks for, by opcode and transport service.

A function reads the segments behind the control segment, checks the local side, and returns what is
to be sent: a :class:`Message` (connected services), a :class:`Datagram` (UD), or None when the work
is local and done. It raises BadWqeError for a WQE that is malformed and AccessError for a key that
does not allow the local side; nothing has left by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.engine.datagram import read_av
from emu.engine.memory import access
from emu.engine.message import Message, MsgOp
from emu.engine.rights import (
    LOCAL_READ,
    LOCAL_WRITE,
    MOST_BYTES,
    MOST_STEPS,
    PACKET_BYTES,
    PIECE_BYTES,
    AccessError,
    InPieces,
    Refusal,
)
from emu.engine.signature import on_wire
from emu.engine.sq import BadWqeError, Wqe
from emu.engine.views import Views, length_of
from emu.objects import Qp
from emu.port.ib.datagram import Datagram
from layouts.enums import Opcode, QpType
from layouts.wqe import ATOMIC, DATA, DS, INLINE, INLINE_LENGTH, MASKED_ATOMIC, RADDR, XRC

if TYPE_CHECKING:
    from emu.hca import Hca

SOLICITED = 1 << 1
ATOMIC_BYTES = 8
SEGMENT_2GIB = 1 << 31
"""What byte_count 0 means (PRM "Data segment")."""

CONNECTED = frozenset({QpType.RC, QpType.UC, QpType.XRC})
RELIABLE = frozenset({QpType.RC, QpType.XRC})
DATAGRAM = frozenset({QpType.UD, QpType.QP0, QpType.QP1})

Work = Message | Datagram | None
WqeOp = Callable[["Hca", Qp, Wqe], Work]

WQE_OPS: dict[tuple[int, QpType], WqeOp] = {}


def wqe_op(opcode: Opcode, services: frozenset[QpType]) -> Callable[[WqeOp], WqeOp]:
    """Register the function for an opcode on the given services."""

    def register(function: WqeOp) -> WqeOp:
        for service in services:
            if (opcode, service) in WQE_OPS:
                raise ValueError(f"{opcode.name} on {service.name} is taken")
            WQE_OPS[opcode, service] = function
        return function

    return register


def gather(hca: Hca, qp: Qp, wqe: Wqe, at: int, need: int) -> Views:
    """The views behind the data segments from byte ``at`` to the WQE's end.

    Raises InPieces when they are too much for one go.
    """
    views: list[memoryview] = []
    end, room, most = wqe.ds * DS, MOST_BYTES, hca.steps + MOST_STEPS
    while at < end:
        byte_count, lkey, address = DATA.unpack_from(wqe.buf, at)
        if byte_count & INLINE:
            length = byte_count & INLINE_LENGTH
            _check_inline(at, length, end, need)
            if length:
                views.append(memoryview(wqe.buf)[at + 4 : at + 4 + length])
            at += (4 + length + DS - 1) & ~(DS - 1)
            continue
        length = byte_count or SEGMENT_2GIB
        if hca.has_signatures:
            address, length = on_wire(hca, lkey, address, length)
        views += access(hca, qp.pd, qp.handle, lkey, address, length, need)
        room -= length
        if room < 0 or hca.steps > most:
            raise InPieces(lkey, address, length, MOST_BYTES if room < 0 else PIECE_BYTES)
        at += DS
    return views


def listed_length(hca: Hca, wqe: Wqe, at: int, need: int) -> int:
    """Bytes that the data segments from byte ``at`` on name. Raises BadWqeError as ``gather``."""
    total, end = 0, wqe.ds * DS
    while at < end:
        byte_count, lkey, address = DATA.unpack_from(wqe.buf, at)
        if not byte_count & INLINE:
            length = byte_count or SEGMENT_2GIB
            total += on_wire(hca, lkey, address, length)[1] if hca.has_signatures else length
            at += DS
            continue
        length = byte_count & INLINE_LENGTH
        _check_inline(at, length, end, need)
        total += length
        at += (4 + length + DS - 1) & ~(DS - 1)
    return total


def _check_inline(at: int, length: int, end: int, need: int) -> None:
    if need & LOCAL_WRITE:
        raise BadWqeError("an answer cannot go into the WQE")
    if at + 4 + length > end:
        raise BadWqeError(f"inline segment of {length} bytes leaves the WQE")


def _listed(hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int, need: int) -> Views:
    """The views behind a message's data segments; it takes over their length.

    Nothing when they are too much for one go: ``most`` says so then.
    """
    message.data_at = at
    try:
        views = gather(hca, qp, wqe, at, need)
    except InPieces as more:
        message.most = more.most
        message.length = listed_length(hca, wqe, at, need)
        return ()
    message.length = length_of(views)
    return views


def gather_piece(hca: Hca, qp: Qp, wqe: Wqe, at: int, need: int, offset: int, length: int) -> Views:
    """``length`` bytes of what the data segments from byte ``at`` on name, from ``offset`` on.

    Raises InPieces when it is too much for one go, which PACKET_BYTES never are, and AccessError
    also when the segments are shorter than they were: a key's signatures, which
    count on the wire, may have been turned off since the request was parsed.
    """
    views: list[memoryview] = []
    end, most = wqe.ds * DS, hca.steps + MOST_STEPS
    lkey = address = 0
    is_long = length > PACKET_BYTES
    while length:
        if at >= end:
            raise AccessError(Refusal.BOUNDS, lkey, address, length)
        byte_count, lkey, address = DATA.unpack_from(wqe.buf, at)
        is_inline = byte_count & INLINE
        room = byte_count & INLINE_LENGTH if is_inline else byte_count or SEGMENT_2GIB
        if hca.has_signatures and not is_inline:
            address, room = on_wire(hca, lkey, address, room)
        size = min(room - offset, length)
        if size <= 0:
            offset -= room
        elif is_inline:
            views.append(memoryview(wqe.buf)[at + 4 + offset : at + 4 + offset + size])
        else:
            views += access(hca, qp.pd, qp.handle, lkey, address + offset, size, need)
            if is_long and hca.steps > most:
                raise InPieces(lkey, address, length, PIECE_BYTES)
        if size > 0:
            length -= size
            offset = 0
        at += (4 + room + DS - 1) & ~(DS - 1) if is_inline else DS
    return views


def _after_xrc(qp: Qp, wqe: Wqe, message: Message, at: int) -> int:
    """XRC names its shared receive queue first; where the next segment begins."""
    if qp.st is not QpType.XRC:
        return at
    _need_segment(wqe, at + DS)
    (message.srqn,) = XRC.unpack_from(wqe.buf, at)
    return at + DS


def _need_segment(wqe: Wqe, end: int) -> None:
    if wqe.ds * DS < end:
        raise BadWqeError(f"ds {wqe.ds} is too short for opcode {wqe.opcode:#x}")


def _remote_address(wqe: Wqe, message: Message, at: int) -> int:
    _need_segment(wqe, at + DS)
    message.va, message.rkey = RADDR.unpack_from(wqe.buf, at)
    return at + DS


def _outgoing(hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int) -> Message:
    """Fill in what SEND and WRITE have in common."""
    message.data = _listed(hca, qp, wqe, message, at, LOCAL_READ)
    message.solicited = bool(wqe.fm_ce_se & SOLICITED)
    return message


@wqe_op(Opcode.NOP, CONNECTED | DATAGRAM | {QpType.REG_UMR})
def nop(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Nothing but a completion."""
    return None


@wqe_op(Opcode.SEND, CONNECTED)
def send(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc], data."""
    message = Message(MsgOp.SEND, 0)
    return _outgoing(hca, qp, wqe, message, _after_xrc(qp, wqe, message, DS))


@wqe_op(Opcode.SEND_IMM, CONNECTED)
def send_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As SEND; the immediate stands in the control segment."""
    message = Message(MsgOp.SEND, 0)
    message.immediate = wqe.imm
    return _outgoing(hca, qp, wqe, message, _after_xrc(qp, wqe, message, DS))


@wqe_op(Opcode.SEND_INVAL, RELIABLE)
def send_inval(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As SEND; the rkey to invalidate stands in the control segment."""
    message = Message(MsgOp.SEND, 0)
    message.inv_rkey = wqe.imm
    return _outgoing(hca, qp, wqe, message, _after_xrc(qp, wqe, message, DS))


@wqe_op(Opcode.RDMA_WRITE, CONNECTED)
def rdma_write(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc], raddr, data."""
    message = Message(MsgOp.WRITE, 0)
    at = _remote_address(wqe, message, _after_xrc(qp, wqe, message, DS))
    return _outgoing(hca, qp, wqe, message, at)


@wqe_op(Opcode.RDMA_WRITE_IMM, CONNECTED)
def rdma_write_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As RDMA_WRITE; the peer's receive request takes the immediate."""
    message = Message(MsgOp.WRITE, 0)
    message.immediate = wqe.imm
    at = _remote_address(wqe, message, _after_xrc(qp, wqe, message, DS))
    return _outgoing(hca, qp, wqe, message, at)


@wqe_op(Opcode.RDMA_READ, RELIABLE)
def rdma_read(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, [xrc], raddr, data: where the answer goes."""
    message = Message(MsgOp.READ, 0)
    at = _remote_address(wqe, message, _after_xrc(qp, wqe, message, DS))
    message.reply = _listed(hca, qp, wqe, message, at, LOCAL_WRITE)
    return message


def _atomic(hca: Hca, qp: Qp, wqe: Wqe, op: MsgOp, *, masked: bool) -> Message:
    """ctrl, [xrc], raddr, atomic (16 or 32 bytes), data: 8 bytes for the old value."""
    message = Message(op, ATOMIC_BYTES)
    at = _remote_address(wqe, message, _after_xrc(qp, wqe, message, DS))
    layout = MASKED_ATOMIC if masked else ATOMIC
    _need_segment(wqe, at + layout.size)
    message.swap_add, message.compare, *masks = layout.unpack_from(wqe.buf, at)
    if masks:
        message.swap_add_mask, message.compare_mask = masks
    if op is MsgOp.FETCH_ADD and not masked:
        message.compare = 0
    message.reply = _listed(hca, qp, wqe, message, at + layout.size, LOCAL_WRITE)
    if message.length != ATOMIC_BYTES:
        raise BadWqeError("the answer to an atomic takes 8 bytes")
    return message


@wqe_op(Opcode.ATOMIC_CS, RELIABLE)
def atomic_cs(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Compare and swap."""
    return _atomic(hca, qp, wqe, MsgOp.COMPARE_SWAP, masked=False)


@wqe_op(Opcode.ATOMIC_FA, RELIABLE)
def atomic_fa(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Fetch and add."""
    return _atomic(hca, qp, wqe, MsgOp.FETCH_ADD, masked=False)


@wqe_op(Opcode.SEND, DATAGRAM)
def send_datagram(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """ctrl, av (16 or 48 bytes), data."""
    return _datagram(hca, qp, wqe, immediate=None)


@wqe_op(Opcode.SEND_IMM, DATAGRAM)
def send_datagram_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """As SEND; the immediate stands in the control segment."""
    return _datagram(hca, qp, wqe, immediate=wqe.imm)


def _datagram(hca: Hca, qp: Qp, wqe: Wqe, immediate: int | None) -> Datagram:
    destination, at = read_av(wqe)
    data: Views = ()
    try:
        data = gather(hca, qp, wqe, at, LOCAL_READ)
        length = length_of(data)
    except InPieces:  # longer than any datagram
        length = listed_length(hca, wqe, at, LOCAL_READ)
    return Datagram(destination, data, length, immediate, bool(wqe.fm_ce_se & SOLICITED))
