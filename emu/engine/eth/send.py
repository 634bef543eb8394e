"""A turn of an Ethernet send queue: its requests, one after the other, a bounded number of them.

Every request is done when it has been read: a frame is on the wire or lost, there is nothing to
wait for. A request completes if it asks for it; the CQE's wqe_counter is the number that the driver
gave it, and the driver counts up to exactly that number (core/en_tx.c: mlx5e_poll_tx_cq).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.turns import turn_of
from emu.engine.eth import queues
from emu.engine.events import cq as cq_engine
from emu.objects import Sq
from emu.objects.send_queue import BadWqeError, Wqe
from emu.ports import DmaError
from layouts.enums import CqeOpcode, CqeSyndrome, Opcode
from layouts.eth_enums import SqState

if TYPE_CHECKING:
    from emu.device.hca import Hca

WQES_PER_TURN = 64

CE_MASK = 0b11 << 2
CE_ALWAYS = 0b10 << 2

_RDY, _ERR = SqState.RDY, SqState.ERR


@turn_of(Sq)
def turn(hca: Hca, sq: Sq) -> bool:
    """Do a share of the queue's requests; True when there are more."""
    if sq.state is _ERR:
        return queues.flush_sq(hca, sq)
    if sq.state is not _RDY:
        return False
    try:
        return _work(hca, sq)
    except (BadWqeError, DmaError) as error:
        queues.break_sq(hca, sq, error)
        return False


def _work(hca: Hca, sq: Sq) -> bool:
    ring = sq.ring
    waiting = ring.waiting()
    for _ in range(WQES_PER_TURN):
        if waiting <= 0:  # requests posted meanwhile ring their own doorbell
            return False
        wqe = ring.fetch(waiting)
        waiting -= wqe.blocks
        ring.consume(wqe.blocks)
        if why := _wrong(sq, wqe):
            queues.fail(hca, sq, wqe.index, wqe.opcode, CqeSyndrome.LOCAL_QP_OP_ERR, why)
            return False
        if wqe.fm_ce_se & CE_MASK == CE_ALWAYS:
            cq_engine.complete(
                hca, sq.cq, sq, CqeOpcode.REQ, wqe_counter=wqe.index, wqe_opcode=wqe.opcode
            )
    return True


def _wrong(sq: Sq, wqe: Wqe) -> str:
    """What is wrong with a request; empty when nothing is."""
    if not wqe.ds:
        return "its length cannot be true"
    if wqe.qpn != sq.handle:
        return f"WQE is for sqn {wqe.qpn:#x}"
    if wqe.opcode != Opcode.NOP:
        return f"opcode {wqe.opcode:#x} is not for Ethernet"
    return ""
