"""Multicast groups of datagram queue pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import GROUPS_PER_PORTION
from emu.device.state.tables import MULTICAST
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpType
from layouts.objects import qp as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables

MEMBERSHIP_BYTES = 512
"""Host memory in bytes for one membership of a multicast group."""


@command(Op.ATTACH_TO_MCG)
def attach_to_mcg(
    tables: ObjectTables, cmd: layout.attach_to_mcg_in, out: layout.attach_to_mcg_out
) -> None:
    """Join a datagram queue pair to the multicast group.

    Refuse with BAD_PARAM_ERR another service, with BAD_RES_STATE_ERR a second membership. Refuse
    with LIM_ERR above log_max_mcg groups or max_qp_mcg members, or without host memory.
    """
    qp = tables.qps.need(cmd.qpn)
    if qp.ctx.st != QpType.UD:
        raise BadParamError("only a UD queue pair can join a multicast group", f"{qp!r}")
    gid, caps = cmd.multicast_gid, tables.caps.general
    if gid in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "queue pair is already in the multicast group")
    if gid not in tables.mcgs and len(tables.mcgs) >= 1 << caps.log_max_mcg:
        raise CmdError(Status.LIM_ERR, "out of multicast groups", f"{len(tables.mcgs)} live")
    if len(tables.mcgs.get(gid, ())) >= caps.max_qp_mcg:
        raise CmdError(Status.LIM_ERR, "multicast group is full", f"{caps.max_qp_mcg} QPs")
    tables.ledger.take(MULTICAST, MEMBERSHIP_BYTES)
    tables.mcgs.setdefault(gid, []).append(qp)
    qp.mcgs[gid] = None


@command(Op.DETACH_FROM_MCG)
def detach_from_mcg(
    tables: ObjectTables, cmd: layout.detach_from_mcg_in, out: layout.detach_from_mcg_out
) -> None:
    """Remove a queue pair from the multicast group.

    Refuse with BAD_RES_STATE_ERR one that is not a member.
    """
    qp = tables.qps.need(cmd.qpn)
    if cmd.multicast_gid not in qp.mcgs:
        raise CmdError(Status.BAD_RES_STATE_ERR, "queue pair is not in the multicast group")
    del qp.mcgs[cmd.multicast_gid]
    _leave(tables, qp, cmd.multicast_gid)


def leave_all_groups(tables: ObjectTables, qp: Qp) -> Portions[None]:
    """Remove a queue pair from all its multicast groups, of which it may have a million."""
    while qp.mcgs:
        for _ in range(min(len(qp.mcgs), GROUPS_PER_PORTION)):
            _leave(tables, qp, qp.mcgs.popitem()[0])
        if qp.mcgs:
            yield


def _leave(tables: ObjectTables, qp: Qp, gid: bytes) -> None:
    """Remove a member from the group; the group ends with its last.

    Credit the ledger with one membership. The caller removes the group from the queue pair.
    """
    tables.mcgs[gid].remove(qp)
    tables.ledger.give_back(MULTICAST, MEMBERSHIP_BYTES)
    if not tables.mcgs[gid]:
        del tables.mcgs[gid]
