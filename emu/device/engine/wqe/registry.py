"""Send opcodes: what each WQE asks for, by opcode and transport service.

Importing the package imports all its modules, so a decorated function is enough to add an
operation: there is no list to extend.

A function reads the segments behind the control segment, checks the local side, and returns what is
to be sent: a :class:`Message` (connected services), a :class:`Datagram` (UD), or None when the work
is local and done. It raises BadWqeError for a WQE that is malformed and AccessError for a key that
does not allow the local side; nothing has been sent by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.device.engine.mr.access import access
from emu.device.engine.mr.rights import (
    IN_PIECES,
    LOCAL_WRITE,
    MOST_BYTES,
    PIECE_BYTES,
    AccessError,
    Violation,
)
from emu.device.engine.mr.signature import on_wire
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.datagram import Datagram
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.enums import Opcode, QpType
from layouts.wqe import DATA, DS, INLINE, INLINE_LENGTH

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

SEGMENT_2GIB = 1 << 31
"""What byte_count 0 means (PRM "Data segment")."""

CONNECTED = frozenset({QpType.RC, QpType.UC, QpType.XRC, QpType.DCI})
"""Services whose requests are messages; DC's begin with an address vector."""
RELIABLE = frozenset({QpType.RC, QpType.XRC, QpType.DCI})
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

    Raises AccessError, IN_PIECES when they are too much for one call.
    """
    views: list[memoryview] = []
    end, room, most = wqe.ds * DS, MOST_BYTES, hca.round.steps + STEPS_PER_ACCESS
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
        views += access(hca, qp.pd, qp.handle, lkey, (address, length, need), 0, most)
        room -= length
        if room < 0 or hca.round.steps > most:
            raise AccessError(
                IN_PIECES, lkey, address, length, MOST_BYTES if room < 0 else PIECE_BYTES
            )
        at += DS
    return views


def listed_length(hca: Hca, wqe: Wqe, at: int, need: int) -> int:
    """Total length of the data segments from byte ``at`` on. Raises BadWqeError as ``gather``."""
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


def gather_piece(hca: Hca, qp: Qp, wqe: Wqe, at: int, need: int, offset: int, length: int) -> Views:
    """``length`` bytes at ``offset`` of the data that the data segments from byte ``at`` on name.

    Raises AccessError, IN_PIECES when it is too much for one call, which PIECE_BYTES never are. It
    is one of BOUNDS when the segments are shorter than before: a key's signatures, which add
    bytes on the wire, may have been turned off since the request was parsed.
    """
    views: list[memoryview] = []
    end, most = wqe.ds * DS, hca.round.steps + STEPS_PER_ACCESS
    lkey = address = 0
    is_long = length > PIECE_BYTES
    while length:
        if at >= end:
            raise AccessError(Violation.BOUNDS, lkey, address, length)
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
            views += access(hca, qp.pd, qp.handle, lkey, (address + offset, size, need))
            if is_long and hca.round.steps > most:
                raise AccessError(IN_PIECES, lkey, address, length, PIECE_BYTES)
        if size > 0:
            length -= size
            offset = 0
        at += (4 + room + DS - 1) & ~(DS - 1) if is_inline else DS
    return views
