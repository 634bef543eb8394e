"""Packets that a CQ holds to compress their completions.

Packets that may be compressed are held until the round's gathering ends, or until any other entry
is written. Only then their entries are written, in sessions (``compression.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.events import compression
from emu.device.engine.events.cq import (
    OP_OWN_BYTES,
    append,
    break_queue,
    newly_consumed,
    notify,
    record,
    write,
    write_valid,
)
from emu.device.objects.queues.cq import Compression, Cq
from emu.device.ports import DmaError
from layouts.enums.cq import CqNotification
from layouts.enums.eqe import CqErrorSyndrome
from layouts.rings.cqe import OP_OWN
from layouts.rings.mini_cqe import PER_BLOCK

if TYPE_CHECKING:
    from emu.device.ports import GuestMemory
    from emu.device.state.completions import Completions

_ARMED: Final = CqNotification.ARMED
_COMPRESSED_PACKET: Final = compression.PACKET | compression.COMPRESSED


def hold_or_write(cqes: Completions, cq: Cq, entry: bytes, op_own: int, solicited: bool) -> bool:
    """Write an entry to a CQ of either kind, like ``cq.write``; return False when it is lost.

    A compressing CQ may hold a packet until the round's gathering ends, and returns True. Any other
    entry writes the held packets first.
    """
    if cq.compression is not None:
        if (
            cqes.budget.is_gathering
            and compression.is_packet(entry, op_own)
            and _can_hold(cqes.memory, cq)
        ):
            _hold(cqes, cq, entry)
            return True
        write_held(cqes, cq)
    return write(cqes, cq, entry, op_own, solicited)


def _hold(cqes: Completions, cq: Cq, entry: bytes) -> None:
    """Keep a packet until the round's gathering ends, which calls :func:`write_held`."""
    if not cq.waiting:
        if not cqes.holding:
            cqes.budget.at_end(partial(cqes.contained, partial(_settle_all, cqes)))
        cqes.holding.append(cq)
    cq.waiting.append(entry)


def _settle_all(cqes: Completions) -> None:
    holding, cqes.holding = cqes.holding, []
    for cq in holding:
        write_held(cqes, cq)


def write_held(cqes: Completions, cq: Cq) -> None:
    """Write the held packets, compressed where possible, and raise the event if the CQ is armed.

    Do nothing when no packet is held.
    """
    count = _put_held(cqes, cq)
    if count and cq.notification is _ARMED:
        notify(cqes.events, cq, count)


def _can_hold(memory: GuestMemory, cq: Cq) -> bool:
    """Return whether one more packet can be held: the ring has space for all of them.

    Return False for a broken CQ or an unreadable doorbell record; neither is reported here.
    """
    space = cq.entries - len(cq.waiting)
    if cq.pi - cq.ci < space:
        return not cq.status
    try:
        cq.ci += newly_consumed(cq, record(memory, cq)) or 0
    except DmaError:
        return False
    return cq.pi - cq.ci < space and not cq.status


def _put_held(cqes: Completions, cq: Cq) -> int:
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
            _put_session(cqes, cq, how, held[at : at + count])
            at += count
    except DmaError as error:
        break_queue(cqes, cq, CqErrorSyndrome.CQ_ACCESS_VIOLATION_ERROR, str(error))
    return cq.pi - before


def _put_session(cqes: Completions, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write held packets as one session, cut at the ring's end. Raise DmaError."""
    while entries:
        to_end = cq.entries - (cq.pi & cq.entries - 1)
        now, entries = entries[:to_end], entries[to_end:]
        if how.is_enhanced or len(now) == 1:
            append(cqes, cq, now[0], compression.PACKET)
            for first in range(1, len(now), PER_BLOCK):
                _put_block(cqes, cq, how, now[first : first + PER_BLOCK])
        else:
            _put_with_title(cqes, cq, how, now)


def _put_with_title(cqes: Completions, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write a session of the basic layout. Raise DmaError."""
    memory = cqes.memory
    for behind, minis in compression.arrays(entries, how.form):
        memory.write(_address(cq, cq.pi + behind), minis)
    address = _address(cq, cq.pi)
    memory.write(address, compression.title(entries[0], len(entries)))
    memory.write(address + OP_OWN, OP_OWN_BYTES[_COMPRESSED_PACKET | cq.pi >> cq.log_size & 1])
    _advance(cqes, cq, entries)


def _put_block(cqes: Completions, cq: Cq, how: Compression, entries: Sequence[bytes]) -> None:
    """Write a block of the enhanced layout. Raise DmaError."""
    lap = cq.pi >> cq.log_size
    for behind in range(1, len(entries)):
        cqes.memory.write(
            _address(cq, cq.pi + behind) + compression.VALIDITY, OP_OWN_BYTES[lap & 0xFF]
        )
    minis, op_own = compression.block(entries, how.form)
    write_valid(cqes.memory, cq, _address(cq, cq.pi), minis, op_own | lap & 1)
    _advance(cqes, cq, entries)


def _advance(cqes: Completions, cq: Cq, entries: Sequence[bytes]) -> None:
    """Trace and count compressed packets, and advance the producer index by their number."""
    tracer = cqes.probes.tracer
    if tracer:
        for index, entry in enumerate(entries, cq.pi):
            tracer.cqe(cq.handle, entry, _COMPRESSED_PACKET | index >> cq.log_size & 1)
    cq.pi += len(entries)
    cqes.compressed += len(entries)


def _address(cq: Cq, index: int) -> int:
    """Return the address of a 64-byte CQE; it is aligned to its size and lies in one page."""
    return cq.buffer.address((index & cq.mask) * cq.stride + cq.last_half)
