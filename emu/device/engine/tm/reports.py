"""Completions of a tag matching queue: changes of its list, and received messages.

Source: rdma-core, providers/mlx5/cq.c: handle_tag_matching; mlx5dv.h: mlx5_cqe64 (tmh, tm_cqe).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from layouts.enums.cqe import CqeOpcode
from layouts.rings.cqe import CQE, TIME_MASK
from layouts.rings.tag_matching import APP_TAG_MATCHING, CQE_APP, CQE_APP_AT, TmAppOp, tm_cqe

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.queues.srq import Srq
    from emu.device.objects.queues.tag_list import TagEntry
    from emu.device.state.completions import Completions

_NO_PACKET: Final = CqeOpcode.NO_PACKET
_SOLICITED: Final = 1 << 1
_BYTE_CNT_AT: Final = CQE_APP_AT + CQE_APP.size

Values = tuple[int, int, int, int, bool]
"""Fields of a message's completion: wqe_counter, or 0 for a buffer with a tag; byte_cnt; immediate
data, or the invalidated key; slid; whether it is solicited.
"""
NOTHING: Final[Values] = (0, 0, 0, 0, False)


def report(
    cqes: Completions, qp: Qp, srq: Srq, opcode: CqeOpcode, app: tuple[TmAppOp, int],
    front: bytes = b"", values: Values = NOTHING,
) -> None:  # fmt: skip
    """Write a CQE with app_op to the CQ of a tag matching queue.

    ``app`` is the kind, and the index of an entry. ``front`` are the CQE's first bytes: a message's
    TMH, or tm_cqe. A CQE without space in the CQ is lost and counted as cq_overflow.
    """
    assert srq.cq is not None
    wqe_counter, byte_cnt, immediate, slid, solicited = values
    now = completions.now_for(cqes.ticks, qp)
    entry = CQE.pack(
        0, slid, 0 if opcode is _NO_PACKET else qp.remote_qpn,
        srq.handle if srq.uidx is None else srq.uidx, immediate, byte_cnt, now & TIME_MASK,
        qp.handle, wqe_counter & 0xFFFF,
    )  # fmt: skip
    word = CQE_APP.pack(APP_TAG_MATCHING, *app)
    entry = front + entry[len(front) : CQE_APP_AT] + word + entry[_BYTE_CNT_AT:]
    op_own = opcode << 4 | (_SOLICITED if solicited else 0)
    completions.report(cqes, srq.cq, qp, entry, op_own, solicited)


def changed(
    cqes: Completions, qp: Qp, srq: Srq, app_op: TmAppOp, is_done: bool, index: int = 0
) -> None:
    """Write the CQE for a change of the list, with the count of unexpected messages.

    ``is_done`` False reports failure: the entry to remove does not exist, or a message has taken
    it.
    """
    assert srq.tags is not None
    front = bytes(tm_cqe.new(success=is_done, hw_phase_cnt=srq.tags.hw_phase).buf)
    report(cqes, qp, srq, _NO_PACKET, (app_op, index), front)


def cancel(cqes: Completions, qp: Qp, srq: Srq, entry: TagEntry) -> None:
    """Release an entry whose message will not fill it, and report MSG_COMPLETION_CANCELED.

    The driver may then reuse the entry. libmlx5 handles this completion
    (MLX5_CQE_APP_OP_TM_MSG_COMPLETION_CANCELED). When adapters write it is not public.
    """
    assert srq.tags is not None
    srq.tags.release(entry)
    report(cqes, qp, srq, _NO_PACKET, (TmAppOp.MSG_COMPLETION_CANCELED, entry.index))
