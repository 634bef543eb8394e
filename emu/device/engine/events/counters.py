"""Error counters of a counter set that an event increments (query_q_counter_out; hw/counters.c).

Traffic and retries are counted where they happen, under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType

if TYPE_CHECKING:
    from emu.device.objects.queues.queue import Queue

_ALL_ERRORS: Final = {CqeOpcode.REQ_ERR: "req_cqe_error", CqeOpcode.RESP_ERR: "resp_cqe_error"}

_ERRORS: Final[Mapping[tuple[CqeOpcode, CqeSyndrome], str]] = {
    (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_LENGTH_ERR): "req_local_length_error",
    (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_QP_OP_ERR): "local_operation_error",
    (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_PROT_ERR): "req_local_protection",
    (CqeOpcode.REQ_ERR, CqeSyndrome.WR_FLUSH_ERR): "req_cqe_flush_error",
    (CqeOpcode.REQ_ERR, CqeSyndrome.MW_BIND_ERR): "req_mw_binding",
    (CqeOpcode.REQ_ERR, CqeSyndrome.BAD_RESP_ERR): "req_bad_response",
    (CqeOpcode.REQ_ERR, CqeSyndrome.REMOTE_INVAL_REQ_ERR): "req_remote_invalid_request",
    (CqeOpcode.REQ_ERR, CqeSyndrome.REMOTE_ACCESS_ERR): "req_remote_access_errors",
    (CqeOpcode.REQ_ERR, CqeSyndrome.REMOTE_OP_ERR): "req_remote_operation_errors",
    (CqeOpcode.REQ_ERR, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR): "req_transport_retries_exceeded",
    (CqeOpcode.REQ_ERR, CqeSyndrome.RNR_RETRY_EXC_ERR): "req_rnr_retries_exceeded",
    (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_LENGTH_ERR): "resp_local_length_error",
    (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_QP_OP_ERR): "resp_local_qp_error",
    (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_PROT_ERR): "resp_local_protection",
    (CqeOpcode.RESP_ERR, CqeSyndrome.WR_FLUSH_ERR): "resp_cqe_flush_error",
}

_REFUSALS: Final = {
    EventType.WQ_ACCESS_ERROR: "resp_remote_access_errors",
    EventType.WQ_INVAL_REQ_ERROR: "resp_remote_invalid_request",
}


def count_error(queue: Queue, opcode: CqeOpcode, syndrome: CqeSyndrome) -> None:
    """Count an error completion at its queue: in the total, and in the syndrome's own counter.

    The total is req_cqe_error or resp_cqe_error, flushes included. Some syndromes have no own
    counter.
    """
    queue.count(_ALL_ERRORS[opcode])
    if name := _ERRORS.get((opcode, syndrome)):
        queue.count(name)


def count_event(queue: Queue, event: EventType) -> None:
    """Count WQ_ACCESS_ERROR or WQ_INVAL_REQ_ERROR, which a responder raises with its NAK.

    The counters are resp_remote_access_errors and resp_remote_invalid_request. Other events count
    nothing.
    """
    if name := _REFUSALS.get(event):
        queue.count(name)
