"""Packet reformat contexts: headers that flow table entries insert or remove.

Source: PRM "Packet reformat"; core/fs_cmd.c: mlx5_cmd_packet_reformat_alloc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from layouts.enums.packet_reformat import ReformatType

MAX_MOVED = 64
"""Maximum size and maximum offset of inserted or removed headers, in bytes."""


def _most(made: Limits) -> int:
    """Return the maximum number of contexts: the function's, plus an E-Switch manager's."""
    caps = made.caps
    number: int = 1 << caps.flow_table.log_max_packet_reformat_context
    if caps.general.eswitch_manager:
        number += 1 << caps.eswitch.log_max_packet_reformat_context
    return number


class PacketReformat(Object):
    """A step of entries (``emu.device.objects.eth.reshape``) with its own number."""

    __slots__ = ("changes", "ctx", "needs_whole", "parts", "reformat_type")
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
        *,
        needs_whole: bool = True,
    ) -> None:
        """Create a context; ``change`` and ``parts`` as in ``Reshape``, ``ctx`` for queries.

        ``needs_whole``: lengths and checksums of the packet must be valid first.
        """
        super().__init__()
        self.reformat_type = reformat_type
        self.changes = (change,)
        self.parts = parts
        self.ctx = ctx
        self.needs_whole = needs_whole

    def about(self) -> dict[str, Any]:
        return {"type": self.reformat_type.name}


BEGINNINGS: Final = frozenset(
    {ReformatType.L2_TO_VXLAN, ReformatType.L2_TO_NVGRE, ReformatType.L2_TO_L2_TUNNEL}
)
"""Types that encapsulate a frame in a tunnel."""
TUNNELS: Final = BEGINNINGS | {ReformatType.L2_TO_L3_TUNNEL, ReformatType.L3_TUNNEL_TO_L2}
