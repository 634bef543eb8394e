"""Modify header contexts: changes that flow table entries make to forwarded packets.

Source: PRM "Modify header"; core/fs_cmd.c: mlx5_cmd_modify_header_alloc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.object import Object
from layouts.enums.flow_table import FlowTableType


def limit_of(field: str) -> Callable[[Limits], int]:
    """Return a function that computes a limit from log2 ``field`` of flow_table_prop_layout.

    The limit is that of NIC_RX; on an E-Switch manager those of FDB and ACLs are added.
    """

    def limit(made: Limits) -> int:
        """Return the sum of the limits of all table types of the function."""
        caps = made.caps
        switch = caps.eswitch_tables
        types = [caps.flow_table.flow_table_properties_nic_receive]
        if caps.general.eswitch_manager:
            types += [
                switch.flow_table_properties_nic_esw_fdb,
                switch.flow_table_properties_esw_acl_ingress,
                switch.flow_table_properties_esw_acl_egress,
            ]
        return sum(1 << getattr(properties, field) for properties in types)

    return limit


class ModifyHeader(Object):
    """A list of changes, applied in order."""

    __slots__ = ("changes", "in_frame", "parts", "table_type")
    kind = "modify header context"
    numbering = Numbering(limit_of("log_max_modify_header_context"))
    BASE_BYTES = 1024
    CHANGE_BYTES: ClassVar[int] = 512
    reshapes = False
    needs_whole = False
    """The changes do not move headers."""

    def __init__(
        self,
        table_type: FlowTableType,
        changes: tuple[Callable[[Any], None], ...],
        parts: frozenset[Any],
        in_frame: bool,
    ) -> None:
        """Create the context; ``parts`` affect later matches, ``in_frame``: frame bytes change."""
        super().__init__()
        self.table_type = table_type
        self.changes = changes
        self.parts = parts
        self.in_frame = in_frame

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.CHANGE_BYTES * len(self.changes)
