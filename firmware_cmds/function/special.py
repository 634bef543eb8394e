"""QUERY_SPECIAL_CONTEXTS: keys that exist without being created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.mr.special_keys import DUMP_FILL_MKEY, NULL_MKEY, RESERVED_LKEY
from layouts.enums.cmd import Op
from layouts.function import hca as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables


@command(Op.QUERY_SPECIAL_CONTEXTS, privileged=True)
def query_special_contexts(
    tables: ObjectTables,
    cmd: layout.query_special_contexts_in,
    out: layout.query_special_contexts_out,
) -> None:
    """Return the reserved lkey; the null and dump-fill keys only if their capability is set.

    The reserved lkey opens all of guest memory, so only the driver may send the command.
    """
    general = tables.caps.general
    if general.null_mkey:
        out.null_mkey = NULL_MKEY
    if general.dump_fill_mkey:
        out.dump_fill_mkey = DUMP_FILL_MKEY
    out.resd_lkey = RESERVED_LKEY
