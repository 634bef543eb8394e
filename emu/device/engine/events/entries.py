"""Ring of a completion queue: writes entries into it.

The driver owns an entry when its owner bit equals the lap of the consumer index (hw/cq.c:
sw_own_cqe), so the owner byte is written last. In the enhanced compression layout the byte before
the owner byte counts the laps (wq.h: mlx5_cqwq_get_cqe_enahnced_comp).

Packets that may be compressed are held until the round's gathering ends, or until any other entry
is written. A queue that overruns, or whose memory is gone, takes no more entries. An event notifies
its driver, and the queue pairs that report to it stop (IBTA 10.2.5.2, 11.6.3.2).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import compression
from emu.device.engine.events import eq as eq_engine
from emu.device.objects.queues.cq import Compression, Cq
from emu.device.ports import DmaError
from layouts.enums import CqErrorSyndrome, CqStatus, EventType
from layouts.rings.cqe import CQE_BYTES, OP_OWN
from layouts.rings.mini_cqe import PER_BLOCK

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

INDEX_MASK: Final = 0xFFFFFF
_ERROR_DATA: Final = Struct(">I7xB")
_CONSUMER: Final = Struct(">I")
_BYTES: Final = [bytes((value,)) for value in range(256)]
_VALIDITY: Final = compression.VALIDITY
_COMPRESSED_PACKET: Final = compression.PACKET | compression.COMPRESSED

_STATUSES: Final = {
    CqErrorSyndrome.CQ_OVERRUN: CqStatus.CQ_OVERFLOW,
    CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR: CqStatus.CQ_WRITE_FAIL,
}


def append(hca: Hca, cq: Cq, entry: bytes, op_own: int) -> bool:
    """Append an entry in ``cq.write``'s form, without an event; return False when it is lost.

    The entry is lost if the CQ is broken. A full ring (unless overruns are ignored) or unwritable
    memory breaks the CQ now. No packet may be held when this is called.
    """
    if cq.status or (cq.pi - cq.ci >= cq.entries and not _make_space(hca, cq)):
        return False
    pi = cq.pi
    at = (pi & cq.mask) * cq.stride + cq.last_half
    address = cq.buffer.address(at)
    op_own |= pi >> cq.log_size & 1
    try:
        last_half = entry
        if len(entry) > OP_OWN:
            cq.buffer.write(at - CQE_BYTES, entry[:CQE_BYTES])
            last_half = entry[CQE_BYTES:]
        if cq.is_enhanced:
            _write_valid(hca, cq, address, last_half, op_own)
        else:
            hca.memory.write(address, last_half)
            hca.memory.write(address + OP_OWN, _BYTES[op_own])
    except DmaError as error:
        break_queue(hca, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if hca.tracer:
        hca.tracer.cqe(cq.handle, entry, op_own)
    cq.pi = pi + 1
    return True


def _address(cq: Cq, index: int) -> int:
    """Return the address of a 64-byte CQE; it is aligned to its size and lies in one page."""
    return cq.buffer.address((index & cq.mask) * cq.stride + cq.last_half)


def _write_valid(hca: Hca, cq: Cq, address: int, entry: bytes, op_own: int) -> None:
    """Write an entry of the enhanced layout. Raise DmaError."""
    hca.memory.write(address, entry[:_VALIDITY])
    hca.memory.write(address + _VALIDITY, bytes((cq.pi >> cq.log_size & 0xFF, op_own)))


def _make_space(hca: Hca, cq: Cq) -> bool:
    """Read the consumer index from the doorbell record; return whether an entry may be written.

    Break the queue with CQ_OVERRUN if it is full, unless it ignores overruns. Break the queue with
    CQ_ACCESS_VIOLATION_ERROR if the doorbell record is unreadable.
    """
    try:
        cq.ci += newly_consumed(cq, record(hca, cq)) or 0
    except DmaError as error:
        break_queue(hca, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
        return False
    if cq.pi - cq.ci < cq.entries or cq.ignores_overrun:
        return True
    break_queue(hca, cq, CqErrorSyndrome.CQ_OVERRUN, f"overrun, {cq.entries} entries")
    return False


def record(hca: Hca, cq: Cq) -> int:
    """Return the consumer index in the doorbell record. Raise DmaError."""
    index: int
    (index,) = _CONSUMER.unpack(hca.memory.read(cq.dbr_addr, _CONSUMER.size))
    return index


def newly_consumed(cq: Cq, index: int) -> int | None:
    """Return the entries that the driver has read since ``cq.ci``; None for an impossible index."""
    further = (index - cq.ci) & INDEX_MASK
    return further if further <= cq.pi - cq.ci else None


def break_queue(hca: Hca, cq: Cq, syndrome: CqErrorSyndrome, why: str) -> None:
    """Put the CQ into an error status for good, drop its held packets, and raise CQ_ERROR.

    The CQ takes no more entries. The queues that report to it stop in a later poll of the function.
    An overrun is also counted in ``hca.cq_overruns``, which the driver reads as cq_overrun.
    """
    log.warning("%r: %s: no more completions; destroy the CQ and its queues", cq, why)
    cq.status = _STATUSES[syndrome]
    cq.waiting.clear()
    hca.cq_overruns += syndrome is CqErrorSyndrome.CQ_OVERRUN
    eq_engine.raise_event(hca, EventType.CQ_ERROR, _ERROR_DATA.pack(cq.handle, syndrome))
    # The queue pair that reports now is being polled: stop it afterwards.
    hca.broken_cqs.append(cq)
    hca.wake()


# -- packets that may be compressed


def can_hold(hca: Hca, cq: Cq) -> bool:
    """Return whether one more packet can be held: the ring has space for all of them.

    Return False for a broken CQ or an unreadable doorbell record; neither is reported here.
    """
    space = cq.entries - len(cq.waiting)
    if cq.pi - cq.ci < space:
        return not cq.status
    try:
        cq.ci += newly_consumed(cq, record(hca, cq)) or 0
    except DmaError:
        return False
    return cq.pi - cq.ci < space and not cq.status


def put_held(hca: Hca, cq: Cq) -> int:
    """Write the held packets, in sessions, without raising an event; return their number.

    Unwritable memory breaks the CQ, and the remaining packets are lost.
    """
    held, how = cq.waiting, cq.compression
    if not held or how is None:
        return 0
    cq.waiting = []
    before, at = cq.pi, 0
    try:
        for count in compression.sessions(held, how.form, how.limit):
            _put_session(hca, cq, how, held[at : at + count])
            at += count
    except DmaError as error:
        break_queue(hca, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
    return cq.pi - before


def _put_session(hca: Hca, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write held packets as one session, cut at the ring's end. Raise DmaError."""
    while entries:
        to_end = cq.entries - (cq.pi & cq.entries - 1)
        now, entries = entries[:to_end], entries[to_end:]
        if how.is_enhanced or len(now) == 1:
            append(hca, cq, now[0], compression.PACKET)
            for first in range(1, len(now), PER_BLOCK):
                _put_block(hca, cq, how, now[first : first + PER_BLOCK])
        else:
            _put_with_title(hca, cq, how, now)


def _put_with_title(hca: Hca, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write a session of the basic layout. Raise DmaError."""
    memory = hca.memory
    for behind, minis in compression.arrays(entries, how.form):
        memory.write(_address(cq, cq.pi + behind), minis)
    address = _address(cq, cq.pi)
    memory.write(address, compression.title(entries[0], len(entries)))
    memory.write(address + OP_OWN, _BYTES[_COMPRESSED_PACKET | cq.pi >> cq.log_size & 1])
    _advance(hca, cq, entries)


def _put_block(hca: Hca, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write a block of the enhanced layout. Raise DmaError."""
    lap = cq.pi >> cq.log_size
    for behind in range(1, len(entries)):
        hca.memory.write(_address(cq, cq.pi + behind) + _VALIDITY, _BYTES[lap & 0xFF])
    minis, op_own = compression.block(entries, how.form)
    _write_valid(hca, cq, _address(cq, cq.pi), minis, op_own | lap & 1)
    _advance(hca, cq, entries)


def _advance(hca: Hca, cq: Cq, entries: Sequence[bytes]) -> None:
    """Trace and count compressed packets, and advance the producer index by their number."""
    if hca.tracer:
        for index, entry in enumerate(entries, cq.pi):
            hca.tracer.cqe(cq.handle, entry, _COMPRESSED_PACKET | index >> cq.log_size & 1)
    cq.pi += len(entries)
    hca.compressed_completions += len(entries)
