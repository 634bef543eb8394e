"""Match definers: the packet fields that a flow group matches, with their masks.

Source: core/fs_cmd.c: mlx5_cmd_create_match_definer; core/lag/port_sel.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

MAX_DEFINERS: Final = 1 << 8


class MatchDefiner(Object):
    """Masks by field name of the format (layouts.steering.match_definer)."""

    __slots__ = ("format_id", "masks")
    kind = "match definer"
    numbering = Numbering(lambda made: MAX_DEFINERS)
    BASE_BYTES = 2048

    def __init__(self, format_id: int, masks: Mapping[str, int]) -> None:
        super().__init__()
        self.format_id = format_id
        self.masks = masks

    def about(self) -> dict[str, object]:
        return {"format": self.format_id, "masks": dict(self.masks)}
