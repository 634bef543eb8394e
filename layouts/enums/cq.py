"""Completion queues (cqc)."""

from __future__ import annotations

from enum import IntEnum


class CqStatus(IntEnum):
    """States and errors of a completion queue (MLX5_CQC_STATUS_*)."""

    OK = 0x0
    CQ_OVERFLOW = 0x9
    CQ_WRITE_FAIL = 0xA


class CqPeriodMode(IntEnum):
    """Starts of the period of a CQ's moderation (MLX5_CQ_PERIOD_MODE_*)."""

    START_FROM_EQE = 0x0
    START_FROM_CQE = 0x1


class CompressionLayout(IntEnum):
    """Layouts of a compressed completion (MLX5_CQE_COMPRESS_LAYOUT_*)."""

    BASIC = 0
    ENHANCED = 1


class CqNotification(IntEnum):
    """Arm states of a completion queue (MLX5_CQC_ST_*)."""

    FIRED = 0xA
    SOLICITED_ARMED = 0x6
    ARMED = 0x9
