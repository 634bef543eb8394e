"""Link aggregation (lagc)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class LagPortSelect(IntEnum):
    """Methods of choosing a packet's port in a LAG: lagc.port_select_mode."""

    QUEUE_AFFINITY = 0
    PORT_SELECT_FT = 1
    PORT_SELECT_MPESW = 2


class ModifyLag(IntFlag):
    """Bits of modify_lag_in.field_select (core/lag/lag.c)."""

    TX_REMAP_AFFINITY = 1 << 0
    ACTIVE_PORT = 1 << 1
