"""Access by memory key: from (key, address, length, rights) to views of guest memory.

Every access is checked in the order of IBTA 10.6.3 and 9.7.4.1.5: the key with its variant byte,
its state, its domain, its rights, its bounds; then the address is translated. An mkey translates
directly (PA, MEMIC), by pages (MTT), or by other keys (KLM, KSM), which may nest
``max_indirection`` deep. Nothing has been read or written when an access fails. One that is too
much for one call, because it is long or falls into many pieces, is IN_PIECES: the caller has to
split it.

A page that is absent, or may not be written, is an ABSENT_PAGE: the driver may bring it in
(``emu.device.objects.queues.page_fault``). The null key among the entries of a KSM key means the
same; used directly it reads as zeros and discards writes (``emu.device.engine.mr.special_keys``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.mr import special_keys
from emu.device.engine.mr.entries import in_page, klm_pieces, ksm_pieces, page_runs
from emu.device.engine.mr.rights import (
    ABSENT_PAGE,
    IN_PIECES,
    LOCAL_READ,
    LOCAL_WRITE,
    MOST_BYTES,
    PIECE_BYTES,
    WRITES,
    AccessError,
    Violation,
)
from emu.device.engine.mr.special_keys import NULL_MKEY
from emu.device.objects.domains import Pd
from emu.device.objects.memory.mkey import ANY_QPN, Mkey
from emu.device.objects.memory.views import Span, Views, length_of
from emu.device.objects.object import DRIVER_UID
from emu.device.ports import DmaError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.enums import AccessMode

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_NO_LIMIT = 1 << 64
_KEPT_RANGES = 64
"""How many ranges of one key have a cached translation."""

MOST_KEPT_VIEWS = 1 << 18
"""Views in the cached translations of all keys, including those dropped since."""

_PA, _MTT, _KSM = AccessMode.PA, AccessMode.MTT, AccessMode.KSM
_MEMIC = AccessMode.MEMIC


def access(
    hca: Hca,
    pd: Pd | None,
    qpn: int,
    key: int,
    span: Span,
    depth: int = 0,
    most: int | None = None,
) -> Views:
    """The guest's bytes behind a span of ``key``, as views in order.

    Zero bytes are granted without a check (IBTA C10-60). Raises :class:`AccessError`; a caller
    that can split or wait looks for IN_PIECES and ABSENT_PAGE. ``depth`` keys have led here.
    ``most`` is the value of ``hca.round.steps`` above which it is IN_PIECES; without it the access
    may take STEPS_PER_ACCESS, and any number of steps up to PIECE_BYTES.
    """
    if not span[1]:
        return ()
    mkey = hca.mkeys.get(key >> 8)
    if mkey is None or mkey.variant != key & 0xFF:
        return special_keys.views(hca, qpn, key, span, depth)
    va, length, need = span
    if (
        mkey.pd is not pd
        or mkey.qpn != ANY_QPN
        or mkey.free
        or need & ~mkey.rights
        or va < mkey.start
        or va + length > mkey.end
    ):  # not what is usual
        _check(hca, mkey, pd, qpn, key, span)
    cached = mkey.views.get(span)
    if cached is not None and cached[0] == hca.memory.generation:
        return cached[1]
    try:
        if mkey.signature is not None:
            return mkey.signature.views(hca, mkey, qpn, span, depth, most)
        return _translate(hca, mkey, span, depth, most)
    except (DmaError, IndexError):
        raise AccessError(Violation.TRANSLATION, key, *span[:2]) from None


def check(hca: Hca, pd: Pd | None, qpn: int, key: int, span: Span) -> None:
    """As ``access``, but check only the key itself, without translating."""
    mkey = hca.mkeys.get(key >> 8)
    if not span[1]:
        return
    if mkey is None or mkey.variant != key & 0xFF:
        try:
            special_keys.views(hca, qpn, key, span, 0)
        except AccessError as error:
            if error.violation is not IN_PIECES:
                raise
    else:
        _check(hca, mkey, pd, qpn, key, span)


def _check(hca: Hca, mkey: Mkey, pd: Pd | None, qpn: int, key: int, span: Span) -> None:
    va, length, need = span
    if mkey.free:
        raise AccessError(Violation.FREE, key, va, length)
    is_own = mkey.pd is pd and (mkey.qpn == ANY_QPN or is_for(hca, mkey, qpn))
    if not is_own and not is_type_2a(hca, mkey, qpn):
        raise AccessError(Violation.DOMAIN, key, va, length)
    if need & ~mkey.rights:
        raise AccessError(Violation.RIGHTS, key, va, length)
    if va < mkey.start or va + length > mkey.end:
        raise AccessError(Violation.BOUNDS, key, va, length)


def is_type_2a(hca: Hca, mkey: Mkey, qpn: int) -> bool:
    """Whether the key is a type 2A window of this queue pair, so that its domain does not matter.

    Of the two flavours of type 2, ConnectX has 2B; a function can be configured for 2A instead.
    """
    return hca.options.windows_2a and mkey.qpn != ANY_QPN and is_for(hca, mkey, qpn)


def is_for(hca: Hca, mkey: Mkey, qpn: int) -> bool:
    """Whether a queue pair may use the key: any may, or only the one that it was bound to.

    The number alone is not enough: after the queue pair is destroyed another one may get its
    number, and a type 2 window must not become valid again (IBTA 10.6.7).
    """
    if mkey.qpn == ANY_QPN:
        return True
    qp = hca.qps.get(qpn)
    return mkey.qpn == qpn and qp is not None and qp.serial == mkey.qp_serial


def bind_to_owner(hca: Hca, mkey: Mkey) -> None:
    """Bind the key to the queue pair that now has the number in the key's context."""
    owner = hca.qps.get(mkey.qpn)
    mkey.qp_serial = owner.serial if owner is not None else 0


def _translate(hca: Hca, mkey: Mkey, span: Span, depth: int, most: int | None) -> Views:
    va, length, need = span
    if length > MOST_BYTES:
        raise AccessError(IN_PIECES, mkey.key, va, length, MOST_BYTES)
    writable = bool(need & WRITES)
    if mkey.mode is _PA:
        return hca.memory.segments(va, length, writable=writable)
    if mkey.mode is _MEMIC:
        assert hca.memic is not None  # or there would be no such key
        return (hca.memic.view(int(mkey.ctx.start_addr) + va, length),)
    if mkey.mode is not _MTT:
        return indirect(hca, mkey, span, depth, most)
    size = 1 << mkey.log_page_size
    views: list[memoryview] = []
    if (va & size - 1) + length <= size:
        views = hca.memory.segments(in_page(mkey, va, length, need), length, writable=writable)
    else:
        for iova, size in page_runs(mkey, va, length, need):
            views += hca.memory.segments(iova, size, writable=writable)
    if hca.faults is None:  # DMA faults must see every access
        _keep(hca, mkey, span, views)
    return views


def _keep(hca: Hca, mkey: Mkey, span: Span, views: Views) -> None:
    """Cache a translation with its key; when all keys have too many, drop all of them."""
    if len(mkey.views) >= _KEPT_RANGES:
        mkey.views.clear()
    hca.kept_views += len(views)
    if hca.kept_views > MOST_KEPT_VIEWS:
        hca.forget_views()
        hca.kept_views = len(views)
    if len(views) <= MOST_KEPT_VIEWS:
        mkey.views[span] = hca.memory.generation, views
        hca.keys_with_views.add(mkey.handle)


def indirect(hca: Hca, mkey: Mkey, span: Span, depth: int, most: int | None = None) -> Views:
    """Follow the key's entries to the keys below; each is checked as a separate access."""
    va, length, need = span
    if depth >= hca.caps.general.max_indirection:
        raise AccessError(Violation.DEPTH, mkey.key, va, length)
    below = LOCAL_WRITE if need & WRITES else LOCAL_READ
    is_ksm = mkey.mode is _KSM
    is_implicit = is_ksm and mkey.uid == DRIVER_UID
    pieces = ksm_pieces if is_ksm else klm_pieces
    views: list[memoryview] = []
    if most is None:
        limit = STEPS_PER_ACCESS + hca.round.steps if length > PIECE_BYTES else _NO_LIMIT
    else:
        limit = most
    for key, at, size in pieces(mkey, va, length):
        if key == NULL_MKEY and is_implicit:
            raise AccessError(ABSENT_PAGE, mkey.key, *_rest(va, length, views))
        try:
            found = access(hca, mkey.pd, ANY_QPN, key, (at, size, below), depth + 1, most)
        except AccessError as page:
            if page.violation is not ABSENT_PAGE or not is_implicit:
                raise
            start, left = _rest(va, length, views)
            within = page.va - at if page.key == key else 0
            raise AccessError(ABSENT_PAGE, mkey.key, start + within, left - within) from None
        if size == length:
            hca.round.charge(1)
            return found
        views += found
        if len(views) + hca.round.steps > limit:
            hca.round.charge(len(views))
            raise AccessError(IN_PIECES, mkey.key, va, length, PIECE_BYTES)
    hca.round.charge(len(views))
    return views


def _rest(va: int, length: int, views: Views) -> tuple[int, int]:
    """Start and length of the part that the views do not cover yet."""
    done = length_of(views)
    return va + done, length - done
