"""Unreliable datagrams: one packet, an address vector, and up to 40 bytes of GRH at the receiver.

Source: IBTA 9.8.3 and 11.4.1.2; PRM "Datagram segment" (device.h: mlx5_av). Datagrams have no
responses. A datagram without a receiver is silently dropped, by the specification. The special
queue pairs QP0 and QP1 work the same, under their well-known numbers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access import segment_views
from emu.device.engine.mr.access_error import ABSENT_PAGE, AccessError
from emu.device.engine.qp.events import check_srq_limit, take_shared
from emu.device.engine.qp.lifecycle import break_receives, fail_receive_and_stop
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.outcome import Outcome
from emu.device.objects.queues.page_fault import FaultedAccess, PageFaultType, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import ListBrokenError, RecvWqe
from emu.device.objects.queues.receive_request import ReceiveRequest, receive_request
from emu.device.port import partitions
from emu.device.port.datagram import (
    GRH_BYTES,
    GSI_QKEY,
    PRIVILEGED_QKEY,
    Datagram,
    Destination,
    Origin,
)
from emu.device.port.ib import ipoib
from emu.device.ports import DmaError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.rounds.costs import STEPS_PER_DATAGRAM
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.port.link import AddressVectors, DatagramKeys
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

WELL_KNOWN: Final = {QpType.QP0: 0, QpType.QP1: 1}
"""QP numbers of the special queue pairs on the wire."""


_UD: Final = QpType.UD
_QP0: Final = QpType.QP0
_QP1: Final = QpType.QP1
_RESPONDER: Final = Side.RESPONDER
_RESP_SEND: Final = CqeOpcode.RESP_SEND
_RESP_SEND_IMM: Final = CqeOpcode.RESP_SEND_IMM
_HAS_VLAN: Final = 1 << 0
"""l4_l3_hdr_type: the packet had a VLAN tag, whose TCI is in vlan_info (device.h: CQE_HAS_VLAN)."""


def origin_of(link: AddressVectors, qp: Qp, to: Destination) -> Origin:
    """Return the sender's headers. A privileged Q_Key is replaced by the queue pair's (10.2.5)."""
    qkey = qp.q_key if to.qkey & PRIVILEGED_QKEY else to.qkey
    pkey = link.pkey(qp.pkey_index)
    qpn = WELL_KNOWN.get(qp.st, qp.handle)
    return link.origin(to, qpn, pkey, qkey)


def receive(hca: Hca, qp: Qp, datagram: Datagram, origin: Origin) -> bool:
    """Place a datagram into the queue pair's next receive request; return False if dropped.

    Dropped: no receiving state, wrong keys (violations are counted), a page fault in progress, no
    receive queue, none posted (out_of_buffer), or a request too small. An unreadable queue also
    moves the queue pair to ERR. True may also mean that the request has failed, or waits for a
    page. An underlay's ``steer`` receives instead.
    """
    hca.budget.charge(STEPS_PER_DATAGRAM)
    if (
        qp.state not in RECEIVING
        or not _keys_match(hca.link, qp, origin)
        or qp.page_faults.get(_RESPONDER)
    ):
        return False
    if qp.steer is not None:
        return qp.steer(hca, qp, datagram, origin)
    queue = qp.srq.queue if qp.srq is not None else qp.rq
    cq = qp.srq.cq if qp.srq is not None and qp.srq.cq is not None else qp.rcq
    if queue is None or cq is None:
        return False
    try:
        wqe = queue.take() if qp.srq is None else take_shared(qp.srq)
    except (DmaError, ListBrokenError) as error:
        break_receives(hca, qp, qp.srq, error)
        return False
    if wqe is None:
        qp.count("out_of_buffer")
        return False
    if qp.srq is not None:
        check_srq_limit(hca.events, qp.srq)
    return _deliver(hca, qp, wqe, datagram, origin)


def _keys_match(link: DatagramKeys, qp: Qp, origin: Origin) -> bool:
    """Return whether P_Key and Q_Key match; count a violation at the port (IBTA 9.6.1.4, 9.8.3.1).

    A wrong P_Key is counted before the Q_Key is compared. QP1 receives any P_Key of the port's
    table (10.9.8; hw/cq.c: handle_responder), with GSI_QKEY. QP0 has no keys, and receives from QP0
    only.
    """
    if qp.st is _QP0:
        return origin.qpn == WELL_KNOWN[_QP0]
    if qp.st is _QP1:
        is_member = link.has_match(origin.pkey)
    else:
        is_member = partitions.match(link.pkey(qp.pkey_index), origin.pkey)
    if not is_member:
        link.violated_pkey()
        return False
    if origin.qkey != (qp.q_key if qp.st is _UD else GSI_QKEY):
        link.violated_qkey()
        return False
    return True


def _deliver(hca: Hca, qp: Qp, wqe: RecvWqe, datagram: Datagram, origin: Origin) -> bool:
    """Fill the receive request; return False when it is too small and stays the next one.

    A sender of datagrams cannot stop a queue pair by a datagram that is too long (IBTA 9.9.3, class
    D; rxe_resp.c: RESPST_ERR_LENGTH). A shared queue's request does fail, with LOCAL_LENGTH_ERR.
    Unusable memory fails any request with LOCAL_PROT_ERR. Both move the queue pair to ERR and
    return True, as does an absent page that is waited for.
    """
    cq = qp.srq.cq if qp.srq is not None and qp.srq.cq is not None else qp.rcq
    srqn = qp.srq.handle if qp.srq is not None else 0
    assert cq is not None
    length = GRH_BYTES + datagram.length
    try:
        span = 0, length, LOCAL_WRITE
        limit = hca.budget.steps + STEPS_PER_ACCESS  # limits scattering to one segment per byte
        target, left = segment_views(hca, wqe.pd, qp.handle, wqe.segments, span, limit)
    except AccessError as error:
        may_wait = error.violation is ABSENT_PAGE
        if may_wait and page_faults.may_wait(
            hca.events, hca.caps, qp, "srq_receive" if srqn else "receive"
        ):
            _wait_for_page(hca, qp, receive_request(wqe, cq, srqn), datagram, origin, error)
        else:
            fail_receive_and_stop(
                hca, qp, receive_request(wqe, cq, srqn), CqeSyndrome.LOCAL_PROT_ERR, str(error),
                error.cause,
            )  # fmt: skip
        return True
    if left:
        why = f"shorter than {length} bytes"
        if qp.srq is not None or qp.rq is None:
            fail_receive_and_stop(
                hca, qp, receive_request(wqe, cq, srqn), CqeSyndrome.LOCAL_LENGTH_ERR, why
            )
            return True
        log.debug("%r: a datagram is dropped: request %d is %s", qp, wqe.index, why)
        qp.rq.give_back(wqe)
        return False
    header, flags, tag = hca.link.describe(datagram, origin)
    data, checked = datagram.data, 0
    if qp.is_ipoib:
        packet = b"".join(data)  # read once: the sender may still change its data
        data, checked = (memoryview(packet),), ipoib.checked(packet)
    copy(target, (memoryview(header), *data))
    immediate = origin.pkey if qp.st is _QP1 else datagram.immediate
    opcode = _RESP_SEND if datagram.immediate is None else _RESP_SEND_IMM
    received = (
        wqe.index, length, srqn, immediate or 0, flags | origin.qpn, origin.lid,
        datagram.solicited, datagram.to.path_bits,
    )  # fmt: skip
    extra = {"hds_ip_ext": checked} if checked else {}
    if tag is not None:
        extra |= {"l4_l3_hdr_type": _HAS_VLAN, "vlan_info": tag}
    completions.complete_receive(hca.cqes, hca.srqs, cq, qp, opcode, received, None, extra)
    return True


def _wait_for_page(
    hca: Hca, qp: Qp, receive: ReceiveRequest, datagram: Datagram, origin: Origin, page: AccessError
) -> None:
    """Keep a copy of the datagram until the page is present; drop other datagrams meanwhile.

    If the driver refuses the page, the request fails with LOCAL_PROT_ERR and the queue pair goes to
    ERR. If the queue pair stops, the datagram is lost.
    """
    wqe, srqn = receive.wqe, receive.srqn
    assert wqe is not None
    whole = datagram.copied()

    def refuse(why: str) -> None:
        qp.waiting_receive = None
        fail_receive_and_stop(hca, qp, receive, CqeSyndrome.LOCAL_PROT_ERR, why, Cause.MEMORY)

    def retry(_: Outcome | None) -> None:
        if qp.waiting_receive is receive and qp.state in RECEIVING:
            qp.waiting_receive = None
            _deliver(hca, qp, wqe, whole, origin)

    kind = PageFaultType.SHARED_RECEIVE if srqn else PageFaultType.RECEIVE
    what = FaultedAccess(kind, GRH_BYTES + datagram.length, srqn or qp.handle, wqe.index)
    qp.waiting_receive = receive
    page_faults.suspend(hca, qp, _RESPONDER, what, page, refuse).wait(retry)
