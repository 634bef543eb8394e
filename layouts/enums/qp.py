"""Queue pairs (qpc)."""

from __future__ import annotations

from enum import IntEnum


class QpState(IntEnum):
    """States of a queue pair (MLX5_QP_STATE_*)."""

    RST = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQER = 4
    SQD = 5
    ERR = 6
    SQ_DRAINING = 7
    SUSPENDED = 9


class QpType(IntEnum):
    """Transport services (MLX5_QP_ST_*), the field st of a qpc."""

    RC = 0x0
    UC = 0x1
    UD = 0x2
    XRC = 0x3
    MLX = 0x4
    DCI = 0x5
    DCT = 0x6
    QP0 = 0x7
    QP1 = 0x8
    RAW_ETHERTYPE = 0x9
    RAW_IPV6 = 0xA
    SNIFFER = 0xB
    REG_UMR = 0xC


class PmState(IntEnum):
    """Path migration states of a queue pair (MLX5_QP_PM_*), the field pm_state of a qpc."""

    ARMED = 0
    REARM = 1
    MIGRATED = 3


class UlpStatelessOffloadMode(IntEnum):
    """Offload modes of a datagram queue pair for IP over InfiniBand (ulp_stateless_offload_mode of
    a qpc).

    BASIC: its send WQEs have an Ethernet segment, for checksums and large sends, and its receive
    completions report checksums (hw/wr.c: handle_qpt_ud). ENHANCED: it has no rings; Ethernet
    queues send and receive for it (core/ipoib/ipoib.c).
    """

    NONE = 0
    BASIC = 1
    ENHANCED = 2


class RqType(IntEnum):
    """Sources of a queue pair's receive WQEs (MLX5_*_RQ), the field rq_type of a qpc."""

    RQ = 0
    SRQ = 1
    CRQ = 2
    ZERO_LEN_RQ = 3
