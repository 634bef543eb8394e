"""The table of a responder's checks, and the NAKs that stop it (IBTA 9.7.4.1, 9.7.5.2, 9.9.3).

A request passes the checks in this order. Log and trace name by the table the check that has
refused a request, for messages in this process and for packets. The names are rxe's (rxe_resp.c).
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING

from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.events import raise_qp_event
from emu.device.objects.queues.outcome import Dropped, Nak, NakCode, Outcome
from emu.device.objects.queues.qp import Qp
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.probes import Probes

log = logging.getLogger(__name__)


class RxCheck(StrEnum):
    """A check, or a later step that can refuse a request as well, with its functions."""

    PSN = "CHK_PSN"
    """The packet has the expected PSN: ``validation.check_psn``."""
    OP_SEQ = "CHK_OP_SEQ"
    """The packet continues the message (9.7.4.1.2): ``validation.op_seq_error``."""
    OP_VALID = "CHK_OP_VALID"
    """The queue pair allows the operation: ``remote.check_op_valid``."""
    RESOURCE = "CHK_RESOURCE"
    """A receive WQE exists, or space for one more READ: ``receive.check_resource``."""
    LENGTH = "CHK_LENGTH"
    """The length fits MTU and message (9.7.4.1.6), ``validation.length_error``, and the receive
    WQE, ``receive.scatter_to``."""
    RKEY = "CHK_RKEY"
    """Key, range and pages of remote memory (9.7.4.1.5): ``remote.map_segment``."""
    EXECUTE = "EXECUTE"
    """The data are written or read, the atomic is done, or the key that a SEND names is
    invalidated: ``responder.execute``, ``execute_atomic``, ``complete``."""


def trace_refusal(probes: Probes, qp: Qp, check: RxCheck, why: str) -> None:
    """Record that a check has refused a request, if the function is traced."""
    if probes.tracer:
        probes.tracer.nak(qp.handle, check.value, why)


def access_violation(hca: Hca, qp: Qp, why: str, cause: Cause = Cause.ANY) -> Outcome:
    """Move the queue pair to ERR for a forbidden memory access; return its NAK.

    The NAK is REMOTE_ACCESS_ERROR. The event WQ_ACCESS_ERROR with ``cause`` is raised, and
    resp_remote_access_errors counted, except for a DC target. On UC the state is unchanged and the
    result is Dropped. Only log and trace have ``why``.
    """
    log.log(_level(qp), "%r: remote access refused: %s", qp, why)
    trace_refusal(hca.probes, qp, RxCheck.RKEY, why)
    return _refuse(hca, qp, EventType.WQ_ACCESS_ERROR, NakCode.REMOTE_ACCESS_ERROR, cause)


def invalid_request(hca: Hca, qp: Qp, check: RxCheck, why: str) -> Outcome:
    """Move the queue pair to ERR for a request that ``check`` refuses; return its NAK.

    The NAK is INVALID_REQUEST. The event WQ_INVAL_REQ_ERROR is raised, and
    resp_remote_invalid_request counted, except for a DC target. On UC the state is unchanged and
    the result is Dropped. Only log and trace have ``why``.
    """
    log.log(_level(qp), "%r: %s: invalid request: %s", qp, check.value, why)
    trace_refusal(hca.probes, qp, check, why)
    return _refuse(hca, qp, EventType.WQ_INVAL_REQ_ERROR, NakCode.INVALID_REQUEST)


def _level(qp: Qp) -> int:
    """Return DEBUG on UC: the queue pair does not stop, so a peer could flood the log."""
    return logging.DEBUG if qp.st is QpType.UC else logging.WARNING


def _refuse(hca: Hca, qp: Qp, event: EventType, code: NakCode, cause: Cause = Cause.ANY) -> Outcome:
    """Raise ``event``, move the queue pair to ERR and return a Nak with ``code``.

    On UC only return Dropped: the message is lost and the queue pair continues (9.9.3).
    """
    if qp.st is QpType.UC:
        return Dropped("UC has no NAK")
    raise_qp_event(hca.events, qp, event, cause)
    qp_life.to_error(hca, qp)
    return Nak(code)
