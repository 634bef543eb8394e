"""Keys that always exist (QUERY_SPECIAL_CONTEXTS): null, dump-fill, and the reserved lkey.

The null key and the dump-fill key read as zeros and discard writes. The reserved lkey covers all of
guest memory, for the driver's own queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access_error import MAX_BYTES, TOO_FRAGMENTED, AccessError, Violation
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE, WRITES
from emu.device.objects.memory.views import Span, Views
from emu.device.objects.object import DRIVER_UID
from emu.device.ports import DmaError

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

NULL_MKEY: Final = 2 << 8
DUMP_FILL_MKEY: Final = 3 << 8
RESERVED_LKEY: Final = 4 << 8
"""Special keys, whose indexes are never allocated to created keys."""

_NULL_BYTES: Final = 1 << 16


def views(hca: Hca, qpn: int, key: int, span: Span, depth: int) -> Views:
    """Return the views of a special key: zeros, a sink for writes, or guest memory.

    Raises AccessError: NO_KEY for any other key, a remote right, or a key in another key's list
    (the null key may be there). Raises DOMAIN for the reserved lkey unless the queue is the
    driver's and has ``rlky``. Raises TOO_FRAGMENTED above MAX_BYTES, TRANSLATION for addresses
    without memory.
    The dump-fill key is an lkey over zeros (ibv_alloc_null_mr(3)). The reserved one is an lkey over
    all physical addresses (IBTA 10.6.2.3.1). Queue pairs and Ethernet queues (as in Snabb's driver)
    have one number space.
    """
    general, (va, length, need) = hca.caps.general, span
    if key == NULL_MKEY and general.null_mkey:
        return _nothing(key, va, length, need)
    if depth or need & ~(LOCAL_READ | LOCAL_WRITE):
        raise AccessError(Violation.NO_KEY, key, va, length)
    if key == DUMP_FILL_MKEY and general.dump_fill_mkey:
        return _nothing(key, va, length, need)
    if key == RESERVED_LKEY:
        queue = hca.qps.get(qpn) or hca.sqs.get(qpn) or hca.rqs.get(qpn)
        if queue is None or not queue.rlky or queue.uid != DRIVER_UID:
            raise AccessError(Violation.DOMAIN, key, va, length)
        _check_length(key, va, length)
        try:
            return hca.memory.segments(va, length, writable=bool(need & WRITES))
        except DmaError:
            raise AccessError(Violation.TRANSLATION, key, va, length) from None
    raise AccessError(Violation.NO_KEY, key, va, length)


def _check_length(key: int, va: int, length: int) -> None:
    if length > MAX_BYTES:
        raise AccessError(TOO_FRAGMENTED, key, va, length, MAX_BYTES)


def _nothing(key: int, va: int, length: int, need: int) -> Views:
    """Return zeros to read, or a discarded buffer for writes; TOO_FRAGMENTED above MAX_BYTES."""
    _check_length(key, va, length)
    piece = memoryview(bytearray(min(length, _NULL_BYTES)))
    if not need & WRITES:
        piece = piece.toreadonly()
    whole, rest = divmod(length, _NULL_BYTES)
    return [*[piece] * whole, piece[:rest]] if whole else [piece]
