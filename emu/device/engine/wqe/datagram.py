"""Sends of datagram services."""

from __future__ import annotations

from emu.device.engine.mr.access import listed_length
from emu.device.engine.mr.access_error import PACKET_BYTES, TOO_FRAGMENTED, AccessError
from emu.device.engine.wqe import ipoib
from emu.device.engine.wqe.messages import SOLICITED, data_segments, gather, read_av
from emu.device.engine.wqe.registry import Work, wqe_op
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.qp_context import DATAGRAM
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.datagram import Datagram
from emu.device.state.hca import Hca
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode


@wqe_op(Opcode.SEND, DATAGRAM)
def send_datagram(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a SEND: ctrl, av (16 or 48 bytes), data."""
    return _datagram(hca, qp, wqe, immediate=None)


@wqe_op(Opcode.SEND_IMM, DATAGRAM)
def send_datagram_imm(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a SEND with immediate data, which is in the control segment."""
    return _datagram(hca, qp, wqe, immediate=wqe.imm)


@wqe_op(Opcode.LSO, frozenset({QpType.UD}))
def send_large(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Parse a large send of IP over InfiniBand: ctrl, av, pad, Ethernet segment, headers, data.

    Returns the datagrams. Raises BadWqeError on a queue pair without these offloads, and the errors
    of ``ipoib.large``.
    """
    if not qp.is_ipoib:
        raise BadWqeError("large send on a queue pair without offloads")
    to, at = read_av(hca.link, wqe)
    return ipoib.large(hca, qp, wqe, to, at)


def _datagram(hca: Hca, qp: Qp, wqe: Wqe, immediate: int | None) -> Datagram:
    """Return the datagram of a SEND: ctrl, av, data.

    Raises BadWqeError for a malformed WQE, AccessError for memory that may not be read or is too
    scattered. Data longer than PACKET_BYTES are not read: the length alone makes the request fail.
    """
    destination, at = read_av(hca.link, wqe)
    if qp.is_ipoib:
        return ipoib.one(hca, qp, wqe, destination, at, immediate)
    data: Views = ()
    segments = data_segments(wqe, at)
    try:
        data, length = gather(hca, qp, wqe, segments, LOCAL_READ)
    except AccessError as error:
        if error.violation is not TOO_FRAGMENTED:
            raise
        length = listed_length(hca, segments)
        if length <= PACKET_BYTES:  # too scattered: LOCAL_PROT_ERR
            raise
        # Longer than any datagram: the length alone makes it fail.
    return Datagram(destination, data, length, immediate, bool(wqe.fm_ce_se & SOLICITED))
