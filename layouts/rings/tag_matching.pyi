# Written by scripts/gen-view-types from tag_matching.py; a test fails when it is stale.

from enum import IntEnum
from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.prm import Prm

CQE_APP: Struct
CQE_APP_AT: Final = 40
APP_TAG_MATCHING: Final = 1
TM_SW_CNT: Final = 64
TM_CQE_REQ: Final = 128

class WqeTmSeg(View):
    opcode: int
    flags: int
    index: int
    sw_cnt: int
    append_tag: int
    append_mask: int

wqe_tm_seg: Prm[WqeTmSeg]

class TmCqe(View):
    success: int
    hw_phase_cnt: int

tm_cqe: Prm[TmCqe]

class CqeApp(View):
    app: int
    app_op: int
    app_info: int

cqe_app: Prm[CqeApp]

class TmOpcode(IntEnum):
    """Values of wqe_tm_seg.opcode (MLX5_TM_OPCODE_*)."""

    NOP = 0
    APPEND = 1
    REMOVE = 2

class TmAppOp(IntEnum):
    """Values of cqe_app.app_op (MLX5_CQE_APP_OP_TM_*)."""

    CONSUMED = 0x1
    EXPECTED = 0x2
    UNEXPECTED = 0x3
    NO_TAG = 0x4
    APPEND = 0x5
    REMOVE = 0x6
    NOOP = 0x7
    CONSUMED_SW_RNDV = 0x9
    CONSUMED_MSG = 0xA
    CONSUMED_MSG_SW_RNDV = 0xB
    MSG_COMPLETION_CANCELED = 0xC
