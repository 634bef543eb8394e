"""Requests that set flow meters: ACCESS_ASO on a send queue.

The mask has a bit for each byte of an object's parameters; a meter of which any has changed begins
anew. Conditions are those that the driver needs: always and never.

Source: core/lib/aso.c; core/en/tc/meter.c: mlx5e_tc_meter_modify.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.access import access
from emu.device.engine.mr.rights import LOCAL_WRITE
from emu.device.objects.eth.flow_meter import LOG_MOST_IN_RANGE, FlowMeterAso
from emu.device.objects.memory.mkey import ANY_QPN
from emu.device.objects.memory.views import copy
from emu.device.objects.queues.send_queue import BadWqeError
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
    from layouts.rings.aso_wqe import WqeAsoCtrlSeg

_CTRL_AT: Final = 16
_DATA_AT: Final = _CTRL_AT + wqe_aso_ctrl_seg.size
_CONDITION, _CONDITION_SHIFT = 0xF, 4


def access_aso(hca: Hca, sq: Sq, wqe: Wqe) -> None:
    """Read an object, if that is asked for, and write what the mask selects.

    Raises BadWqeError or AccessError; nothing has changed then.
    """
    if wqe.opmod != FLOW_METER:
        raise BadWqeError(f"ACCESS_ASO with opmod {wqe.opmod}: only flow meters are there")
    if wqe.ds * DS < _DATA_AT:
        raise BadWqeError(f"ds {wqe.ds} has no room for the ASO control segment")
    ctrl = wqe_aso_ctrl_seg.view(wqe.buf[_CTRL_AT:_DATA_AT])
    aso = hca.objects[FlowMeterAso].get(wqe.imm >> LOG_MOST_IN_RANGE)
    if aso is None or aso.pd is not sq.pd or not aso.has(wqe.imm):
        raise BadWqeError(f"no flow meter object {wqe.imm:#x} of the queue's protection domain")
    mode = ctrl.data_mask_mode >> MASK_MODE_SHIFT
    if mode != BYTEWISE_64BYTE:
        raise BadWqeError(f"data_mask_mode {mode}: only bytewise masks are there")
    old = aso.data(wqe.imm)
    new = _masked(old, wqe, ctrl.data_mask) if _holds(ctrl) else old
    if ctrl.va_l & READ_EN:
        va = ctrl.va_h << 32 | ctrl.va_l & ~READ_EN
        span = (va, ASO_DATA_BYTES, LOCAL_WRITE)
        copy(access(hca, sq.pd, ANY_QPN, ctrl.l_key, span), [memoryview(old)])
    aso.write(wqe.imm, new)


def _holds(ctrl: WqeAsoCtrlSeg) -> bool:
    """Whether the conditions hold."""
    operands = ctrl.condition_1_0_operand
    both = (operands & _CONDITION, operands >> _CONDITION_SHIFT)
    if any(operand not in (ALWAYS_FALSE, ALWAYS_TRUE) for operand in both):
        raise BadWqeError(f"condition_1_0_operand {operands:#x}: only always and never are there")
    logical = ctrl.data_offset_condition_operand >> LOGICAL_SHIFT
    if logical not in (LOGICAL_AND, LOGICAL_OR):
        raise BadWqeError(f"conditions are joined by {logical}, which is neither AND nor OR")
    return all(both) if logical == LOGICAL_AND else any(both)


def _masked(old: bytes, wqe: Wqe, mask: int) -> bytes:
    """The object's bytes with those of the request where the mask has bits."""
    if wqe.ds * DS < _DATA_AT + ASO_DATA_BYTES:
        if mask:
            raise BadWqeError(f"ds {wqe.ds} has no room for the data that the mask selects")
        return old
    given = wqe.buf[_DATA_AT:][:ASO_DATA_BYTES]
    last = ASO_DATA_BYTES - 1
    return bytes(
        new if mask >> last - at & 1 else was for at, (was, new) in enumerate(zip(old, given))
    )
