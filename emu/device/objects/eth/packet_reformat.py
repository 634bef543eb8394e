"""Packet reformat contexts: headers that entries of flow tables put before a packet, or take away.

Source: PRM "Packet reformat"; core/fs_cmd.c: mlx5_cmd_packet_reformat_alloc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from layouts.eth_enums import ReformatType

MAX_MOVED = 64
"""Headers that are inserted or removed have at most so many bytes, and begin no later."""


def _most(made: Limits) -> int:
    """Those of tables of the function come on top of a switch's."""
    caps = made.caps
    number: int = 1 << caps.flow_table.log_max_packet_reformat_context
    if caps.general.eswitch_manager:
        number += 1 << caps.eswitch.log_max_packet_reformat_context
    return number


class PacketReformat(Object):
    """A step of entries (``emu.device.objects.eth.reshape``) with a number of its own."""

    __slots__ = ("changes", "ctx", "parts", "reformat_type")
    kind = "packet reformat context"
    numbering = Numbering(_most)
    BASE_BYTES = 2048
    in_frame = True
    reshapes = True

    def __init__(
        self,
        reformat_type: ReformatType,
        change: Callable[[Any], bytes],
        parts: frozenset[Any],
        ctx: bytes,
    ) -> None:
        """``change`` and ``parts`` as in ``Reshape``; ``ctx`` is what a query returns."""
        super().__init__()
        self.reformat_type = reformat_type
        self.changes = (change,)
        self.parts = parts
        self.ctx = ctx

    @property
    def needs_whole(self) -> bool:
        """Whether lengths and checksums of the packet have to be right before."""
        return self.reformat_type in TUNNELS

    def about(self) -> dict[str, Any]:
        return {"type": self.reformat_type.name}


BEGINNINGS: Final = frozenset(
    {ReformatType.L2_TO_VXLAN, ReformatType.L2_TO_NVGRE, ReformatType.L2_TO_L2_TUNNEL}
)
"""Types that put a frame into a tunnel."""
TUNNELS: Final = BEGINNINGS | {ReformatType.L2_TO_L3_TUNNEL, ReformatType.L3_TUNNEL_TO_L2}
