"""Forward error correction of the link: the capabilities, and the code in use.

The link has no bit errors, so no bits are corrected; ethtool can still select the code.

Source: PRM "PPLM"; core/en/port.c: mlx5e_fec_admin_field, mlx5e_set_fec_mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import Final, NamedTuple

from emu.device.port.eth.physical.speed import Mode


class Fec(IntFlag):
    """Codes, as in pplm_reg.fec_mode_active (core/en/port.h: MLX5E_FEC_*)."""

    NONE = 1 << 0
    FIRECODE = 1 << 1
    RS_528_514 = 1 << 2
    RS_544_514 = 1 << 7


class FecOfLink(NamedTuple):
    """The error correction of one link mode."""

    field: str
    """The mode in the field names of pplm_reg."""
    capable: Fec
    automatic: Fec
    """The code in use if none is selected."""


_SHORT: Final = FecOfLink("10g_40g", Fec.NONE | Fec.FIRECODE, Fec.NONE)
_ALL: Final = Fec.NONE | Fec.FIRECODE | Fec.RS_528_514
_OF_25G_LANES: Final = {
    10_000: _SHORT,
    25_000: FecOfLink("25g", _ALL, Fec.RS_528_514),
    40_000: _SHORT,
    50_000: FecOfLink("50g", _ALL, Fec.RS_528_514),
    100_000: FecOfLink("100g", Fec.NONE | Fec.RS_528_514, Fec.RS_528_514),
}
_NO_CHOICE: Final = FecOfLink("", Fec.NONE, Fec.NONE)
_25G_LANE = 25_000


def of_mode(mode: Mode) -> FecOfLink:
    """Return the error correction of a link mode; lanes above 25 Gb/s always have RS-FEC.

    1 Gb/s has no choice and an empty ``field``.
    """
    if mode.speed > _25G_LANE * mode.lanes:
        name = f"{mode.speed // 1000}g_{mode.lanes}x"
        return FecOfLink(name, Fec.RS_544_514, Fec.RS_544_514)
    return _OF_25G_LANES.get(mode.speed, _NO_CHOICE)


def of_modes(modes: Iterable[Mode]) -> dict[str, FecOfLink]:
    """Return the error correction of the modes with a choice, by name in pplm_reg."""
    codes = (of_mode(mode) for mode in modes)
    return {one.field: one for one in codes if one.field}


def in_use(mode: Mode, chosen: Mapping[str, int]) -> int:
    """Return the code of a link in this mode: the one chosen for the mode, or the automatic one."""
    link = of_mode(mode)
    return chosen.get(link.field) or link.automatic
