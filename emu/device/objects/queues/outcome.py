"""Outcomes of a data path step that does not continue.

A step returns its result or None if the next step may follow. Otherwise a step returns one of the
outcomes here, or ``page_fault.PageFault``. The owner of the request has one table from
outcome to action (``emu.device.engine.qp_poll``, ``emu.device.engine.rc.packets.responder``). All
other code forwards the outcome.

Source: IBTA 9.7.5.2.8 (AETH syndromes), 9.9.3 (no responses on unreliable connections).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from layouts.enums.cqe import CqeSyndrome


class NakCode(IntEnum):
    """The reason of a NAK (IBTA 9.7.5.2.8, AETH NAK codes)."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3
    INVALID_RD_REQUEST = 4


SYNDROMES: Final[Mapping[NakCode, CqeSyndrome]] = {
    NakCode.INVALID_REQUEST: CqeSyndrome.REMOTE_INVAL_REQ_ERR,
    NakCode.REMOTE_ACCESS_ERROR: CqeSyndrome.REMOTE_ACCESS_ERR,
    NakCode.REMOTE_OPERATIONAL_ERROR: CqeSyndrome.REMOTE_OP_ERR,
    NakCode.PSN_SEQUENCE_ERROR: CqeSyndrome.TRANSPORT_RETRY_EXC_ERR,
}
"""Completion syndrome of the request by NAK code (IBTA table 61)."""


class Outcome:
    """Base class of the outcomes, which are distinguished by class."""

    __slots__ = ()


class Nak(Outcome):
    """The responder rejects the request and sends a NAK to the requester."""

    __slots__ = ("code", "why")

    def __init__(self, code: NakCode, why: str = "") -> None:
        self.code = code
        self.why = why or code.name


class RnrNak(Outcome):
    """The responder has no receive WQE now; ``timer`` is its min_rnr_nak code."""

    __slots__ = ("timer",)

    def __init__(self, timer: int) -> None:
        self.timer = timer


class Dropped(Outcome):
    """No response: the node or queue pair does not exist, or its state forbids receiving."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class TooFragmented(Outcome):
    """The access exceeds one call; retry with ``limit`` bytes. The call had no effect."""

    __slots__ = ("limit", "why")

    def __init__(self, limit: int, why: str = "") -> None:
        self.limit = limit
        self.why = why


class InProgress(Outcome):
    """The message has been moved partly; the next poll continues."""

    __slots__ = ()


class LocalAccessFailed(Outcome):
    """The response to a READ or atomic cannot be written to the requester's buffer: ``error``.

    The peer has already executed the request.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class NeedsPackets(Outcome):
    """The direct path is not possible: this message and all later ones need packets."""

    __slots__ = ()


IN_PROGRESS: Final = InProgress()
NEEDS_PACKETS: Final = NeedsPackets()
