"""General objects, and values of their fields."""

from __future__ import annotations

from enum import IntEnum


class GeneralObject(IntEnum):
    """Types of general objects (rdma-core's mlx5_ifc.h: MLX5_OBJ_TYPE_*)."""

    SW_ICM = 0x8
    GENEVE_TLV_OPT = 0xB
    ENCRYPTION_KEY = 0xC
    MATCH_DEFINER = 0x18
    CRYPTO_LOGIN = 0x1F
    SAMPLER = 0x20
    FLOW_METER_ASO = 0x24
    SCHEDULING_ELEMENT = 0x26
    RESERVED_QPN = 0x2C


class MeterColor(IntEnum):
    """Colors that a flow meter gives to packets (MLX5_FLOW_METER_COLOR_*)."""

    RED = 0
    YELLOW = 1
    GREEN = 2
    UNDEFINED = 3


class MeterMode(IntEnum):
    """Units that a meter counts: flow_meter_parameters.meter_mode."""

    BYTES_IP_LENGTH = 0
    BYTES_CALC_WITH_L2 = 1
    BYTES_CALC_WITH_L2_IPG = 2
    NUM_PACKETS = 3
