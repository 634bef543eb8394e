"""Link speeds and modes as PTYS encodes them.

Source: PRM "PTYS"; core/port.c: mlx5e_link_speed, mlx5e_ext_link_speed. Adapters from 200 Gb/s on
have the extended modes; a driver uses these when there are any.
"""

from __future__ import annotations

from typing import NamedTuple

from layouts.eth_enums import ExtLinkMode, LinkMode


class Modes(NamedTuple):
    """The masks of a port that knows one speed, and how many lanes it has."""

    legacy: int
    extended: int
    lanes: int


_MODES = {
    25_000: Modes(1 << LinkMode.MODE_25GBASE_CR, 0, 1),
    100_000: Modes(
        1 << LinkMode.MODE_100GBASE_CR4, 1 << ExtLinkMode.MODE_CAUI_4_100GBASE_CR4_KR4, 4
    ),
    200_000: Modes(0, 1 << ExtLinkMode.MODE_200GAUI_4_200GBASE_CR4_KR4, 4),
    400_000: Modes(0, 1 << ExtLinkMode.MODE_400GAUI_4_400GBASE_CR4_KR4, 4),
}


def modes(speed: int) -> Modes:
    """The modes of a port of ``speed`` Mb/s. Raises KeyError for one that no model has."""
    return _MODES[speed]
