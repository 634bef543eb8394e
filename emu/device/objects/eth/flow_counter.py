"""Counters of flow table entries."""

from __future__ import annotations

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object


def _flow_counters(made: Limits) -> int:
    general = made.caps.general
    limit: int = general.max_flow_counter_31_16 << 16 | general.max_flow_counter_15_0
    return 1 + limit


class FlowCounter(Object):
    """Counts packets and bytes of the flow table entries that refer to it."""

    __slots__ = ("octets", "packets")
    kind = "flow counter"
    numbering = Numbering(_flow_counters)

    def __init__(self) -> None:
        super().__init__()
        self.packets = self.octets = 0

    def about(self) -> dict[str, object]:
        return {"packets": self.packets, "octets": self.octets}
