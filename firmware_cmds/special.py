"""QUERY_SPECIAL_CONTEXTS: keys that exist without being created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.engine.special_keys import DUMP_FILL_MKEY, NULL_MKEY, RESERVED_LKEY
from emu.registry import command
from emu.resources import DRIVER_UID
from layouts import hca as layout
from layouts.enums import Op

if TYPE_CHECKING:
    from emu.hca import Hca


@command(
    Op.QUERY_SPECIAL_CONTEXTS,
    layout.query_special_contexts_in,
    layout.query_special_contexts_out,
    privileged=True,
)
def query_special_contexts(hca: Hca, cmd: Any, out: Any) -> None:
    """The null key and the dump-fill key, which have capability bits, and the reserved lkey.

    That one opens all of guest memory, so only the driver is told.
    """
    general = hca.caps.general
    if general.null_mkey:
        out.null_mkey = NULL_MKEY
    if general.dump_fill_mkey:
        out.dump_fill_mkey = DUMP_FILL_MKEY
    if hca.caller.uid == DRIVER_UID:
        out.resd_lkey = RESERVED_LKEY
