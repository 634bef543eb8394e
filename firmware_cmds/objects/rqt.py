"""Receive queue tables (PRM "Receive queue table"; core/en/rqt.c, qp.c of mlx5_ib)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.tir import Rqt
from layouts.enums.cmd import Op, Status
from layouts.objects import rqt as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.state.tables import ObjectTables

_RQS = 0
"""Value of list_q_type: the table lists RQs (MLX5_RQTC_LIST_Q_TYPE_RQ)."""


def _listed(rqs: Table[Rq], given: layout.rqtc, limit: int) -> tuple[Rq, ...]:
    """Return the receive queues that a rqtc lists; ``limit`` is its rqt_max_size.

    Raises BAD_PARAM_ERR for a size of 0 or above ``limit``, and for entries other than RQs. Raises
    BAD_INP_LEN_ERR for a short input, BAD_RES_ERR for an unknown RQ.
    """
    size = given.rqt_actual_size
    if given.list_q_type != _RQS or given.rq_vhca_id_format:
        raise BadParamError("RQT may only list RQs of its own function")
    if not 1 <= size <= limit:
        raise BadParamError("rqt_actual_size is 0 or above rqt_max_size", f"{size} of {limit}")
    if len(given.rq_num) < size:
        raise CmdError(Status.BAD_INP_LEN_ERR, "input is too short for its list", f"{size} RQs")
    numbers = [entry.rq_num for entry, _ in zip(given.rq_num, range(size))]
    listed = {number: rqs.need(number) for number in dict.fromkeys(numbers)}
    return tuple(listed[number] for number in numbers)


@command(Op.CREATE_RQT)
def create_rqt(tables: ObjectTables, cmd: layout.create_rqt_in, out: layout.create_rqt_out) -> None:
    """Create a list of rqt_actual_size RQs for indirect TIRs.

    Refuse with LIM_ERR an rqt_max_size above the capability, with BAD_PARAM_ERR a list that is
    empty or longer than rqt_max_size.
    """
    given = cmd.rqt_context
    if given.rqt_max_size > 1 << tables.caps.general.log_max_rqt_size:
        raise CmdError(
            Status.LIM_ERR, "rqt_max_size above log_max_rqt_size", f"{given.rqt_max_size}"
        )
    rqs = _listed(tables.rqs, given, given.rqt_max_size)
    out.rqtn = tables.rqts.add(Rqt(given.copy(), rqs))


@command(Op.MODIFY_RQT)
def modify_rqt(tables: ObjectTables, cmd: layout.modify_rqt_in, out: layout.modify_rqt_out) -> None:
    """Replace the listed RQs from the next packet on, up to rqt_max_size.

    Without the bit rqn_list nothing changes. Refuse with BAD_PARAM_ERR another bit or a list that
    is empty or too long.
    """
    rqt = tables.rqts.subject(cmd.rqtn)
    if bytes(cmd.bitmask) not in (bytes(8), bytes(7) + b"\x01"):
        raise BadParamError("RQT field cannot be modified", bytes(cmd.bitmask).hex())
    if not cmd.bitmask.rqn_list:
        return
    rqs = _listed(tables.rqs, cmd.ctx, rqt.ctx.rqt_max_size)

    def apply() -> None:
        rqt.rqs = rqs
        rqt.ctx.rqt_actual_size = len(rqs)

    tables.rqts.change(rqt, apply, Rqt.ENTRY_BYTES * (len(rqs) - len(rqt.rqs)))


@command(Op.QUERY_RQT)
def query_rqt(tables: ObjectTables, cmd: layout.query_rqt_in, out: layout.query_rqt_out) -> None:
    """Return the current context and the RQs, up to the output's space."""
    rqt = tables.rqts.need(cmd.rqtn)
    out.rqt_context = bytes(rqt.ctx)
    for place, rq in zip(out.rqt_context.rq_num, rqt.rqs, strict=False):
        place.rq_num = rq.handle


@command(Op.DESTROY_RQT)
def destroy_rqt(
    tables: ObjectTables, cmd: layout.destroy_rqt_in, out: layout.destroy_rqt_out
) -> None:
    """Destroy the RQT; refused while a TIR names it."""
    tables.rqts.remove(cmd.rqtn)
