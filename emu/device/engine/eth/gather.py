"""Data segments of Ethernet send requests: from the WQE to the bytes of a frame.

Source: PRM "Send and receive queue WQE formats"; core/en_tx.c: mlx5e_txwqe_build_dsegs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emu.device.engine.mr.access import access
from emu.device.engine.mr.rights import LOCAL_READ
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.rounds.budget import STEPS_PER_ACCESS
from layouts.wqe import DATA, DS, INLINE, INLINE_LENGTH

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca

_data = DATA.unpack_from
_PAD = DS - 1


class TooLongError(Exception):
    """A request names more bytes than any frame has: LOCAL_LENGTH_ERR."""


def gather_each(hca: Hca, sq: Sq, wqe: Wqe, at: int, most: int) -> Iterator[bytes]:
    """The bytes of each of the data segments from byte ``at`` of the WQE on.

    Raises as :func:`gather`, when it gets to the segment concerned.
    """
    buf, end = wqe.buf, wqe.ds * DS
    while at < end:
        byte_count, lkey, address = _data(buf, at)
        length = byte_count & INLINE_LENGTH if byte_count & INLINE else byte_count
        if not 0 < length <= most:
            raise TooLongError(f"packet of {length} bytes")
        if byte_count & INLINE:
            if at + 4 + length > end:
                raise BadWqeError(f"inline segment of {length} bytes leaves the WQE")
            yield buf[at + 4 : at + 4 + length]
            at += 4 + length + _PAD & ~_PAD
        else:
            limit = hca.round.steps + STEPS_PER_ACCESS
            views = access(hca, sq.pd, sq.handle, lkey, (address, length, LOCAL_READ), 0, limit)
            yield b"".join(views)
            at += DS


def gather(hca: Hca, sq: Sq, wqe: Wqe, at: int, first: bytes, most: int) -> bytes:
    """``first`` and the bytes that the data segments from byte ``at`` of the WQE on name.

    Raises TooLongError for more than ``most`` bytes of data, BadWqeError for a segment that leaves
    the WQE, and AccessError for a key that does not allow it, or when the segments fall into more
    than STEPS_PER_ACCESS pieces: a frame is put together in one turn.
    """
    buf, end, limit = wqe.buf, wqe.ds * DS, hca.round.steps + STEPS_PER_ACCESS
    parts: list[bytes | memoryview] = [first]
    while at < end:
        byte_count, lkey, address = _data(buf, at)
        if byte_count & INLINE:
            length = byte_count & INLINE_LENGTH
            if at + 4 + length > end:
                raise BadWqeError(f"inline segment of {length} bytes leaves the WQE")
            parts.append(buf[at + 4 : at + 4 + length])
            at += 4 + length + _PAD & ~_PAD
        else:
            length = byte_count
            if not 0 < length <= most:  # 0 means 2 GiB
                raise TooLongError(f"segment of {length or 1 << 31} bytes")
            parts += access(hca, sq.pd, sq.handle, lkey, (address, length, LOCAL_READ), 0, limit)
            at += DS
        most -= length
        if most < 0:
            raise TooLongError("longer than any frame")
    return b"".join(parts)
