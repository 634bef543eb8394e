"""Changes of a tag list, by a queue pair that receives from the tag matching queue.

Source: rdma-core, providers/mlx5/qp.c: set_tm_seg, mlx5_post_srq_ops.
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.tm import reports
from emu.device.engine.wqe.messages import need_segment
from emu.device.engine.wqe.registry import Work, wqe_op
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import scatter_list
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.objects.queues.tag_list import TagEntry, TagList
from emu.device.state.hca import Hca
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.tag_matching import TM_CQE_REQ, TM_SW_CNT, TmAppOp, TmOpcode, wqe_tm_seg
from layouts.rings.wqe import DS, INLINE

_DATA_AT: Final = DS + wqe_tm_seg.size
_APP_OPS: Final = {
    TmOpcode.NOP: TmAppOp.NOOP,
    TmOpcode.APPEND: TmAppOp.APPEND,
    TmOpcode.REMOVE: TmAppOp.REMOVE,
}


@wqe_op(Opcode.TAG_MATCHING, frozenset({QpType.RC}))
def tag_matching(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Change the tag list and return None: ctrl, tm, and a data segment for an added buffer.

    The peer receives nothing. Raises BadWqeError, without a change, for a queue pair without a tag
    list, an unknown opcode, or an index beyond the list. The software's count of handled unexpected
    messages is applied first. A requested CQE reports the change; removing an absent entry is no
    error but reports failure.
    """
    srq = qp.srq
    if srq is None or srq.tags is None:
        raise BadWqeError("the queue pair has no tag matching receive queue")
    tags = srq.tags
    need_segment(wqe, _DATA_AT)
    tm = wqe_tm_seg.view(bytearray(wqe.buf[DS:_DATA_AT]))
    if tm.opcode not in _APP_OPS:
        raise BadWqeError(f"unknown tag matching opcode {tm.opcode:#x}")
    opcode, index, is_done = TmOpcode(tm.opcode), int(tm.index), True
    if opcode is not TmOpcode.NOP and index >= tags.size:
        raise BadWqeError(f"index {index} is beyond the list of {tags.size} tags")
    entry = _entry(wqe, tags, tm.append_tag, tm.append_mask) if opcode is TmOpcode.APPEND else None
    if tm.flags & TM_SW_CNT:
        tags.synchronize(tm.sw_cnt)
    if entry is not None:
        tags.append(entry, index)
        index = entry.index
    elif opcode is TmOpcode.REMOVE:
        is_done = tags.remove(index)
    if tm.flags & TM_CQE_REQ:
        reports.changed(hca.cqes, qp, srq, _APP_OPS[opcode], is_done, index)
    return None


def _entry(wqe: Wqe, tags: TagList, tag: int, mask: int) -> TagEntry:
    """Return the entry to add; the list is unchanged.

    Without a data segment with a length the entry takes an empty message. Raises BadWqeError when
    the list's next index is in use, or the buffer is inline.
    """
    need_segment(wqe, _DATA_AT + DS)
    if tags.is_used(tags.next_index):
        raise BadWqeError(f"tag {tags.next_index} is the next to add, but in use")
    segments = scatter_list(wqe.buf, _DATA_AT, _DATA_AT + DS)
    if any(segment[0] & INLINE for segment in segments):
        raise BadWqeError("the buffer of a tag cannot be inline")
    return TagEntry(tag, mask, segments)
