"""ACCESS_ASO WQEs on a send queue: read and set flow meters.

The mask has one bit per byte of the object's parameters. A meter restarts when any of its bytes
changes. Only the conditions that the driver uses are supported: always and never.

Source: core/lib/aso.c; core/en/tc/meter.c: mlx5e_tc_meter_modify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access import access
from emu.device.objects.eth.flow_meter import LOG_MAX_IN_RANGE, FlowMeterAso
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.rounds.costs import STEPS_PER_ASO
from layouts.rings.aso_wqe import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    ASO_DATA_BYTES,
    BYTEWISE_64BYTE,
    FLOW_METER,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_SHIFT,
    MASK_MODE_SHIFT,
    READ_EN,
    wqe_aso_ctrl_seg,
)
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca

_CTRL_AT: Final = 16
_DATA_AT: Final = _CTRL_AT + wqe_aso_ctrl_seg.size
_CONDITION, _CONDITION_SHIFT = 0xF, 4


def access_aso(hca: Hca, sq: Sq, wqe: Wqe) -> None:
    """Read an ASO object into memory if READ_EN is set, and write the bytes that the mask selects.

    The memory gets the old contents. If the conditions do not hold, no byte is written. Raises
    BadWqeError for anything but a flow meter of the queue's PD with a bytewise mask, AccessError
    for the memory; the object is unchanged then.
    """
    hca.budget.charge(STEPS_PER_ASO)
    if wqe.opmod != FLOW_METER:
        raise BadWqeError(
            f"ACCESS_ASO with opmod {wqe.opmod}: only flow meters ({FLOW_METER}) are supported"
        )
    if wqe.ds * DS < _DATA_AT:
        raise BadWqeError(f"ds {wqe.ds} leaves no space for the ASO control segment")
    ctrl = wqe_aso_ctrl_seg.view(wqe.buf[_CTRL_AT:_DATA_AT])
    aso = hca.objects[FlowMeterAso].get(wqe.imm >> LOG_MAX_IN_RANGE)
    if aso is None or aso.pd is not sq.pd or not aso.has(wqe.imm):
        raise BadWqeError(f"no flow meter object {wqe.imm:#x} of the queue's protection domain")
    mode = ctrl.data_mask_mode >> MASK_MODE_SHIFT
    if mode != BYTEWISE_64BYTE:
        raise BadWqeError(
            f"data_mask_mode {mode}: only bytewise masks ({BYTEWISE_64BYTE}) are supported"
        )
    old = aso.data(wqe.imm)
    new = _masked(old, wqe, ctrl.data_mask) if _holds(ctrl) else old
    if ctrl.va_l & READ_EN:
        va = ctrl.va_h << 32 | ctrl.va_l & ~READ_EN
        span = (va, ASO_DATA_BYTES, LOCAL_WRITE)
        copy(access(hca, sq.pd, ANY_QPN, ctrl.l_key, span), [memoryview(old)])
    aso.write(wqe.imm, new)


def _holds(ctrl: wqe_aso_ctrl_seg) -> bool:
    """Return whether the two conditions, joined by AND or OR, hold.

    Raises BadWqeError for conditions other than always and never, and for another operator.
    """
    operands = ctrl.condition_1_0_operand
    both = (operands & _CONDITION, operands >> _CONDITION_SHIFT)
    if any(operand not in (ALWAYS_FALSE, ALWAYS_TRUE) for operand in both):
        raise BadWqeError(
            f"condition_1_0_operand {operands:#x}: only ALWAYS_TRUE and ALWAYS_FALSE are supported"
        )
    logical = ctrl.data_offset_condition_operand >> LOGICAL_SHIFT
    if logical not in (LOGICAL_AND, LOGICAL_OR):
        raise BadWqeError(f"logical operator {logical} of the conditions is neither AND nor OR")
    return all(both) if logical == LOGICAL_AND else any(both)


def _masked(old: bytes, wqe: Wqe, mask: int) -> bytes:
    """Return the object's bytes, replaced by the WQE's bytes where the mask has bits.

    Raises BadWqeError if the mask has bits and the WQE is too short for data.
    """
    if wqe.ds * DS < _DATA_AT + ASO_DATA_BYTES:
        if mask:
            raise BadWqeError(f"ds {wqe.ds} leaves no space for the data that the mask selects")
        return old
    given = wqe.buf[_DATA_AT:][:ASO_DATA_BYTES]
    last = ASO_DATA_BYTES - 1
    return bytes(
        new if mask >> last - at & 1 else was for at, (was, new) in enumerate(zip(old, given))
    )
