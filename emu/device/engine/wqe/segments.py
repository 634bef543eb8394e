"""Segments that several send opcodes have behind the control segment."""

from __future__ import annotations

from emu.device.engine.mr.rights import IN_PIECES, LOCAL_READ, AccessError
from emu.device.engine.wqe.registry import gather, listed_length
from emu.device.objects.memory.views import Views, length_of
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.base import Link
from emu.device.port.datagram import Destination
from emu.device.state.hca import Hca
from layouts.enums import QpType
from layouts.wqe import DS, RADDR, XRC, av

SOLICITED = 1 << 1
"""In the control segment's fm_ce_se: the peer's completion is a solicited one."""

_AV_EXTENDED = 1 << 31
_AV_BASE_BYTES = DS
_AV_KEY = slice(DS, DS + 8)
_XRC, _DCI = QpType.XRC, QpType.DCI


def after_receiver(hca: Hca, qp: Qp, wqe: Wqe, message: Message) -> int:
    """Read which receiver the message names: for XRC a shared queue, for DC a target.

    Returns where the next segment begins; for other services that is after the control segment.
    """
    if qp.st is _DCI:
        to, at = read_av(hca.link, wqe)
        message.address, message.dctn = hca.link.address_to(to), to.qpn
        if to.gid is not None:
            message.route = hca.link.gid(to.sgid_index), to.gid
        message.access_key = int.from_bytes(wqe.buf[_AV_KEY], "big")
        return at
    if qp.st is not _XRC:
        return DS
    need_segment(wqe, 2 * DS)
    (message.srqn,) = XRC.unpack_from(wqe.buf, DS)
    return 2 * DS


def read_av(link: Link, wqe: Wqe) -> tuple[Destination, int]:
    """The address vector behind the control segment, and the offset of the segment after it.

    Raises BadWqeError when the WQE is too short for it. Source: PRM "Datagram segment"; device.h:
    mlx5_av.
    """
    if wqe.ds < 2:
        raise BadWqeError("no address vector")
    extended = int.from_bytes(wqe.buf[DS + 8 : DS + 12], "big") & _AV_EXTENDED
    size = av.size if extended else _AV_BASE_BYTES
    if wqe.ds * DS < DS + size:
        raise BadWqeError("address vector leaves the WQE")
    return link.vector(bytes(wqe.buf[DS : DS + size]).ljust(av.size, b"\0")), DS + size


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
    except AccessError as more:
        _divide(hca, wqe, message, LOCAL_READ, more)
    return message


def listed(hca: Hca, qp: Qp, wqe: Wqe, message: Message, at: int, need: int) -> Views:
    """The views behind a message's data segments; sets the message's length to theirs.

    When they are too much for one call: returns () and sets ``message.most``.
    """
    message.data_at = at
    try:
        views = gather(hca, qp, wqe, at, need)
    except AccessError as more:
        _divide(hca, wqe, message, need, more)
        return ()
    message.length = length_of(views)
    return views


def _divide(hca: Hca, wqe: Wqe, message: Message, need: int, more: AccessError) -> None:
    """The message's segments are too much for one call: only their length is needed now.

    Any other reason is raised again.
    """
    if more.violation is not IN_PIECES:
        raise more
    message.most = more.most
    message.length = listed_length(hca, wqe, message.data_at, need)
