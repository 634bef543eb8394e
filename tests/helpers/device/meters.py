"""Flow meters as core/en/tc/meter.c makes and sets them, for the switch of a test."""

from __future__ import annotations

from layouts.enums.cmd import Op
from layouts.enums.general_object import GeneralObject, MeterColor, MeterMode
from layouts.enums.wqe import Opcode
from layouts.objects.flow_meter import flow_meter_aso_obj, flow_meter_parameters
from layouts.rings.aso_wqe import (
    ALWAYS_TRUE,
    BYTEWISE_64BYTE,
    FLOW_METER,
    LOGICAL_OR,
    LOGICAL_SHIFT,
    MASK_MODE_SHIFT,
    wqe_aso_ctrl_seg,
)
from layouts.steering.fte import exe_aso_ctrl_flow_meter

ASO = GeneralObject.FLOW_METER_ASO
DRIVERS_MASK = 0x80FF_FFFF
"""What the driver writes of a meter's 32 bytes: the first one, and from the eighth on."""


def create(driver, pdn, log_range=0, **fields):
    """The number of the first of a range of objects."""
    obj = bytes(flow_meter_aso_obj.new(meter_aso_access_pd=pdn))
    answer = driver.must(
        Op.CREATE_GENERAL_OBJECT, op_mod=ASO, log_obj_range=log_range, extra=obj, **fields
    )
    return answer.obj_id


def parameters(mode=MeterMode.BYTES_CALC_WITH_L2, burst=0, rate=(0, 0), **more):
    """``burst`` is below 256 bytes, or a multiple of 256; ``rate`` is mantissa and exponent."""
    shift = 8 if burst > 0xFF else 0
    return bytes(
        flow_meter_parameters.new(
            valid=1, start_color=MeterColor.GREEN, meter_mode=mode, cbs_mantissa=burst >> shift,
            cbs_exponent=shift, cir_mantissa=rate[0], cir_exponent=rate[1], **more,
        )
    )  # fmt: skip


def request(data=b"", mask=DRIVERS_MASK << 32, **control):
    """The segments of ACCESS_ASO behind the control segment."""
    fields = {
        "data_mask_mode": BYTEWISE_64BYTE << MASK_MODE_SHIFT,
        "condition_1_0_operand": ALWAYS_TRUE | ALWAYS_TRUE << 4,
        "data_offset_condition_operand": LOGICAL_OR << LOGICAL_SHIFT,
        "data_mask": mask,
    } | control
    return bytes(wqe_aso_ctrl_seg.new(**fields)) + data


def post(sq, number, body, opmod=FLOW_METER):
    """Post the request on a send queue, and have it done."""
    sq.post(opmod << 24 | Opcode.ACCESS_ASO, body, imm=number)
    sq.node.settle()


def set_meter(sq, number, place=0, **given):
    """Set one of an object's two meters."""
    data = (bytes(32) * place + parameters(**given)).ljust(64, b"\0")
    post(sq, number, request(data, DRIVERS_MASK << (0 if place else 32)))


def metered(number, place=0, register=5, color=MeterColor.GREEN, **more):
    """Fields of a flow_context whose entry has a meter colour its packets."""
    ctrl = exe_aso_ctrl_flow_meter.new(
        return_reg_id=register, aso_type=2, init_color=color, meter_id=place
    )
    aso = {"valid": 1, "aso_object_id": number, "exe_aso_ctrl": bytes(ctrl), **more}
    return {"execute_aso": [aso, {}, {}, {}]}
