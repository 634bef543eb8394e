"""How a responder rejects a request, and the error that the requester then reports.

Source: IBTA 9.7.5.2.8 (AETH syndromes), 9.9.3 (no responses on unreliable connections).
"""

from __future__ import annotations

from enum import IntEnum

from layouts.enums import CqeSyndrome


class NakCode(IntEnum):
    """Why a responder sends a NAK (IBTA 9.7.5.2.8, AETH NAK codes)."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3
    INVALID_RD_REQUEST = 4


class Nak(Exception):  # noqa: N818  # the field's word for it
    """The responder rejects the request and sends a NAK to the requester."""

    def __init__(self, code: NakCode, why: str = "") -> None:
        super().__init__(why or code.name)
        self.code = code


class RnrNak(Exception):  # noqa: N818  # the field's word for it
    """The responder has no receive request now; ``timer`` is its min_rnr_nak code."""

    def __init__(self, timer: int) -> None:
        super().__init__(f"receiver not ready, timer {timer}")
        self.timer = timer


class Dropped(Exception):  # noqa: N818  # the field's word for it
    """No response: no such node or queue pair, or its state does not allow it to receive."""


SYNDROMES = {
    NakCode.INVALID_REQUEST: CqeSyndrome.REMOTE_INVAL_REQ_ERR,
    NakCode.REMOTE_ACCESS_ERROR: CqeSyndrome.REMOTE_ACCESS_ERR,
    NakCode.REMOTE_OPERATIONAL_ERROR: CqeSyndrome.REMOTE_OP_ERR,
    NakCode.PSN_SEQUENCE_ERROR: CqeSyndrome.TRANSPORT_RETRY_EXC_ERR,
}
"""The error that a request completes with, by NAK code (IBTA table 61)."""
