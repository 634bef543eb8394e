"""Link speeds and modes of an Ethernet port: the supported ones and the driver's selection.

PTYS has a legacy and an extended mask of modes. Legacy bits distinguish media; extended bits, of
adapters with lanes of 50 Gb/s, only speed and lanes. A driver selects by one of the masks. The link
partner supports every mode, so the port uses the fastest selected one.

Source: PRM "PTYS"; core/port.c: mlx5e_link_info, mlx5e_ext_link_info.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from layouts.enums.regs import ExtLinkMode, LinkMode


class Mode(NamedTuple):
    """A speed over a number of lanes."""

    speed: int
    """Mb/s."""
    lanes: int
    legacy: tuple[LinkMode, ...]
    """Legacy bits, one for each medium; empty for modes of 50 Gb/s or more per lane."""
    extended: ExtLinkMode

    @property
    def masks(self) -> tuple[int, int]:
        """Legacy and extended mask."""
        return sum(1 << bit for bit in self.legacy), 1 << self.extended


_1G = Mode(
    1_000, 1, (LinkMode.MODE_1000BASE_CX_SGMII, LinkMode.MODE_1000BASE_KX),
    ExtLinkMode.MODE_1000BASE_X_SGMII,
)  # fmt: skip
_10G = Mode(
    10_000, 1, (
        LinkMode.MODE_10GBASE_KR, LinkMode.MODE_10GBASE_CR, LinkMode.MODE_10GBASE_SR,
        LinkMode.MODE_10GBASE_ER,
    ), ExtLinkMode.MODE_10GBASE_XFI_XAUI_1,
)  # fmt: skip
_25G = Mode(
    25_000, 1,
    (LinkMode.MODE_25GBASE_CR, LinkMode.MODE_25GBASE_KR, LinkMode.MODE_25GBASE_SR),
    ExtLinkMode.MODE_25GAUI_1_25GBASE_CR_KR,
)  # fmt: skip
_40G = Mode(
    40_000, 4, (
        LinkMode.MODE_40GBASE_CR4, LinkMode.MODE_40GBASE_KR4, LinkMode.MODE_40GBASE_SR4,
        LinkMode.MODE_40GBASE_LR4,
    ), ExtLinkMode.MODE_40GBASE_XLAUI_4_XLPPI_4,
)  # fmt: skip
_50G_2X = Mode(
    50_000, 2,
    (LinkMode.MODE_50GBASE_CR2, LinkMode.MODE_50GBASE_KR2, LinkMode.MODE_50GBASE_SR2),
    ExtLinkMode.MODE_50GAUI_2_LAUI_2_50GBASE_CR2_KR2,
)  # fmt: skip
_100G_4X = Mode(
    100_000, 4, (
        LinkMode.MODE_100GBASE_CR4, LinkMode.MODE_100GBASE_KR4, LinkMode.MODE_100GBASE_SR4,
        LinkMode.MODE_100GBASE_LR4,
    ), ExtLinkMode.MODE_CAUI_4_100GBASE_CR4_KR4,
)  # fmt: skip
_50G_1X = Mode(50_000, 1, (), ExtLinkMode.MODE_50GAUI_1_LAUI_1_50GBASE_CR_KR)
_100G_2X = Mode(100_000, 2, (), ExtLinkMode.MODE_100GAUI_2_100GBASE_CR2_KR2)
_200G_4X = Mode(200_000, 4, (), ExtLinkMode.MODE_200GAUI_4_200GBASE_CR4_KR4)
_100G_1X = Mode(100_000, 1, (), ExtLinkMode.MODE_100GAUI_1_100GBASE_CR_KR)
_200G_2X = Mode(200_000, 2, (), ExtLinkMode.MODE_200GAUI_2_200GBASE_CR2_KR2)
_400G_4X = Mode(400_000, 4, (), ExtLinkMode.MODE_400GAUI_4_400GBASE_CR4_KR4)

_25G_LANES = (_1G, _10G, _25G, _40G, _50G_2X, _100G_4X)
_50G_LANES = (*_25G_LANES, _50G_1X, _100G_2X, _200G_4X)
_100G_LANES = (*_50G_LANES, _100G_1X, _200G_2X, _400G_4X)
_CHIPS: Final = {False: _25G_LANES, True: _50G_LANES}
_FASTEST_WITH_50G_LANES: Final = 200_000
_ONE_LANE: Final = 25_000


def _modes(speed: int, is_extended: bool) -> tuple[Mode, ...]:
    """Return the modes of a port whose fastest mode has ``speed`` Mb/s.

    Ports of up to 25 Gb/s have one lane. ``is_extended`` adds modes of 50 Gb/s per lane; above 200
    Gb/s there are modes of 100 Gb/s per lane in any case.
    """
    chip = _100G_LANES if speed > _FASTEST_WITH_50G_LANES else _CHIPS[is_extended]
    lanes = 1 if speed <= _ONE_LANE else max(mode.lanes for mode in chip)
    return tuple(mode for mode in chip if mode.speed <= speed and mode.lanes <= lanes)


@dataclass(slots=True)
class LinkModes:
    """The modes of a port, and the driver's selection."""

    able: tuple[Mode, ...]
    is_extended: bool
    """Whether the port has extended masks."""
    chosen: tuple[int, int] = (0, 0)
    """Legacy and extended mask; one of the two is 0."""
    mode: Mode = field(init=False)
    """The mode in use."""

    def __post_init__(self) -> None:
        self.choose(0, 0)

    @classmethod
    def of(cls, speed: int, *, is_extended: bool) -> LinkModes:
        """Return the modes of a port whose fastest mode has ``speed`` Mb/s."""
        return cls(_modes(speed, is_extended), is_extended)

    @property
    def masks(self) -> tuple[int, int]:
        """Supported modes as legacy and extended mask."""
        legacy = extended = 0
        for mode in self.able:
            one, other = mode.masks
            legacy, extended = legacy | one, extended | other
        return legacy, extended if self.is_extended else 0

    @property
    def in_use(self) -> tuple[int, int]:
        """The mode in use as masks; the legacy one has only the bit of the plugged cable."""
        legacy, extended = self.mode.masks
        if chosen := self.chosen[0]:
            legacy &= chosen
        return legacy & -legacy, extended if self.is_extended else 0

    @property
    def lanes(self) -> int:
        """Number of lanes of the port."""
        return max(mode.lanes for mode in self.able)

    def choose(self, legacy: int, extended: int) -> None:
        """Select the fastest of these modes as ``mode``, and record them as ``chosen``.

        Two masks of 0 select all modes. A nonzero extended mask takes precedence over the legacy
        one. Of two modes with the same speed the one with more lanes wins. Raises ValueError,
        without a change, if the port has none of the modes.
        """
        able = self.masks
        if not legacy and not extended:
            legacy, extended = (0, able[1]) if self.is_extended else (able[0], 0)
        elif extended:
            legacy, extended = 0, extended & able[1]
        else:
            legacy &= able[0]
        common = [
            mode for mode in self.able
            if mode.masks[0] & legacy or mode.masks[1] & extended
        ]  # fmt: skip
        if not common:
            raise ValueError("the port has none of these modes")
        self.chosen = legacy, extended
        self.mode = max(common, key=lambda mode: (mode.speed, mode.lanes))
