"""Forward error correction of the link: what the port can do, and which it uses.

The link loses no bits, so that nothing is ever corrected; ethtool can choose the code all the same.

Source: PRM "PPLM"; core/en/port.c: mlx5e_fec_admin_field, mlx5e_set_fec_mode.
"""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple


class Fec(IntFlag):
    """Codes, as pplm_reg.fec_mode_active has them (core/en/port.h: MLX5E_FEC_*)."""

    NONE = 1 << 0
    FIRECODE = 1 << 1
    RS_528_514 = 1 << 2
    RS_544_514 = 1 << 7


class FecOfLink(NamedTuple):
    """The error correction of one link speed."""

    mode: str
    """The speed in the names of pplm_reg's fields."""
    capable: Fec
    automatic: Fec
    """What is used when nothing has been chosen."""


_OF_SPEED = {
    25_000: FecOfLink("25g", Fec.NONE | Fec.FIRECODE | Fec.RS_528_514, Fec.RS_528_514),
    100_000: FecOfLink("100g", Fec.NONE | Fec.RS_528_514, Fec.RS_528_514),
    200_000: FecOfLink("200g_4x", Fec.RS_544_514, Fec.RS_544_514),
    400_000: FecOfLink("400g_4x", Fec.RS_544_514, Fec.RS_544_514),
}


def of_speed(speed: int) -> FecOfLink:
    """The error correction of a port of ``speed`` Mb/s. Raises KeyError as ``speed.modes`` does."""
    return _OF_SPEED[speed]
