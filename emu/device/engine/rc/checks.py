"""Names of a responder's checks, in the order in which a request passes them (IBTA 9.7.4.1).

Logs and traces say by them which check has refused a request. The names are rxe's (rxe_resp.c).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.hca import Hca


class RxCheck(StrEnum):
    """A check, or a later step that can refuse a request as well."""

    PSN = "CHK_PSN"
    """The packet has the expected PSN."""
    OP_SEQ = "CHK_OP_SEQ"
    """The packet continues the message."""
    OP_VALID = "CHK_OP_VALID"
    """The queue pair allows the operation."""
    RESOURCE = "CHK_RESOURCE"
    """A receive WQE exists, or space for one more READ."""
    LENGTH = "CHK_LENGTH"
    """The length fits MTU, message and receive WQE."""
    RKEY = "CHK_RKEY"
    """Key, range and pages of remote memory."""
    EXECUTE = "EXECUTE"
    """The data are written or read, or the atomic is done."""


def trace_refusal(hca: Hca, qp: Qp, check: RxCheck, why: str) -> None:
    """Record that a check has refused a request, if the function is traced."""
    if hca.tracer:
        hca.tracer.nak(qp.handle, check.value, why)
