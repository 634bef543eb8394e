"""Duplicate READs: read their data again, if the key still allows it (IBTA 9.7.5.1.4).

A key that does not allow it any more is no error: the requester may have its data already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr import page_faults
from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import ABSENT_PAGE, TOO_FRAGMENTED, AccessError
from emu.device.engine.mr.checks import check_access
from emu.device.engine.qp.transitions import RECEIVING
from emu.device.engine.rc.receive import named_queue
from emu.device.engine.rc.remote import start_of, suspend_rdma
from emu.device.objects.domains import Pd
from emu.device.objects.memory.rights import REMOTE_READ
from emu.device.objects.memory.views import Views
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.outcome import Dropped, Outcome, TooFragmented
from emu.device.objects.queues.qp import Qp
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.objects.queues.srq import Srq
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca

_XRC: Final = QpType.XRC


def may_read_again(hca: Hca, qp: Qp, message: Message) -> bool:
    """Return whether queue pair and key still allow a duplicate READ.

    False without rre, for an XRC message whose SRQ is gone, and when the key does not grant the
    whole range any more. Pages are not checked, and no state changes.
    """
    if not _is_allowed(hca.srqs, qp, message):
        return False
    try:
        span = start_of(hca, message), message.length, REMOTE_READ
        check_access(hca, _pd(hca.srqs, qp, message), qp.handle, message.rkey, span)
    except AccessError:
        return False
    return True


def read_again(
    hca: Hca, qp: Qp, message: Message, offset: int, length: int
) -> Views | Outcome | None:
    """Return the views of ``length`` bytes of a duplicate READ; None when not allowed any more.

    Returns a PageFault when a page is absent and the responder may wait for it. If the driver
    does not map the page, no response is sent (Dropped). A range too much for one call returns
    TooFragmented. The queue pair never goes to ERR here.
    """
    if not _is_allowed(hca.srqs, qp, message):
        return None
    pd, va = _pd(hca.srqs, qp, message), start_of(hca, message) + offset
    try:
        return access(hca, pd, qp.handle, message.rkey, (va, length, REMOTE_READ))
    except AccessError as error:
        if error.violation is TOO_FRAGMENTED:
            return TooFragmented(error.limit, str(error))
        may_wait = error.violation is ABSENT_PAGE and qp.state in RECEIVING
        if not may_wait or not page_faults.may_wait(hca.events, hca.caps, qp, "read"):
            return None
        return suspend_rdma(hca, qp, message, offset, error, Dropped)


def _is_allowed(srqs: Table[Srq], qp: Qp, message: Message) -> bool:
    """Return whether rre is set and, on XRC, the SRQ that the request names exists."""
    return bool(qp.rre) and (qp.st is not _XRC or named_queue(srqs, qp, message) is not None)


def _pd(srqs: Table[Srq], qp: Qp, message: Message) -> Pd | None:
    """Return the domain whose keys an allowed request may use."""
    srq = named_queue(srqs, qp, message) if qp.st is _XRC else None
    return qp.pd if srq is None else srq.pd
