"""Segments that several send opcodes have behind the control segment."""

from __future__ import annotations

from emu.device.hca import Hca
from emu.engine.mr.rights import LOCAL_READ, InPieces
from emu.engine.wqe.registry import gather, listed_length
from emu.objects import Qp
from emu.objects.message import Message
from emu.objects.send_queue import BadWqeError, Wqe
from emu.objects.views import Views, length_of
from layouts.enums import QpType
from layouts.wqe import DS, RADDR, XRC

SOLICITED = 1 << 1
"""In the control segment's fm_ce_se: the peer's completion is a solicited one."""

_XRC = QpType.XRC


def after_xrc(qp: Qp, wqe: Wqe, message: Message, at: int) -> int:
    """Read the SRQ number of an XRC segment, if any; returns where the next segment begins."""
    if qp.st is not _XRC:
        return at
    need_segment(wqe, at + DS)
    (message.srqn,) = XRC.unpack_from(wqe.buf, at)
    return at + DS


def need_segment(wqe: Wqe, end: int) -> None:
    if wqe.ds * DS < end:
        raise BadWqeError(f"ds {wqe.ds} is too short for opcode {wqe.opcode:#x}")


def remote_address(wqe: Wqe, message: Message, at: int) -> int:
    need_segment(wqe, at + DS)
    message.va, message.rkey = RADDR.unpack_from(wqe.buf, at)
    return at + DS


def outgoing(hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int) -> Message:
    """Fill in what SEND and WRITE have in common: their data, from byte ``at`` of the WQE on."""
    message.data_at = at
    message.solicited = bool(wqe.fm_ce_se & SOLICITED)
    try:
        message.data = views = gather(hca, qp, wqe, at, LOCAL_READ)
        message.length = length_of(views)
    except InPieces as more:
        _divide(hca, wqe, message, LOCAL_READ, more)
    return message


def listed(hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int, need: int) -> Views:
    """The views behind a message's data segments; sets the message's length to theirs.

    When they are too much for one call: returns () and sets ``message.most``.
    """
    message.data_at = at
    try:
        views = gather(hca, qp, wqe, at, need)
    except InPieces as more:
        _divide(hca, wqe, message, need, more)
        return ()
    message.length = length_of(views)
    return views


def _divide(hca: Hca, wqe: Wqe, message: Message, need: int, more: InPieces) -> None:
    """The message's segments are too much for one call: only their length is needed now."""
    message.most = more.most
    message.length = listed_length(hca, wqe, message.data_at, need)
