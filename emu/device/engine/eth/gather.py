"""Data segments of Ethernet send WQEs: collects the bytes of a frame.

Source: PRM "Send and receive queue WQE formats"; core/en_tx.c: mlx5e_txwqe_build_dsegs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emu.device.engine.mr.access import access, listed_length, segment_views
from emu.device.engine.wqe.messages import data_segments, inline_segment
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.rings.wqe import DATA, DS, INLINE, INLINE_LENGTH

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca


class FrameLengthError(Exception):
    """A frame is too long, or has too few inline header bytes; reported as LOCAL_LENGTH_ERR."""


def gather_each(hca: Hca, sq: Sq, wqe: Wqe, at: int, max_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of each data segment from byte ``at`` of the WQE on, each a frame of its own.

    Raises when the iteration reaches the segment: FrameLengthError for 0 or more than ``max_bytes``
    bytes, BadWqeError for a segment that exceeds the WQE, AccessError for memory. All segments
    together may take STEPS_PER_ACCESS, as one poll sends them all.
    """
    buf, end, steps_left = wqe.buf, wqe.ds * DS, STEPS_PER_ACCESS
    while at < end:
        segment = DATA.unpack_from(buf, at)
        is_inline = segment[0] & INLINE
        length = segment[0] & INLINE_LENGTH if is_inline else segment[0]
        if not 0 < length <= max_bytes:
            raise FrameLengthError(f"packet of {length} bytes, not 1 to {max_bytes}")
        if is_inline:
            segment, at = inline_segment(at, length, end)
        else:
            at += DS
        before = hca.budget.steps
        span = 0, length, LOCAL_READ
        views, _ = segment_views(hca, sq.pd, sq.handle, (segment,), span, before + steps_left, buf)
        steps_left -= hca.budget.steps - before
        yield b"".join(views)


def gather(hca: Hca, sq: Sq, wqe: Wqe, at: int, first: bytes, max_bytes: int) -> bytes:
    """Return ``first`` and the bytes of the data segments from byte ``at`` of the WQE on.

    Raises FrameLengthError for more than ``max_bytes`` bytes of data. Raises BadWqeError for a
    segment that exceeds the WQE. Raises AccessError if a key forbids the access, or if the segments
    take more than STEPS_PER_ACCESS: one poll gathers the whole frame.
    """
    step_limit = hca.budget.steps + STEPS_PER_ACCESS
    if at + DS == wqe.ds * DS and not hca.has_signatures:  # the one segment of most frames
        byte_count, lkey, address = DATA.unpack_from(wqe.buf, at)
        if 0 < byte_count <= max_bytes:  # not inline
            one = (address, byte_count, LOCAL_READ)
            return b"".join((first, *access(hca, sq.pd, sq.handle, lkey, one, 0, step_limit)))
    segments = data_segments(wqe, at)
    length = listed_length(hca, segments)
    if length > max_bytes:
        raise FrameLengthError(f"{length} bytes of data exceed the {max_bytes} of a frame")
    span = 0, length, LOCAL_READ
    views, _ = segment_views(hca, sq.pd, sq.handle, segments, span, step_limit, wqe.buf)
    return b"".join((first, *views))
