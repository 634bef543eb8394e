"""Work queues: receive queues (rqc), send queues (sqc) and their rings (wq)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class WqType(IntEnum):
    """Memory layouts of a work queue (MLX5_WQ_TYPE_*), the field wq_type of a wq."""

    LINKED_LIST = 0x0
    CYCLIC = 0x1
    LINKED_LIST_STRIDING_RQ = 0x2
    CYCLIC_STRIDING_RQ = 0x3


class RqState(IntEnum):
    """States of a receive queue (MLX5_RQC_STATE_*)."""

    RST = 0x0
    RDY = 0x1
    ERR = 0x3


class SqState(IntEnum):
    """States of a send queue (MLX5_SQC_STATE_*)."""

    RST = 0x0
    RDY = 0x1
    ERR = 0x3


class MemRqType(IntEnum):
    """Owners of a receive queue's memory (MLX5_RQC_MEM_RQ_TYPE_MEMORY_RQ_*)."""

    INLINE = 0x0
    RMP = 0x1


class ModifyRq(IntFlag):
    """Fields that MODIFY_RQ changes beside the state (MLX5_MODIFY_RQ_IN_MODIFY_BITMASK_*)."""

    VSD = 1 << 1
    SCATTER_FCS = 1 << 2
    RQ_COUNTER_SET_ID = 1 << 3


class ShampoAlignment(IntEnum):
    """Values of rqc.shampo_no_match_alignment_granularity."""

    BYTE = 0
    STRIDE = 1
    PAGE = 2


class ShampoMatch(IntEnum):
    """Criteria for merging packets' data: rqc.shampo_match_criteria_type."""

    NO_MATCH = 0
    EXTENDED = 1
    FIVE_TUPLE = 2
