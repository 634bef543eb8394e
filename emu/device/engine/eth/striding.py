"""Striding receive queues: the strides of a packet, and filler CQEs before it.

A packet that exceeds the rest of a WQE goes into the next WQE; a filler CQE consumes the rest
(core/en_rx.c: mpwrq_is_filler_cqe). Without a next WQE the packet is dropped and the queue is
unchanged.

Source: PRM "Striding RQ"; device.h: mpwrq_get_cqe_consumed_strides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.requests import request
from emu.device.engine.events import completions
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.strides import Strides
from emu.device.objects.queues.receive_queue import RecvWqe
from layouts.enums.cqe import CqeOpcode
from layouts.rings.eth_cqe import ETH_CQE

if TYPE_CHECKING:
    from emu.device.state.completions import Completions
    from emu.device.state.hca import Hca

FILLER: Final = 1 << 31
"""byte_cnt: the strides have no packet."""
STRIDES_SHIFT: Final = 16
"""byte_cnt: number of strides above this bit, packet length below."""

_OP_OWN: Final = CqeOpcode.RESP_SEND << 4
_WORD: Final = 0xFFFFFFFF


def request_for(hca: Hca, rq: Rq, strides: Strides, length: int) -> RecvWqe | None:
    """Return the WQE whose next strides hold a packet of ``length`` bytes; None when it is dropped.

    A new WQE is taken, and the old one's rest filled, only when the packet needs it. Drops count as
    wqe_too_small or out_of_buffer. An unreadable ring raises WQ_CATAS_ERROR and moves the queue to
    ERR.
    """
    if strides.fits_current_wqe(length):
        return strides.wqe
    if strides.needed(length) > strides.count:
        hca.nic_vport.wqe_too_small += 1
        return None
    following = request(hca, rq)
    if following is None:
        return None
    fill(hca.cqes, rq, strides)
    strides.begin(following)
    return following


def fill(cqes: Completions, rq: Rq, strides: Strides, end: int | None = None) -> None:
    """Write a filler CQE for the rest of the current WQE, or for the strides before ``end``.

    Do nothing without a current WQE, or if no stride is left to fill.
    """
    wqe = strides.wqe
    if wqe is None or strides.used == end:
        return
    now = completions.now_for(cqes.ticks, rq)
    first, count = strides.use_up(end)
    byte_cnt = FILLER | count << STRIDES_SHIFT
    entry = ETH_CQE.pack(
        wqe.index, 0, 0, 0, 0, 0, 0, 0, 0, rq.uidx or 0, 0, byte_cnt, now >> 32 & _WORD,
        now & _WORD, 0, first,
    )  # fmt: skip
    assert rq.cq is not None  # a hairpin has no requests
    completions.report(cqes, rq.cq, rq, entry, _OP_OWN, False)
