"""How a step of the data path ends when it does not go on.

A step returns what it is about, or None, when the next one may follow; otherwise it returns one of
the cases here, or ``page_fault.PageFaultPending``. Whoever is responsible for the request has one
table from case to what is done (``emu.device.engine.qp_poll``,
``emu.device.engine.rc.packets.responder``); all others pass the case on.

Source: IBTA 9.7.5.2.8 (AETH syndromes), 9.9.3 (no responses on unreliable connections).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from layouts.enums import CqeSyndrome


class NakCode(IntEnum):
    """Why a responder sends a NAK (IBTA 9.7.5.2.8, AETH NAK codes)."""

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
"""The error that a request completes with, by NAK code (IBTA table 61)."""


class Outcome:
    """One of the cases; they are told apart by their class."""

    __slots__ = ()


class Nak(Outcome):
    """The responder rejects the request and sends a NAK to the requester."""

    __slots__ = ("code", "why")

    def __init__(self, code: NakCode, why: str = "") -> None:
        self.code = code
        self.why = why or code.name


class RnrNak(Outcome):
    """The responder has no receive request now; ``timer`` is its min_rnr_nak code."""

    __slots__ = ("timer",)

    def __init__(self, timer: int) -> None:
        self.timer = timer


class Dropped(Outcome):
    """No response: no such node or queue pair, or its state does not allow it to receive."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class TooFragmented(Outcome):
    """It is too much for one call: ``limit`` bytes at a time are not. Nothing has happened."""

    __slots__ = ("limit", "why")

    def __init__(self, limit: int, why: str = "") -> None:
        self.limit = limit
        self.why = why


class InProgress(Outcome):
    """Only part of a message has been moved; it goes on in the next turn."""

    __slots__ = ()


class LocalAccessFailed(Outcome):
    """The answer to a READ or an atomic cannot be written where its request says: ``error``.

    The peer has done its part by then.
    """

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class NeedsPackets(Outcome):
    """The message cannot be handed to its peer: it has to go as packets, and all after it."""

    __slots__ = ()


IN_PROGRESS: Final = InProgress()
NEEDS_PACKETS: Final = NeedsPackets()
