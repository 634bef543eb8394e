"""The polls of Ethernet send queues: a bounded number of WQEs, or of a hairpin's packets, in order.

A WQE is done once it has been read: its frame is on the wire or dropped. Before that, the WQE waits
for the queue's rate and for the link partner's credits (``rx_credits``). A WQE completes if it
requests a CQE. The CQE's wqe_counter is the driver's own index, and the driver completes everything
up to it (core/en_tx.c: mlx5e_poll_tx_cq).

A hairpin's packet waits like a WQE. Meanwhile the receive queue of the pair counts and drops
packets beyond its capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth import ipoib, port_stamps, queues
from emu.device.engine.eth.flow_meters import access_aso
from emu.device.engine.eth.gather import FrameLengthError
from emu.device.engine.eth.hairpin.pairs import packets_for
from emu.device.engine.eth.multi_packet import transmit_each
from emu.device.engine.eth.pacing import wait
from emu.device.engine.eth.rx_credits import await_credits, select_priority
from emu.device.engine.eth.transmit import send, transmit
from emu.device.engine.events import completions
from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.qp.send_requests import WQE_POINT, Failure
from emu.device.engine.wqe.key_options import BindError
from emu.device.engine.wqe.umr import change_key
from emu.device.objects.eth.hairpin import HairpinSq
from emu.device.objects.eth.sq import Sq
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.eth.frame import Frame
from emu.device.ports import DmaError
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_WQE
from emu.device.rounds.sizes import FRAMES_PER_POLL
from emu.device.state.polls import polls
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.wq import SqState
from layouts.enums.wqe import Opcode

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


CE_MASK: Final = 0b11 << 2
CE_ALWAYS: Final = 0b10 << 2

_RDY: Final = SqState.RDY
_ERR: Final = SqState.ERR
_BAD: Final = CqeSyndrome.LOCAL_QP_OP_ERR
_NOP: Final = int(Opcode.NOP)
_WORK: Final[Mapping[int, Callable[[Hca, Sq, Wqe], object]]] = {
    int(Opcode.SEND): transmit,
    int(Opcode.LSO): transmit,
    int(Opcode.ENHANCED_MPSW): transmit_each,
    int(Opcode.UMR): change_key,
    int(Opcode.ACCESS_ASO): access_aso,
}
_IPOIB: Final[Mapping[int, Callable[[Hca, Sq, Wqe], object]]] = {
    int(Opcode.SEND): ipoib.transmit,
    int(Opcode.LSO): ipoib.transmit,
}
"""Handlers by plain number: up to CPython 3.11 an enumeration's attribute costs five times as much.
"""


@polls(Sq)
def poll(hca: Hca, sq: Sq) -> bool:
    """Process up to FRAMES_PER_POLL of the queue's WQEs; return whether more can be sent.

    In ERR flush WQEs instead, in RST do nothing. While a rate or missing credits delay the queue,
    return False; a timer resumes it. An unreadable ring raises WQ_CATAS_ERROR, a failed WQE gets an
    error CQE; both move the queue to ERR.
    """
    if sq.state is _ERR:
        return queues.flush_sq(hca.cqes, sq)
    if sq.state is not _RDY:
        return False
    if hca.backlogs.egress:  # earlier frames are still in the NIC_TX tables
        return True
    try:
        return _work(hca, sq)
    except (BadWqeError, DmaError) as error:
        queues.break_sq(hca.scheduler, hca.events, sq, error)
        return False


@polls(HairpinSq)
def poll_hairpin(hca: Hca, sq: HairpinSq) -> bool:
    """Send some of the pair's queued packets; return whether more can be sent in a later round.

    Return False when the backlog is empty, or unless both queues of the pair are in RDY. Return
    False while the rate or missing receive credits delay the queue; a timer then schedules it
    again. Return True at once while ``hca.backlogs.egress`` holds earlier frames.

    A packet that loops back to the receive queue is queued there again. A loop of hairpins
    therefore shares rounds with the other queues.
    """
    hairpin = packets_for(hca.vhca, sq) if sq.state is _RDY else None
    if hca.backlogs.egress:  # earlier frames are still being sent
        return True
    select_priority(hca, sq)
    for _ in range(FRAMES_PER_POLL):
        pacing = sq.pacing
        if hairpin is None or len(hairpin) == 0:  # compiled code takes an object as true
            if pacing is not None:
                pacing.stop_waiting()
            return False
        if pacing is not None and (delay := pacing.delay(hca.clock.now_ns())):
            wait(hca.scheduler, hca.clock, sq, delay)
            return False
        if hca.link_partner.credit <= 0 and await_credits(hca, sq):
            return False
        data, gso_size, is_vouched, packets, longest, octets, metadata = hairpin.pop()
        frame = Frame(data, gso_size, is_vouched, is_vouched and not gso_size)
        send(hca, sq, frame, packets, longest, octets, metadata)
        if hca.budget.steps > POLL_BUDGET:
            break
    return True


def _work(hca: Hca, sq: Sq) -> bool:
    """Execute WQEs, write their CQEs, and return whether more can be sent in a later round.

    Return False when the ring is empty, and when the queue waits or has stopped.
    """
    ring = sq.ring
    link_partner, waiting = hca.link_partner, ring.waiting()
    select_priority(hca, sq)
    for _ in range(FRAMES_PER_POLL):
        pacing = sq.pacing
        if waiting <= 0:  # WQEs posted meanwhile ring their own doorbell
            if pacing is not None:
                pacing.stop_waiting()
            return False
        if pacing is not None and (delay := pacing.delay(hca.clock.now_ns())):
            wait(hca.scheduler, hca.clock, sq, delay)
            return False
        if link_partner.credit <= 0 and await_credits(hca, sq):
            return False
        wqe = ring.fetch(waiting)
        waiting -= wqe.blocks
        ring.consume(wqe.blocks)
        is_signaled = wqe.fm_ce_se & CE_MASK == CE_ALWAYS
        now = 0
        if is_signaled or sq.ts_cq is not None:
            # A peer of this process stamps the frame while the WQE is executed, so not after that.
            now = completions.now_for(hca.cqes.ticks, sq)
        failure = _execute(hca, sq, wqe, now)
        if failure is not None:
            queues.fail(
                hca.cqes,
                hca.scheduler,
                sq,
                wqe.index,
                wqe.opcode,
                failure.syndrome,
                failure.why,
                failure.cause,
            )
        if sq.state is not _RDY:  # this WQE or its completion has failed
            return False
        if is_signaled:
            completions.complete_sent(hca.cqes, sq.cq, sq, wqe, now)
        if hca.budget.steps > POLL_BUDGET:
            break
    return True


def _execute(hca: Hca, sq: Sq, wqe: Wqe, now: int) -> Failure | None:
    """Execute a WQE; return the failure for its error CQE, or None on success.

    ``now`` is the stamp of the port timestamp CQE, for a queue with a CQ for these.
    LOCAL_QP_OP_ERR stands for a malformed or unsupported WQE, MW_BIND_ERR for a UMR,
    LOCAL_LENGTH_ERR for a frame's length. Memory errors have the syndrome of the access.
    """
    if hca.probes.tracer:
        hca.probes.tracer.wqe(hca.mkeys, sq, wqe)
    if (
        hca.probes.faults is not None
        and (planned := hca.probes.faults.show(WQE_POINT, sq, wqe)) is not None
    ):
        return planned
    if not wqe.ds:
        return Failure(_BAD, "ds is 0 or exceeds the posted WQE blocks")
    if wqe.qpn != sq.handle:
        return Failure(_BAD, f"the WQE is for sqn {wqe.qpn:#x}, not {sq.handle:#x}")
    if wqe.opcode == _NOP:
        hca.budget.charge(1)
        return None
    work = (_IPOIB if sq.is_ipoib else _WORK).get(wqe.opcode)
    if work is None or not _is_for(sq, work):
        return Failure(_BAD, f"opcode {wqe.opcode:#x} not supported by this queue")
    if work is change_key:
        hca.budget.charge(STEPS_PER_WQE)
    try:
        work(hca, sq, wqe)
    except BadWqeError as bad:
        return Failure(_BAD, str(bad))
    except BindError as not_bound:
        return Failure(CqeSyndrome.MW_BIND_ERR, str(not_bound), not_bound.cause)
    except FrameLengthError as too_long:
        return Failure(CqeSyndrome.LOCAL_LENGTH_ERR, str(too_long))
    except AccessError as no_access:
        return Failure.of_access(no_access)
    if sq.ts_cq is not None and work not in (change_key, access_aso):
        port_stamps.complete_timestamp(hca.cqes, hca.caps, sq, sq.ts_cq, wqe, now)
    return None


def _is_for(sq: Sq, work: Callable[[Hca, Sq, Wqe], object]) -> bool:
    """Return whether the queue may execute it: frames need a TIS, UMR needs a registering queue."""
    if work is change_key:
        return sq.registers
    return work is access_aso or sq.tis is not None
