"""Copies within guest memory (MMO, with opmod DMA).

Source: rdma-core, providers/mlx5/qp.c: mlx5_wr_memcpy, mlx5dv_wr_memcpy(3).
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.mr.access import SEGMENT_2GIB, segment_views
from emu.device.engine.wqe.messages import need_segment
from emu.device.engine.wqe.registry import Work, wqe_op
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.rounds.costs import LOG_BYTES_PER_STEP
from emu.device.state.hca import Hca
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, DS, INLINE

DMA: Final = 1
"""Value of opmod in the control segment."""
_SOURCE_AT: Final = 2 * DS
_TARGET_AT: Final = 3 * DS


@wqe_op(Opcode.MMO, frozenset({QpType.RC}))
def mmo(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Copy guest memory and return None: ctrl, metadata, source, target.

    The metadata is space for adapter state, unused here. The peer receives nothing. Raises
    BadWqeError for another opmod, a queue pair without MMO, inline segments, different lengths
    (also by block signatures), or a length above log_dma_mmo_max_size. Raises AccessError, also for
    memory too scattered for one access. Both ranges are checked before anything is copied.
    """
    if wqe.opmod != DMA or not qp.has_mmo:
        raise BadWqeError("the queue pair does not support this memory-to-memory operation")
    need_segment(wqe, _TARGET_AT + DS)
    source, target = DATA.unpack_from(wqe.buf, _SOURCE_AT), DATA.unpack_from(wqe.buf, _TARGET_AT)
    if source[0] != target[0] or source[0] & INLINE:
        raise BadWqeError("source or target of a copy is inline, or their lengths differ")
    length = source[0] or SEGMENT_2GIB
    if length > 1 << hca.caps.general.log_dma_mmo_max_size:
        raise BadWqeError(f"copy of {length} bytes, above log_dma_mmo_max_size")
    read, unread = segment_views(hca, qp.pd, qp.handle, [source], (0, length, LOCAL_READ))
    written, unused = segment_views(hca, qp.pd, qp.handle, [target], (0, length, LOCAL_WRITE))
    if unread != unused:
        raise BadWqeError("the lengths of source and target differ by their block signatures")
    hca.budget.charge(length >> LOG_BYTES_PER_STEP)
    copy(written, read)
    return None
