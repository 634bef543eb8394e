"""Additional error codes: vendor_err_synd, hw_err_synd and hw_synd_type.

Error completions and QUERY_QP's extension (mlx5_ifc.h: cqe_error_syndrome) have them. mlx5_ib logs
"QP 137 error: unrecognized status (0x22 0x0 0x95)" from it: vendor syndrome, type and hardware
syndrome.

The vendor publishes none of the values. Values marked as seen are in public logs of ConnectX-4 to
-7 with a known cause: dmesg of mlx5_core and mlx5_ib, dumps of completions, UCX's "synd 0x4 vend
0x52 hw_synd 0/146". The others are guesses from their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.objects.qp import cqe_error_syndrome


class Cause(Enum):
    """Cause that distinguishes errors with the same syndrome."""

    ANY = auto()
    KEY = auto()
    """No key has this index and variant."""
    DOMAIN = auto()
    """The key belongs to another protection domain."""
    RIGHTS = auto()
    """The key does not grant the right."""
    BOUNDS = auto()
    """The range is not within the key's."""
    MEMORY = auto()
    """The memory behind a good key cannot be used."""
    SCATTER_KEY = auto()
    """The response to a READ or an atomic cannot be stored: no such key. The next four are alike.
    """
    SCATTER_DOMAIN = auto()
    SCATTER_RIGHTS = auto()
    SCATTER_BOUNDS = auto()
    SCATTER_MEMORY = auto()
    COMMAND = auto()
    """Flushed: a command moved the queue to ERR."""
    FAILURE = auto()
    """Flushed: the queue had failed before."""
    RING = auto()
    """Work requests cannot be read."""
    CQ = auto()
    """The completion queue takes no completions."""


SCATTER: Final[Mapping[Cause, Cause]] = {
    Cause.KEY: Cause.SCATTER_KEY,
    Cause.DOMAIN: Cause.SCATTER_DOMAIN,
    Cause.RIGHTS: Cause.SCATTER_RIGHTS,
    Cause.BOUNDS: Cause.SCATTER_BOUNDS,
    Cause.MEMORY: Cause.SCATTER_MEMORY,
}
"""Cause of the same error for a response that the requester cannot store."""


class ErrorSyndrome(NamedTuple):
    """Values for one error and cause."""

    vendor: int
    hw: int
    meaning: str
    is_seen: bool = True
    """A public log has this vendor syndrome."""
    is_hw_seen: bool = True
    """A public log has this hardware syndrome with it."""
    hw_type: int = 0


def _guess(vendor: int, hw: int, meaning: str) -> ErrorSyndrome:
    return ErrorSyndrome(vendor, hw, meaning, is_seen=False, is_hw_seen=False)


def _hw_guess(vendor: int, hw: int, meaning: str) -> ErrorSyndrome:
    return ErrorSyndrome(vendor, hw, meaning, is_hw_seen=False)


_REQ: Final = CqeOpcode.REQ_ERR
_RESP: Final = CqeOpcode.RESP_ERR
_ACCESS: Final = EventType.WQ_ACCESS_ERROR
_CATAS: Final = EventType.WQ_CATAS_ERROR
_ANY: Final = Cause.ANY
_PROT: Final = CqeSyndrome.LOCAL_PROT_ERR
_FLUSH: Final = CqeSyndrome.WR_FLUSH_ERR
_BIND: Final = CqeSyndrome.MW_BIND_ERR

EVENT_SYNDROME: Final = CqeSyndrome.REMOTE_ABORTED_ERR
"""Extension syndrome of a queue pair whose error is reported by an event.

The value is a guess. Logs of real cards have "unrecognized status" here, so it is no ib_wc_status,
which ends at 21. Only this completion syndrome and that of RNR retries are above 21.
"""

_PLACES: Final[Mapping[Cause, ErrorSyndrome]] = {
    Cause.KEY: ErrorSyndrome(0x32, 146, "received data cannot be written: no such key"),
    Cause.DOMAIN: ErrorSyndrome(
        0x32, 147, "received data cannot be written: the key is of another protection domain"
    ),
    Cause.RIGHTS: _hw_guess(
        0x32, 149, "received data cannot be written: the key does not allow it"
    ),
    Cause.BOUNDS: ErrorSyndrome(
        0x33, 157, "received data cannot be written: the range is not within the key's"
    ),
    Cause.MEMORY: ErrorSyndrome(
        0x56, 169, "received data cannot be written: the memory behind the key cannot be used"
    ),
}
"""Errors of memory that stores received data: of a receive request, a READ or an atomic."""

Origin = CqeOpcode | EventType

ERROR_SYNDROMES: Final[Mapping[tuple[Origin, CqeSyndrome, Cause], ErrorSyndrome]] = {
    (_REQ, CqeSyndrome.LOCAL_LENGTH_ERR, _ANY): ErrorSyndrome(
        0x68, 96, "the request is too long, or lacks its headers", hw_type=1
    ),
    (_REQ, CqeSyndrome.LOCAL_QP_OP_ERR, _ANY): ErrorSyndrome(
        0x68, 31, "the queue does not support this request"
    ),
    (_REQ, _PROT, _ANY): _hw_guess(0x51, 2, "data to send cannot be read"),
    (_REQ, _PROT, Cause.MEMORY): ErrorSyndrome(
        0x51, 2, "data to send: the memory behind the key cannot be read"
    ),
    (_REQ, _PROT, Cause.KEY): ErrorSyndrome(0x52, 146, "data to send: no such key"),
    (_REQ, _PROT, Cause.DOMAIN): _hw_guess(
        0x52, 147, "data to send: the key is of another protection domain"
    ),
    (_REQ, _PROT, Cause.RIGHTS): _hw_guess(0x52, 149, "data to send: the key does not allow it"),
    (_REQ, _PROT, Cause.BOUNDS): ErrorSyndrome(
        0x53, 157, "data to send: the range is not within the key's"
    ),
    **{(_REQ, _PROT, SCATTER[cause]): found for cause, found in _PLACES.items()},
    (_REQ, _FLUSH, Cause.COMMAND): _hw_guess(0xF5, 0, "flushed: a command moved the queue to ERR"),
    (_REQ, _FLUSH, Cause.FAILURE): _hw_guess(0xF9, 0, "flushed: the queue had failed before"),
    (_REQ, _BIND, _ANY): _hw_guess(0x78, 8, "the request cannot change the key"),
    (_REQ, _BIND, Cause.KEY): ErrorSyndrome(0x78, 8, "the key to change does not exist or is free"),
    (_REQ, _BIND, Cause.BOUNDS): ErrorSyndrome(
        0x78, 15, "more translations than the key's capacity"
    ),
    (_REQ, CqeSyndrome.BAD_RESP_ERR, _ANY): _guess(0x83, 0, "the peer's response is wrong"),
    (_REQ, CqeSyndrome.LOCAL_ACCESS_ERR, _ANY): _guess(0x33, 149, "no access to local memory"),
    (_REQ, CqeSyndrome.REMOTE_INVAL_REQ_ERR, _ANY): _hw_guess(
        0x8A, 0, "the peer reports: invalid request"
    ),
    (_REQ, CqeSyndrome.REMOTE_ACCESS_ERR, _ANY): ErrorSyndrome(
        0x88, 0, "the peer reports: no access to this memory"
    ),
    (_REQ, CqeSyndrome.REMOTE_OP_ERR, _ANY): ErrorSyndrome(
        0x89, 0, "the peer reports: cannot complete the request"
    ),
    (_REQ, CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, _ANY): ErrorSyndrome(
        0x81, 0, "no response, and no retry left"
    ),
    (_REQ, CqeSyndrome.RNR_RETRY_EXC_ERR, _ANY): ErrorSyndrome(
        0x87, 0, "the peer has no receive request, and no retry left"
    ),
    (_REQ, CqeSyndrome.REMOTE_ABORTED_ERR, _ANY): _guess(0x93, 0, "the peer has aborted"),
    (_RESP, CqeSyndrome.LOCAL_LENGTH_ERR, _ANY): _guess(
        0xD5, 0, "the message is longer than its receive request"
    ),
    (_RESP, CqeSyndrome.LOCAL_QP_OP_ERR, _ANY): _hw_guess(
        0xD6, 0, "the queue does not support this request"
    ),
    (_RESP, _PROT, _ANY): _hw_guess(0x32, 146, "received data cannot be written"),
    **{(_RESP, _PROT, cause): found for cause, found in _PLACES.items()},
    (_RESP, _FLUSH, Cause.COMMAND): _guess(0xF5, 0, "flushed: a command moved the queue to ERR"),
    (_RESP, _FLUSH, Cause.FAILURE): _hw_guess(0xF9, 0, "flushed: the queue had failed before"),
    (_RESP, CqeSyndrome.LOCAL_ACCESS_ERR, _ANY): _guess(
        0x32, 149, "the key that the message names cannot be used"
    ),
    (_RESP, CqeSyndrome.REMOTE_ABORTED_ERR, _ANY): _hw_guess(0x93, 0, "the peer has aborted"),
    (_ACCESS, EVENT_SYNDROME, _ANY): ErrorSyndrome(
        0x22, 149, "a request names remote memory that its key does not grant"
    ),
    (_ACCESS, EVENT_SYNDROME, Cause.BOUNDS): _guess(
        0x23, 157, "a request names remote memory outside its key's range"
    ),
    (_ACCESS, EVENT_SYNDROME, Cause.MEMORY): _guess(
        0x56, 169, "a request names remote memory: the memory behind the key cannot be used"
    ),
    (_CATAS, EVENT_SYNDROME, _ANY): _guess(0x51, 2, "work requests cannot be read"),
    (_CATAS, EVENT_SYNDROME, Cause.RING): _guess(0x51, 2, "work requests cannot be read"),
    (_CATAS, EVENT_SYNDROME, Cause.CQ): ErrorSyndrome(
        0x41, 0, "its completion queue is full and takes no completions"
    ),
}
"""Values by origin of the report (requester, responder, event), syndrome and cause."""

NOTHING: Final = ErrorSyndrome(0, 0, "")
"""Values for errors that only a fault plan reports."""


def error_syndrome(
    origin: Origin, syndrome: CqeSyndrome, cause: Cause = Cause.ANY
) -> ErrorSyndrome:
    """Return an error's vendor, type and hardware syndrome; fall back to those of any cause.

    Return zeros (NOTHING) for an error that the table lacks.
    """
    found = ERROR_SYNDROMES.get((origin, syndrome, cause))
    return found or ERROR_SYNDROMES.get((origin, syndrome, _ANY), NOTHING)


def error_word(origin: Origin, syndrome: CqeSyndrome, cause: Cause = Cause.ANY) -> bytes:
    """Return the bytes of cqe_error_syndrome for QUERY_QP's extension.

    Only ``syndrome`` is set for an error without known vendor syndrome.
    """
    found = error_syndrome(origin, syndrome, cause)
    word = cqe_error_syndrome.new(
        hw_error_syndrome=found.hw, hw_syndrome_type=found.hw_type,
        vendor_error_syndrome=found.vendor, syndrome=syndrome,
    )  # fmt: skip
    return bytes(word.buf)
