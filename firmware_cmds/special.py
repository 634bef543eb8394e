"""QUERY_SPECIAL_CONTEXTS: keys that exist without being created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.engine.memory import NULL_MKEY
from emu.registry import command
from layouts import hca as layout
from layouts.enums import Op

if TYPE_CHECKING:
    from emu.hca import Hca


@command(
    Op.QUERY_SPECIAL_CONTEXTS, layout.query_special_contexts_in, layout.query_special_contexts_out
)
def query_special_contexts(hca: Hca, cmd: Any, out: Any) -> None:
    """The null key; the others have capability bits that are not set."""
    if hca.caps.general.null_mkey:
        out.null_mkey = NULL_MKEY
