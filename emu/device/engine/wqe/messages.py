"""SEND, RDMA WRITE and RDMA READ of connected services, and NOP (PRM "Send WQE format").

Other opcodes share some of the segments behind the control segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emu.device.engine.mr.access import INLINE_KEY, access, all_views, listed_length, segment_views
from emu.device.engine.mr.access_error import (
    ABSENT_PAGE,
    MAX_BYTES,
    TOO_FRAGMENTED,
    AccessError,
    Violation,
)
from emu.device.engine.wqe.registry import CONNECTED, RELIABLE, Work, wqe_op
from emu.device.objects.eth.sq import Sq
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message, MsgOp
from emu.device.objects.queues.outcome import LocalAccessFailed
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.qp_context import DATAGRAM
from emu.device.objects.queues.receive_queue import Segment
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.datagram import Destination
from emu.device.port.link import AddressVectors
from emu.device.rounds.budget import POLL_BUDGET, STEPS_PER_ACCESS
from emu.device.state.hca import Hca
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, DS, INLINE, INLINE_LENGTH, RADDR, XRC, av

SOLICITED: Final = 1 << 1
"""Bit of fm_ce_se in the control segment: the peer's completion is solicited."""

_read_raddr: Final = RADDR.unpack_from
_read_data: Final = DATA.unpack_from
_INLINE_HEADER_BYTES: Final = 4
"""Length field at the start of an inline segment; the data follow."""
_PADDING: Final = DS - 1
_AV_EXTENDED: Final = 1 << 31
_AV_BASE_BYTES: Final = DS
_WRITE_DATA: Final = 2 * DS
"""Offset of the data of a WRITE that does not name its receiver: behind ctrl and raddr."""
_SEND_IMM: Final = int(Opcode.SEND_IMM)
_SEND_INVAL: Final = int(Opcode.SEND_INVAL)
_WRITE_IMM: Final = int(Opcode.RDMA_WRITE_IMM)
_SEND: Final = MsgOp.SEND
_WRITE: Final = MsgOp.WRITE
_READ: Final = MsgOp.READ
_XRC: Final = QpType.XRC
_DCI: Final = QpType.DCI
_NAMING: Final = frozenset({QpType.XRC, QpType.DCI})
"""Services whose requests name their receiver."""


@wqe_op(Opcode.NOP, CONNECTED | DATAGRAM | {QpType.REG_UMR})
def nop(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Complete without any work."""
    return None


@wqe_op(Opcode.SEND, CONNECTED)
@wqe_op(Opcode.SEND_IMM, CONNECTED)
@wqe_op(Opcode.SEND_INVAL, RELIABLE)
def send(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a SEND: ctrl, [xrc or av], data; return the message.

    Immediate data, or the rkey to invalidate, are in the control segment.
    """
    message = Message()
    message.op, message.limit = _SEND, 0
    message.immediate = wqe.imm if wqe.opcode == _SEND_IMM else None
    message.inv_rkey = wqe.imm if wqe.opcode == _SEND_INVAL else None
    message.solicited = wqe.fm_ce_se & SOLICITED != 0
    at = after_receiver(hca.link, qp, wqe, message) if qp.st in _NAMING else DS
    message.data = listed(hca, qp, wqe, message, at, LOCAL_READ)
    return message


@wqe_op(Opcode.RDMA_WRITE, CONNECTED)
@wqe_op(Opcode.RDMA_WRITE_IMM, CONNECTED)
def rdma_write(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse an RDMA WRITE: ctrl, [xrc or av], raddr, data; return the message.

    One with immediate data takes a receive request of the peer.
    """
    message = Message()
    message.op, message.limit = _WRITE, 0
    if wqe.opcode == _WRITE_IMM:  # only then a completion at the peer can be solicited
        message.immediate, message.solicited = wqe.imm, wqe.fm_ce_se & SOLICITED != 0
    else:
        message.immediate = None
    if qp.st in _NAMING:
        at = remote_address(hca.link, qp, wqe, message)
    else:  # most requests, without a call
        message.va, message.rkey = _read_raddr(wqe.buf, DS)
        at = _WRITE_DATA
    message.data = listed(hca, qp, wqe, message, at, LOCAL_READ)
    return message


@wqe_op(Opcode.RDMA_READ, RELIABLE)
def rdma_read(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse an RDMA READ: ctrl, [xrc or av], raddr, data (for the response).

    Memory that cannot store the response is no error yet: ``message.reply_error`` fails the request
    when the response arrives.
    """
    message = Message()
    message.op = _READ
    at = remote_address(hca.link, qp, wqe, message)
    message.reply = listed(hca, qp, wqe, message, at, LOCAL_WRITE)
    return message


def after_receiver(link: AddressVectors, qp: Qp, wqe: Wqe, message: Message) -> int:
    """Read the receiver that the message names: for XRC a shared queue, for DC a target.

    Returns the offset of the next segment; for other services that is behind the control segment.
    Raises BadWqeError when the WQE is too short. A receiver that does not exist is found only
    later.
    """
    if qp.st is _DCI:
        to, at = read_av(link, wqe)
        message.address, message.dctn = link.address_to(to), to.qpn
        if to.gid is not None:
            message.route = link.gid(to.sgid_index), to.gid
        message.access_key = int.from_bytes(wqe.buf[DS : DS + 8], "big")
        return at
    if qp.st is not _XRC:
        return DS
    need_segment(wqe, 2 * DS)
    (message.srqn,) = XRC.unpack_from(wqe.buf, DS)
    return 2 * DS


def read_av(link: AddressVectors, wqe: Wqe) -> tuple[Destination, int]:
    """Return the address vector behind the control segment, and the offset of the next segment.

    Raises BadWqeError when the WQE is too short for it. Source: PRM "Datagram segment"; device.h:
    mlx5_av.
    """
    extended = int.from_bytes(wqe.buf[DS + 8 : DS + 12], "big") & _AV_EXTENDED
    size = av.size if extended else _AV_BASE_BYTES
    if wqe.ds * DS < DS + size:
        raise BadWqeError("address vector exceeds the WQE")
    return link.vector(bytes(wqe.buf[DS : DS + size]).ljust(av.size, b"\0")), DS + size


def need_segment(wqe: Wqe, end: int) -> None:
    """Raise BadWqeError when the WQE, by its ``ds``, ends before byte ``end``."""
    if wqe.ds * DS < end:
        raise BadWqeError(f"ds {wqe.ds} is too short for opcode {wqe.opcode:#x}")


def remote_address(link: AddressVectors, qp: Qp, wqe: Wqe, message: Message) -> int:
    """Read the receiver, if the service names it here, and the remote memory behind it.

    Returns the offset of the next segment. Raises BadWqeError when the WQE is too short.
    """
    at = after_receiver(link, qp, wqe, message) if qp.st in _NAMING else DS
    end = at + DS
    if wqe.ds * DS < end:
        need_segment(wqe, end)
    message.va, message.rkey = _read_raddr(wqe.buf, at)
    return end


def data_segments(wqe: Wqe, at: int, need: int = LOCAL_READ) -> list[Segment]:
    """Return the data segments from byte ``at`` to the WQE's end, as ``segment_views`` takes them.

    Empty inline segments are left out. Raises BadWqeError for an inline segment that exceeds the
    WQE, or that is to be written. Keys are not checked.
    """
    segments: list[Segment] = []
    buf, end = wqe.buf, wqe.ds * DS
    while at < end:
        segment = _read_data(buf, at)
        at += DS
        if segment[0] & INLINE:
            if need & LOCAL_WRITE:
                raise BadWqeError("inline data segment cannot store a response")
            segment, at = inline_segment(at - DS, segment[0] & INLINE_LENGTH, end)
            if not segment[0]:
                continue
        segments.append(segment)
    return segments


def inline_segment(at: int, length: int, end: int) -> tuple[Segment, int]:
    """Return the inline segment of ``length`` bytes at byte ``at``, and the next one's offset.

    Raises BadWqeError when it exceeds the WQE.
    """
    start = at + _INLINE_HEADER_BYTES
    if start + length > end:
        raise BadWqeError(f"inline segment of {length} bytes exceeds the WQE")
    return (length, INLINE_KEY, start), start + length + DS - 1 & -DS


def listed(
    hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int, need: int, limit: int = POLL_BUDGET
) -> Views:
    """Return the views behind a message's data segments, and set the message's length.

    Returns () and sets ``message.limit`` when they are too much for one call, or when
    ``hca.budget.steps`` would exceed ``limit``: the message is then moved in segments. Returns ()
    and sets ``message.reply_error`` when a response cannot be stored there: the error is due with
    the response. Raises BadWqeError, and AccessError for data that cannot be read or for an absent
    page.
    """
    try:
        if wqe.ds * DS == at + DS and not hca.has_signatures:  # one segment, as in most requests
            segment: Segment = _read_data(wqe.buf, at)
            size, lkey, address = segment
            if 0 < size <= MAX_BYTES:  # neither inline nor 2 GiB
                message.segments, message.length = (segment,), size
                return access(hca, qp.pd, qp.handle, lkey, (address, size, need), 0, limit)
        else:
            need_segment(wqe, at)
            size = _read_data(wqe.buf, at)[0] if at < wqe.ds * DS else 0
        start, size = at + _INLINE_HEADER_BYTES, size - INLINE
        if size > 0 and (start + size + _PADDING & -DS) == wqe.ds * DS and need == LOCAL_READ:
            message.segments, message.length = ((size, INLINE_KEY, start),), size
            return (memoryview(wqe.buf[start : start + size]),)
        message.segments = segments = data_segments(wqe, at, need)
        views, message.length = all_views(hca, qp.pd, qp.handle, segments, need, limit, wqe.buf)
    except AccessError as error:
        if error.violation is TOO_FRAGMENTED:
            message.limit = error.limit
        elif need & LOCAL_WRITE and error.violation is not ABSENT_PAGE:
            message.reply_error = LocalAccessFailed(error)
        else:
            raise
        message.length = listed_length(hca, message.segments)
        return ()
    return views


def gather(
    hca: Hca, qp: Qp | Sq, wqe: Wqe, segments: Sequence[Segment], need: int
) -> tuple[Views, int]:
    """Return the views behind all of a list of data segments, and their length.

    Raises AccessError, TOO_FRAGMENTED when they are too much for one call.
    """
    limit = hca.budget.steps + STEPS_PER_ACCESS
    return all_views(hca, qp.pd, qp.handle, segments, need, limit, wqe.buf)


def memory_of(
    hca: Hca, qp: Qp, wqe: Wqe, message: Message, need: int, offset: int, length: int
) -> Views:
    """Return ``length`` bytes at ``offset`` of a message's data segments, or of its CQE's data.

    Raises AccessError: TOO_FRAGMENTED when the range is too much for one call, which SEGMENT_BYTES
    never are; BOUNDS when the segments are now too short. A UMR may have turned off a key's
    signatures, which add bytes on the wire, since the request was parsed.
    """
    span = offset, length, need
    views, left = segment_views(hca, qp.pd, qp.handle, message.segments, span, None, wqe.buf)
    if left:
        raise AccessError(Violation.BOUNDS, message.segments[-1][1], offset, length)
    if wqe.scattered is not None:
        return (memoryview(wqe.scattered)[offset : offset + length],)
    return views
