"""Switches of a board that share an FDB: the root table of one belongs to another.

Source: core/eswitch_offloads.c: esw_set_slave_root_fdb.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca
    from emu.device.objects.eth.flow.table import FlowTable
    from emu.device.state.eswitch import Eswitch
    from emu.device.state.hca import Hca


def switch_behind(adapter: Adapter[Hca], eswitch: Eswitch | None, port: int) -> Eswitch | None:
    """Return the switch of a board port; None if its manager is missing or has failed."""
    if port == adapter.number:
        return eswitch
    node = adapter.board.adapters[port - 1].manager.node
    return None if node is None or node.health.has_failed else node.eswitch


def detach_slaves(owner: Vhca[Hca], table: FlowTable | None = None) -> None:
    """Detach the other switches whose root is a table of ``owner``, or is ``table`` if given.

    Each detached switch uses its own FDB again, and its functions determine their peers anew.
    Others are unchanged.
    """
    for node in _beside(owner.adapter):
        foreign = node.eswitch.foreign_root if node.eswitch is not None else None
        if foreign is None or node.eswitch is None or foreign.owner != owner.number:
            continue
        if table is None or foreign.table is table:
            node.eswitch.foreign_root = None
            node.switch.tables_changed()


def _beside(adapter: Adapter[Hca]) -> Iterator[Hca]:
    """Yield the managers of the board's other switches."""
    for other in adapter.board.adapters:
        node = other.manager.node
        if other is not adapter and node is not None:
            yield node
