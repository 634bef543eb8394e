"""Events: types, and values of their data."""

from __future__ import annotations

from enum import IntEnum


class EventType(IntEnum):
    """Event types (MLX5_EVENT_TYPE_*)."""

    COMP = 0x00
    PATH_MIG = 0x01
    COMM_EST = 0x02
    SQ_DRAINED = 0x03
    CQ_ERROR = 0x04
    WQ_CATAS_ERROR = 0x05
    PATH_MIG_FAILED = 0x07
    INTERNAL_ERROR = 0x08
    PORT_CHANGE = 0x09
    CMD = 0x0A
    PAGE_REQUEST = 0x0B
    PAGE_FAULT = 0x0C
    NIC_VPORT_CHANGE = 0x0D
    ESW_FUNCTIONS_CHANGED = 0x0E
    VHCA_STATE_CHANGE = 0x0F
    WQ_INVAL_REQ_ERROR = 0x10
    WQ_ACCESS_ERROR = 0x11
    SRQ_CATAS_ERROR = 0x12
    SRQ_LAST_WQE = 0x13
    SRQ_RQ_LIMIT = 0x14
    GPIO_EVENT = 0x15
    PORT_MODULE_EVENT = 0x16
    TEMP_WARN_EVENT = 0x17
    XRQ_ERROR = 0x18
    REMOTE_CONFIG = 0x19
    DB_BF_CONGESTION = 0x1A
    STALL_EVENT = 0x1B
    DCT_DRAINED = 0x1C
    DCT_KEY_VIOLATION = 0x1D
    FPGA_ERROR = 0x20
    FPGA_QP_ERROR = 0x21
    GENERAL_EVENT = 0x22
    MONITOR_COUNTER = 0x24
    PPS_EVENT = 0x25
    DEVICE_TRACER = 0x26
    OBJECT_CHANGE = 0x27


class PortChange(IntEnum):
    """Sub-types of a PORT_CHANGE event (MLX5_PORT_CHANGE_SUBTYPE_*)."""

    DOWN = 1
    ACTIVE = 4
    INITIALIZED = 5
    LID = 6
    PKEY = 7
    GUID = 8
    CLIENT_REREG = 9


class PageFaultSubtype(IntEnum):
    """Sub-types of a PAGE_FAULT event (MLX5_PFAULT_SUBTYPE_*)."""

    WQE = 0
    RDMA = 1
    MEMORY = 2


class CqErrorSyndrome(IntEnum):
    """Causes of a CQ_ERROR event (MLX5_CQ_ERROR_SYNDROME_*)."""

    CQ_OVERRUN = 0x1
    CQ_ACCESS_VIOLATION_ERROR = 0x2
