"""Tag matching in rings: WQEs that change a list of tags, and their completions.

Source: rdma-core, providers/mlx5: mlx5dv.h (mlx5_wqe_tm_seg, mlx5_cqe64, mlx5_tm_cqe), mlx5.h
(MLX5_TM_OPCODE_*, MLX5_SRQ_FLAG_TM_*), cq.c (MLX5_CQE_APP_OP_TM_*).
"""

from __future__ import annotations

from enum import IntEnum

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the library's structures.
# fmt: off

class wqe_tm_seg(Prm):
    opcode = bits(4); _ = rsvd(4); flags = bits(8); index = bits(16)
    _ = rsvd(16); sw_cnt = bits(16); _ = rsvd(64); append_tag = bits(64); append_mask = bits(64)

class tm_cqe(Prm):
    """First words of the completion of such a WQE."""

    success = bits(1); _ = rsvd(31); hw_phase_cnt = bits(16); _ = rsvd(80)

class cqe_app(Prm):
    """Word before byte_cnt, which the driver does not know."""

    app = bits(8); app_op = bits(8); app_info = bits(16)

# fmt: on

CQE_APP = cqe_app.packer("app", "app_op", "app_info")
CQE_APP_AT = 40
APP_TAG_MATCHING = 1

TM_SW_CNT = 1 << 6
"""Flag of wqe_tm_seg.flags: ``sw_cnt`` is valid."""
TM_CQE_REQ = 1 << 7
"""Flag of wqe_tm_seg.flags: a completion is requested."""


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
