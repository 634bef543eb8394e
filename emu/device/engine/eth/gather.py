"""Data segments of Ethernet send requests: from the WQE to the bytes of a frame.

Source: PRM "Send and receive queue WQE formats"; core/en_tx.c: mlx5e_txwqe_build_dsegs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emu.device.engine.mr.access import access, listed_length, walk
from emu.device.engine.mr.rights import LOCAL_READ
from emu.device.engine.wqe.messages import data_segments, inline_segment
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.rings.wqe import DATA, DS, INLINE, INLINE_LENGTH

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca


class FrameLengthError(Exception):
    """More bytes than any frame has, or less headers inline than wanted: LOCAL_LENGTH_ERR."""


def gather_each(hca: Hca, sq: Sq, wqe: Wqe, at: int, limit: int) -> Iterator[bytes]:
    """The bytes of each of the data segments from byte ``at`` of the WQE on.

    Raises as :func:`gather`, when it gets to the segment concerned; all of them together may fall
    into as many pieces as one frame, as they are sent in one turn.
    """
    buf, end, left = wqe.buf, wqe.ds * DS, STEPS_PER_ACCESS
    while at < end:
        segment = DATA.unpack_from(buf, at)
        is_inline = segment[0] & INLINE
        length = segment[0] & INLINE_LENGTH if is_inline else segment[0]
        if not 0 < length <= limit:
            raise FrameLengthError(f"packet of {length} bytes")
        if is_inline:
            segment, at = inline_segment(at, length, end)
        else:
            at += DS
        before = hca.round.steps
        limit = before + left
        span = 0, length, LOCAL_READ
        views, _ = walk(hca, sq.pd, sq.handle, (segment,), span, limit, buf)
        left -= hca.round.steps - before
        yield b"".join(views)


def gather(hca: Hca, sq: Sq, wqe: Wqe, at: int, first: bytes, limit: int) -> bytes:
    """``first`` and the bytes that the data segments from byte ``at`` of the WQE on name.

    Raises FrameLengthError for more than ``limit`` bytes of data, BadWqeError for a segment that
    leaves the WQE, and AccessError for a key that does not allow it, or when the segments fall into
    more than STEPS_PER_ACCESS pieces: a frame is put together in one turn.
    """
    if at + DS == wqe.ds * DS and not hca.has_signatures:  # the one segment of most frames
        byte_count, lkey, address = DATA.unpack_from(wqe.buf, at)
        if 0 < byte_count <= limit:  # and not inline
            limit = hca.round.steps + STEPS_PER_ACCESS
            one = (address, byte_count, LOCAL_READ)
            return b"".join((first, *access(hca, sq.pd, sq.handle, lkey, one, 0, limit)))
    segments = data_segments(wqe, at)
    length = listed_length(hca, segments)
    if length > limit:
        raise FrameLengthError(f"{length} bytes are longer than any frame")
    span, limit = (0, length, LOCAL_READ), hca.round.steps + STEPS_PER_ACCESS
    views, _ = walk(hca, sq.pd, sq.handle, segments, span, limit, wqe.buf)
    return b"".join((first, *views))
