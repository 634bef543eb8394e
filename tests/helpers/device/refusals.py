"""How the device refuses what is not there."""

from __future__ import annotations

from layouts.enums.cmd import Status


def missing(op):
    """The status of a command whose object does not exist: one that changes it wants its state."""
    is_change = not op.name.startswith(("QUERY", "ATTACH", "DETACH"))
    return Status.BAD_RES_STATE_ERR if is_change else Status.BAD_RES_ERR
