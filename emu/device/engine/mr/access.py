"""Access by memory key: from (key, address, length, rights) to views of guest memory.

Every access is checked in the order of IBTA 10.6.3 and 9.7.4.1.5: the key with its variant byte,
its state, domain, rights and bounds. Then the address is translated. An mkey translates directly
(PA, MEMIC, SW_ICM), by pages (MTT), or by other keys (KLM, KSM), which may nest ``max_indirection``
deep. A failed access has read and written nothing. An access that is too long or too scattered for
one call is TOO_FRAGMENTED: the caller has to split it.

A page that is absent or read-only is an ABSENT_PAGE: the driver may map it
(``emu.device.objects.queues.page_fault``). The null key among the entries of a KSM key means the
same; used directly, it reads as zeros and discards writes (``emu.device.engine.mr.special_keys``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from emu.device.engine.mr import special_keys
from emu.device.engine.mr.access_error import (
    ABSENT_PAGE,
    MAX_BYTES,
    SEGMENT_BYTES,
    TOO_FRAGMENTED,
    AccessError,
    Violation,
)
from emu.device.engine.mr.cache import keep, page_part, parts_of_pages
from emu.device.engine.mr.checks import check_key
from emu.device.engine.mr.entries import klm_ranges, ksm_ranges, page_runs
from emu.device.engine.mr.special_keys import NULL_MKEY
from emu.device.errors import CmdError
from emu.device.objects.domains import Pd
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE, WRITES
from emu.device.objects.memory.sw_icm import SwIcm
from emu.device.objects.memory.views import Span, Views, length_of
from emu.device.objects.object import DRIVER_UID
from emu.device.objects.queues.receive_queue import Segment
from emu.device.ports import DmaError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.enums.mkey import AccessMode

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_NO_LIMIT: Final = 1 << 64
_ALL: Final = 1 << 62
"""Length above that of any list of segments."""
SEGMENT_2GIB: Final = 1 << 31
"""Length for byte_count 0 (PRM "Data segment")."""
LENGTH: Final = SEGMENT_2GIB - 1
"""Length bits of byte_count."""
INLINE_KEY: Final = -1
"""Key of a segment whose data are inline in the WQE, ``addr`` bytes from its start."""

_PA: Final = AccessMode.PA
_MTT: Final = AccessMode.MTT
_KSM: Final = AccessMode.KSM
_MEMIC: Final = AccessMode.MEMIC
_SW_ICM: Final = AccessMode.SW_ICM


def access(
    hca: Hca,
    pd: Pd | None,
    qpn: int,
    key: int,
    span: Span,
    depth: int = 0,
    limit: int | None = None,
) -> Views:
    """Return the guest's bytes behind a span of ``key``, as views in order; empty for zero bytes.

    Zero bytes are granted without a check (IBTA C10-60). Raises :class:`AccessError`; a caller that
    can split or wait handles TOO_FRAGMENTED and ABSENT_PAGE. ``depth`` is the number of keys above
    this one.
    ``limit`` is the value of ``hca.budget.steps`` above which the access is TOO_FRAGMENTED. Without
    ``limit`` an access may cost STEPS_PER_ACCESS, and one up to SEGMENT_BYTES any number of steps.
    """
    mkey = hca.mkeys.by_handle.get(key >> 8)
    if mkey is None or mkey.variant != key & 0xFF:
        return special_keys.views(hca, qpn, key, span, depth) if span[1] else ()
    cached = mkey.views.get(span)
    if cached is not None:
        if mkey.open_to is not pd:  # rights and bounds are valid: changing them clears the cache
            check_key(hca.qps, hca.options, mkey, pd, qpn, key, span)
        return cached
    va, length, need = span
    if not length:
        return ()
    if mkey.open_to is not pd or need & ~mkey.rights or va < mkey.start or va + length > mkey.end:
        check_key(hca.qps, hca.options, mkey, pd, qpn, key, span)
    try:
        if mkey.signature is not None:
            return mkey.signature.views(hca, mkey, qpn, span, depth, limit)
        return _translate(hca, mkey, key, span, depth, limit)
    except (DmaError, IndexError):
        raise AccessError(Violation.TRANSLATION, key, *span[:2]) from None


def all_views(
    hca: Hca,
    pd: Pd | None,
    qpn: int,
    segments: Sequence[Segment],
    need: int,
    limit: int,
    buf: bytes,
) -> tuple[Views, int]:
    """Return the guest's bytes behind a list of data segments, and their length on the wire.

    ``limit`` is that of ``access``, ``buf`` the WQE with the bytes of an inline segment. Raises
    :class:`AccessError`, TOO_FRAGMENTED for more than MAX_BYTES or above ``limit``.
    """
    if len(segments) == 1 and segments[0][1] == INLINE_KEY:
        size, _, start = segments[0]
        return (memoryview(buf)[start : start + size],), size
    views, left = segment_views(hca, pd, qpn, segments, (0, _ALL, need), limit, buf)
    return views, _ALL - left


def segment_views(
    hca: Hca,
    pd: Pd | None,
    qpn: int,
    segments: Sequence[Segment],
    span: Span,
    step_limit: int | None = None,
    buf: bytes = b"",
) -> tuple[Views, int]:
    """Return the guest's bytes behind a range of a list of data segments, as views in order.

    ``span`` is the range's offset, its length and the needed rights. Also returns the number of
    bytes that the list is too short. ``buf`` is the WQE with the bytes of an inline segment.

    Raises :class:`AccessError`, TOO_FRAGMENTED for more than MAX_BYTES. ``step_limit`` is the
    ``limit`` of ``access``.
    """
    offset, left, need = span
    if len(segments) == 1 and not hca.has_signatures:  # most requests
        byte_count, lkey, address = segments[0]
        size = (byte_count & LENGTH or SEGMENT_2GIB) - offset
        if size > left:
            size = left
        if lkey != INLINE_KEY and size > 0:  # an access of more than MAX_BYTES is TOO_FRAGMENTED
            views: Views = access(hca, pd, qpn, lkey, (address + offset, size, need), 0, step_limit)
            return views, left - size
    limit = step_limit or _NO_LIMIT
    if step_limit is None and left > SEGMENT_BYTES:
        limit = hca.budget.steps + STEPS_PER_ACCESS
    too_much = left - MAX_BYTES
    gathered: Views = ()
    joined: list[memoryview] | None = None
    for byte_count, lkey, address in segments:
        size = byte_count & LENGTH or SEGMENT_2GIB
        if hca.has_signatures:
            address, size = on_wire(hca.mkeys, lkey, address, size)
        if offset:
            if offset >= size:
                offset -= size
                continue
            address, size, offset = address + offset, size - offset, 0
        if size > left:
            size = left
        if lkey == INLINE_KEY:
            views = (memoryview(buf)[address : address + size],)
        else:
            views = access(hca, pd, qpn, lkey, (address, size, need), 0, step_limit)
        left -= size
        if left < too_much or hca.budget.steps > limit:
            at_most = MAX_BYTES if left < too_much else SEGMENT_BYTES
            raise AccessError(TOO_FRAGMENTED, lkey, address, size, at_most)
        if not gathered:
            gathered = views
        elif joined is None:
            gathered = joined = [*gathered, *views]
        else:
            joined += views
        if not left:
            break
    return gathered, left


def on_wire(mkeys: Table[Mkey], key: int, address: int, length: int) -> tuple[int, int]:
    """Return address and length of a segment in the wire's stream of its key.

    Both are unchanged unless the key has signatures on the wire that segments do not count. Drivers
    count only signatures that both domains have (drivers/infiniband/core/rw.c:
    rdma_rw_ctx_signature_init). The key is not checked.
    """
    mkey = mkeys.get(key >> 8)
    if mkey is None or mkey.signature is None or not mkey.signature.is_on_wire:
        return address, length
    at = address - mkey.start
    if at < 0:
        return address, length
    start = mkey.signature.wire_length(at)
    return mkey.start + start, mkey.signature.wire_length(at + length) - start


def listed_length(tables: ObjectTables, segments: Sequence[Segment]) -> int:
    """Return the bytes on the wire of a list of data segments; a byte_count of 0 means 2 GiB.

    Signatures on the wire are included. No key is checked.
    """
    total = 0
    for byte_count, lkey, address in segments:
        length = byte_count & LENGTH or SEGMENT_2GIB
        total += (
            on_wire(tables.mkeys, lkey, address, length)[1] if tables.has_signatures else length
        )
    return total


def _translate(hca: Hca, mkey: Mkey, key: int, span: Span, depth: int, limit: int | None) -> Views:
    """Return the views of a checked key's range, by its access mode; cache those of an MTT key.

    Raises TOO_FRAGMENTED above MAX_BYTES, ABSENT_PAGE at an entry without the right, and DmaError
    or IndexError where the memory or the list of pages ends.
    """
    va, length, need = span
    if length > MAX_BYTES:
        raise AccessError(TOO_FRAGMENTED, key, va, length, MAX_BYTES)
    writable = bool(need & WRITES)
    if mkey.mode is _MTT and va >> mkey.log_page_size == va + length - 1 >> mkey.log_page_size:
        return page_part(hca.view_cache, mkey, key, span)
    if mkey.mode is _PA:
        return hca.memory.segments(va, length, writable=writable)
    if mkey.mode is _MEMIC:
        assert hca.memic is not None  # or there would be no such key
        return (hca.memic.view(mkey.start_addr + va, length),)
    if mkey.mode is _SW_ICM:
        return _icm(hca, mkey, span)
    if mkey.mode is not _MTT:
        return indirect(hca, mkey, span, depth, limit)
    views = parts_of_pages(hca.view_cache, mkey, span)
    if not views:
        for iova, size in page_runs(mkey, va, length, need):
            views += hca.memory.segments(iova, size, writable=writable)
    if hca.probes.faults is None:
        keep(hca.view_cache, mkey, span, views)
    return views


def _icm(tables: ObjectTables, mkey: Mkey, span: Span) -> Views:
    """Return views of software ICM; writes allocate host memory for missing pages.

    A write raises AccessError (TRANSLATION) when the ledger has no space for the pages.
    """
    va, length, need = span
    icm, start = mkey.icm, mkey.start_addr + va
    assert icm is not None  # or there would be no such key
    assert tables.icm is not None
    if need & WRITES:
        try:
            tables.ledger.check(icm.kind, icm.page_cost(tables.icm.missing(start, length)))
        except CmdError:
            raise AccessError(Violation.TRANSLATION, mkey.key, va, length) from None
        tables.icm.hold(icm, start, length)
        tables.objects[SwIcm].recharge(icm)
    return tables.icm.views(start, length)


def indirect(hca: Hca, mkey: Mkey, span: Span, depth: int, step_limit: int | None = None) -> Views:
    """Return the views of a KLM or KSM key: each entry is a separate access to the key below.

    Raises AccessError: DEPTH beyond ``max_indirection``, ABSENT_PAGE at the null key in a driver's
    KSM key, TOO_FRAGMENTED above ``step_limit``. Without ``step_limit``, a range of up to
    SEGMENT_BYTES fails with TRANSLATION instead. The number of views is charged to the budget.
    """
    va, length, need = span
    if depth >= hca.caps.general.max_indirection:
        raise AccessError(Violation.DEPTH, mkey.key, va, length)
    below = LOCAL_WRITE if need & WRITES else LOCAL_READ
    is_ksm = mkey.mode is _KSM
    is_implicit = is_ksm and mkey.uid == DRIVER_UID
    pieces = ksm_ranges if is_ksm else klm_ranges
    views: list[memoryview] = []
    limit = STEPS_PER_ACCESS + hca.budget.steps if step_limit is None else step_limit
    for key, at, size in pieces(mkey, va, length):
        if key == NULL_MKEY and is_implicit:
            raise AccessError(ABSENT_PAGE, mkey.key, *_uncovered(va, length, views))
        try:
            below_views = access(
                hca, mkey.pd, ANY_QPN, key, (at, size, below), depth + 1, step_limit
            )
        except AccessError as page:
            if page.violation is not ABSENT_PAGE or not is_implicit:
                raise
            start, left = _uncovered(va, length, views)
            within = page.va - at if page.key == key else 0
            raise AccessError(ABSENT_PAGE, mkey.key, start + within, left - within) from None
        if size == length:
            hca.budget.charge(1)
            return below_views
        views += below_views
        if len(views) + hca.budget.steps > limit:
            hca.budget.charge(len(views))
            if step_limit is None and length <= SEGMENT_BYTES:  # signed blocks or data units
                raise AccessError(Violation.TRANSLATION, mkey.key, va, length)
            raise AccessError(TOO_FRAGMENTED, mkey.key, va, length, SEGMENT_BYTES)
    hca.budget.charge(len(views))
    return views


def _uncovered(va: int, length: int, views: Views) -> tuple[int, int]:
    """Return start and length of the range that the views do not cover yet."""
    done = length_of(views)
    return va + done, length - done
