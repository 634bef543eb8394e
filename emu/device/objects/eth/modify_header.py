"""Modify header contexts: what entries of flow tables change in packets that they forward.

Source: PRM "Modify header"; core/fs_cmd.c: mlx5_cmd_modify_header_alloc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from layouts.eth_enums import FlowTableType


def nic_receive(made: Limits) -> Any:
    """What bounds the number of flow tables and of what is in them."""
    return made.caps.flow_table.flow_table_properties_nic_receive


class ModifyHeader(Object):
    """A list of changes, made one after the other."""

    __slots__ = ("changes", "in_frame", "parts", "table_type")
    kind = "modify header context"
    numbering = Numbering(lambda made: 1 << nic_receive(made).log_max_modify_header_context)
    BASE_BYTES = 1024
    CHANGE_BYTES = 512

    def __init__(
        self,
        table_type: FlowTableType,
        changes: tuple[Callable[[Any], None], ...],
        parts: frozenset[Any],
        in_frame: bool,
    ) -> None:
        """``parts`` of a packet go into what is matched later; ``in_frame``: its bytes change."""
        super().__init__()
        self.table_type = table_type
        self.changes = changes
        self.parts = parts
        self.in_frame = in_frame

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.CHANGE_BYTES * len(self.changes)
