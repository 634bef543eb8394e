"""Completion queues: how a completion becomes a CQE and perhaps an event.

The driver owns an entry when its owner bit equals the lap of the consumer index (hw/cq.c:
sw_own_cqe), so the owner byte is written after everything else. An event is raised once for each
arm: at once when entries already wait, otherwise with the next (solicited) one.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import TYPE_CHECKING

from emu.engine import eq as eq_engine
from emu.objects import Cq
from emu.ports import DmaError
from layouts.cqe import CQE, ERR_CQE, OP_OWN
from layouts.enums import CqeOpcode, CqeSyndrome, EventType

if TYPE_CHECKING:
    from emu.hca import Hca
    from emu.objects import Qp

log = logging.getLogger(__name__)

INDEX_MASK = 0xFFFFFF
ARM_SOLICITED = 1 << 24
_SOLICITED = 1 << 1
_EVENT_DATA = Struct(">24xI")
_ERROR_DATA = Struct(">I7xB")
_CONSUMER = Struct(">I")
_SYNDROME_OVERRUN = 1

DISARMED, ARMED_SOLICITED, ARMED_ANY = range(3)


def complete(
    hca: Hca,
    cq: Cq,
    qp: Qp,
    opcode: CqeOpcode,
    *,
    wqe_counter: int,
    byte_cnt: int = 0,
    wqe_opcode: int = 0,
    srqn: int = 0,
    immediate: int = 0,
    flags_rqpn: int = 0,
    slid: int = 0,
    ml_path: int = 0,
    solicited: bool = False,
) -> None:
    """Report a success; ``wqe_opcode`` is the send opcode of a requester's completion."""
    now = hca.clock.now_ns()
    entry = CQE.pack(
        ml_path, slid, flags_rqpn, srqn, immediate, byte_cnt, now >> 32 & 0xFFFFFFFF,
        now & 0xFFFFFFFF, wqe_opcode << 24 | qp.handle, wqe_counter & 0xFFFF,
    )  # fmt: skip
    _write(hca, cq, entry, opcode << 4 | (_SOLICITED if solicited else 0), solicited)


def fail(
    hca: Hca,
    cq: Cq,
    qp: Qp,
    opcode: CqeOpcode,
    syndrome: CqeSyndrome,
    *,
    wqe_counter: int,
    vendor: int = 0,
    wqe_opcode: int = 0,
    srqn: int = 0,
) -> None:
    """Report a failure; errors count as solicited (IBTA 11.4.2.2)."""
    entry = ERR_CQE.pack(srqn, vendor, syndrome, wqe_opcode << 24 | qp.handle, wqe_counter & 0xFFFF)
    _write(hca, cq, entry, opcode << 4, True)


def _write(hca: Hca, cq: Cq, entry: bytes, op_own: int, solicited: bool) -> None:
    if cq.pi - cq.ci >= cq.entries and not _room(hca, cq):
        return
    at = (cq.pi & cq.entries - 1) * cq.stride + cq.stride - len(entry) - 1
    owner = cq.pi >> cq.log_size & 1
    try:
        cq.buffer.write(at, entry)
        cq.buffer.write(at + OP_OWN, bytes((op_own | owner,)))
    except DmaError as error:
        _break(hca, cq, str(error))
        return
    if hca.tracer:
        hca.tracer.cqe(cq.handle, entry, op_own | owner)
    cq.pi += 1
    if solicited:
        cq.solicited_pi = cq.pi
    if cq.armed == ARMED_ANY or (cq.armed == ARMED_SOLICITED and solicited):
        _fire(hca, cq)


def _room(hca: Hca, cq: Cq) -> bool:
    """Look how far the driver has read; a queue that is really full breaks."""
    if cq.broken:
        return False
    try:
        record = _CONSUMER.unpack(hca.memory.read(cq.dbr_addr, 4))[0]
    except DmaError as error:
        _break(hca, cq, str(error))
        return False
    consumed = (record - cq.ci) & INDEX_MASK
    if consumed <= cq.pi - cq.ci:
        cq.ci += consumed
    if cq.pi - cq.ci < cq.entries or cq.ignores_overrun:
        return True
    _break(hca, cq, "overrun")
    return False


def _break(hca: Hca, cq: Cq, why: str) -> None:
    """The queue takes nothing any more and the driver is told, once."""
    log.warning("%r: %s: no more completions", cq, why)
    if not cq.broken:
        cq.broken = True
        hca.raise_event(EventType.CQ_ERROR, _ERROR_DATA.pack(cq.handle, _SYNDROME_OVERRUN))


def arm(hca: Hca, cqn: int, command: int) -> None:
    """The CQ doorbell: arm serial, which completions are wanted, and the consumer index."""
    cq = hca.cqs.get(cqn)
    if cq is None:
        log.warning("CQ doorbell for cqn %#x, which does not exist", cqn)
        return
    consumed = ((command & INDEX_MASK) - cq.ci) & INDEX_MASK
    if consumed > cq.pi - cq.ci:
        if not (cq.ci - command) & INDEX_MASK <= cq.entries:
            log.warning("%r: doorbell moves ci past pi", cq)
            return
    else:
        cq.ci += consumed
    cq.armed = ARMED_SOLICITED if command & ARM_SOLICITED else ARMED_ANY
    newest = cq.solicited_pi if command & ARM_SOLICITED else cq.pi
    if newest > cq.ci:
        _fire(hca, cq)


def _fire(hca: Hca, cq: Cq) -> None:
    cq.armed = DISARMED
    eq_engine.post(hca, cq.eq, EventType.COMP, 0, _EVENT_DATA.pack(cq.handle))
