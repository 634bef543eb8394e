"""The table of a responder's checks, in the order in which a request passes them (IBTA 9.7.4.1).

Log and trace name by it the check that has refused a request, for messages in this process and for
packets. The names are rxe's (rxe_resp.c).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.probes import Probes


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
